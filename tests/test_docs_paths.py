"""Files and modules that the documentation names exist, and are where it says."""

import re
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from accous.exceptions import MissingExtraError

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = [ROOT / "src" / "accous", ROOT / "bench" / "src" / "accous_bench"]
PAGES = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("**/*.md")),
]
SOURCES = [
    # Not below benchmarks/.peers, where other packages are installed.
    *sorted(file for file in (ROOT / "benchmarks").rglob("*.py") if ".peers" not in file.parts),
    *sorted((ROOT / "examples").rglob("*.py")),
    *(file for package in PACKAGES for file in sorted(package.rglob("*.py"))),
]
FILE = re.compile(r"(?<![\w/.*{}-])((?:[\w*-]+/)*[\w*-]+\.py)(?![\w/])")
MODULE = re.compile(r"(?<![\w/.-])(accous(?:_bench)?(?:\.[A-Za-z_]\w*)+)(?![\w/])")
# Headings of sections keep the first lines of the modules that were merged into a file.
HEADING = re.compile(r"^# --- .*$", re.MULTILINE)
PICTURES = ("png", "svg", "pdf", "html", "csv", "egg", "load")
FILES_OF_THE_READER = {"client.py", "my_contenders.py", "parcels.py", "score.py", "train.py"}
# A group of entry points, and what was there once, which the changelog names.
NO_MODULES = {"accous.commands", "accous.bench", "accous.bench.contenders"}
CELL_CODE = re.compile(r"`([^`]+)`")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def names_of_files() -> set[str]:
    folders = ("src", "bench", "tests", "benchmarks", "examples", "docs")
    return {file.name for folder in folders for file in (ROOT / folder).rglob("*.py")} | {
        file.name for file in ROOT.glob("*.py")
    }


def exists(path: str, page: Path) -> bool:
    """Whether a path leads somewhere from the usual places; a bare name may be of any file of the project."""
    if "/" not in path and "*" not in path:
        return path in names_of_files()
    return leads_somewhere(path, page.parent)


@cache
def leads_somewhere(path: str, folder: Path) -> bool:
    places = (ROOT, ROOT / "src", ROOT / "bench" / "src", ROOT / "tests", *PACKAGES, folder)
    return any(any(place.glob(path)) for place in places)


@cache
def is_importable(dotted: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    module, *names = dotted.split(".")
    try:
        while names and hasattr(import_module(module), "__path__") and find_spec(f"{module}.{names[0]}"):
            module = f"{module}.{names.pop(0)}"
        if not names:
            return True
        thing = import_module(module)
        for name in names:
            if not hasattr(thing, name):
                # An attribute of an instance is named like one of its class; only its docstring tells of it.
                return isinstance(thing, type) and name in (thing.__doc__ or "")
            thing = getattr(thing, name)
    except MissingExtraError:  # it is there, for those who have the extra
        source = Path(find_spec(module).origin).read_text(encoding="utf-8")
        return re.search(rf"\b{names[0]}\b", source) is not None
    return True


def test_files_that_are_named_exist():
    missing = []
    for page in [*PAGES, *SOURCES]:
        text = HEADING.sub("", page.read_text(encoding="utf-8"))
        named = set(FILE.findall(text)) - FILES_OF_THE_READER
        missing += [(name_of(page), path) for path in sorted(named) if not exists(path, page)]
    assert missing == []


def test_modules_that_pages_name_exist():
    missing = []
    for page in PAGES:
        named = {dotted for dotted in MODULE.findall(page.read_text(encoding="utf-8")) if not dotted.endswith(PICTURES)}
        named -= NO_MODULES
        missing += [(name_of(page), dotted) for dotted in sorted(named) if not is_importable(dotted)]
    assert missing == []


def test_the_map_of_the_paper_names_what_is_in_each_file():
    """In a cell, a file is followed by names; each of them is in that file."""
    named = []
    for line in (
        (ROOT / "docs" / "paper_map.md").read_text(encoding="utf-8").split("## Where the code departs")[0].splitlines()
    ):
        if not line.startswith("| ") or ".py`" not in line:
            continue
        module = None
        for code in CELL_CODE.findall(line.split(" | ")[-1]):
            if code.endswith(".py"):
                path = code if code.startswith("accous_bench/") else f"accous/{code}"
                module = path.removesuffix(".py").replace("/", ".")
            else:
                named.append(f"{module}.{code}")
    assert len(named) > 20
    torch = {name for name in named if "adversarial" in name}
    assert [name for name in named if name not in torch and not is_importable(name)] == []


def test_the_readers_find_what_is_named():
    text = "`core/ensemble.py`, tests/oracles.py, kernels_*.py, `accous.streams`; accous_bench.grid. x/y.pyc"
    assert FILE.findall(text) == ["core/ensemble.py", "tests/oracles.py", "kernels_*.py"]
    assert MODULE.findall(text) == ["accous.streams", "accous_bench.grid"]
    assert exists("core/ensemble.py", ROOT / "README.md")
    assert not exists("core/meta.py", ROOT / "README.md")
    assert is_importable("accous.AdaptiveClassifier.fit")
    assert not is_importable("accous.core.meta")
    assert is_importable("accous.spark.adapt_stream")  # also without Spark
    assert not is_importable("accous.spark.adapt_streams")
