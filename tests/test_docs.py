"""Documentation that goes stale fails here: what it runs and prints, its links, and the files and names it mentions."""

import contextlib
import importlib
import io
import re
import textwrap
from functools import cache
from pathlib import Path

import pytest

from accous.exceptions import MissingExtraError
from accous_bench import contenders
from tests.docs_left_out import COMMANDS_LEFT_OUT, PAGES_LEFT_OUT, SLOW_COMMANDS
from tests.docs_pages import CODE_SPAN, DOCS, FENCE, GUIDES, PAGES, ROOT, SESSIONS, name_of
from tests.docs_sessions import Session, assert_prints, bare, steps_of
from tests.docs_tables import write_tables

LINK = re.compile(r"\]\(\s*<?([^)\s>]+)|^\s*\[[^\]]+\]:\s*(\S+)|(?:src|href)=\"([^\"]+)\"", re.MULTILINE)
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:")
MAKE_CALL = re.compile(r"(?:^|[\s;&|])make((?:[ \t]+[\w./=-]+)*)", re.MULTILINE)
MAKE_TARGET = re.compile(r"^([a-z][\w-]*)\s*:(?!=)", re.MULTILINE)
NEED_EXTRA = {"deep.md": "efficientnet_lite_pytorch", "deploy.md": "uvicorn"}
SHELLS = {"bash", "console", "sh", "shell", "shell-session", "zsh"}
SLOW = {"deploy.md", "labels.md", "own_contender.md", "pipeline.md", "table.md"}


@pytest.fixture
def _own_contenders(monkeypatch):
    monkeypatch.setattr(contenders, "_CONTENDERS", dict(contenders._CONTENDERS))  # a block may register one


def require_extra(page: Path) -> None:
    if page.name in NEED_EXTRA:
        pytest.importorskip(NEED_EXTRA[page.name], reason="needs what the page uses: pip install 'accous[dev,deep]'")


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


# --- what runs --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_own_contenders")
@pytest.mark.parametrize("page", GUIDES, ids=name_of)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    require_extra(page)
    monkeypatch.chdir(tmp_path)
    namespace, text = {"__name__": "__main__"}, text_of(page)
    printed = io.StringIO()
    for fence in FENCE.finditer(text):
        if fence["word"] == "output":
            assert_prints(printed.getvalue(), fence["code"])
        elif fence["language"] == "python" and not fence["note"]:
            code = "\n" * text.count("\n", 0, fence.start("code")) + textwrap.dedent(fence["code"])
            with contextlib.redirect_stdout(printed := io.StringIO()):
                exec(compile(code, str(page), "exec"), namespace)


def commands_of(page: Path) -> list[str]:
    """Every command of the page's console blocks, without remarks."""
    fences = FENCE.finditer(text_of(page))
    blocks = [textwrap.dedent(fence["code"]) for fence in fences if fence["language"] == "console"]
    return [bare(command) for block in blocks for command, _ in steps_of(block)]


RUN = [
    page for page in GUIDES if page not in PAGES_LEFT_OUT and {*commands_of(page)} - {*COMMANDS_LEFT_OUT.get(page, ())}
]


@pytest.mark.parametrize("page", RUN, ids=name_of)
def test_commands_work_as_written(page, tmp_path, forks):
    write_tables(tmp_path)
    left_out = {*COMMANDS_LEFT_OUT.get(page, ()), *SLOW_COMMANDS}
    Session(page, tmp_path, forks, left_out).run(["console"])


@pytest.mark.slow
@pytest.mark.parametrize("command", sorted(SLOW_COMMANDS))
def test_slow_commands_work_as_written(command, tmp_path, forks):
    page = tmp_path / "page.md"
    page.write_text(f"```console\n$ {command}\n```\n")
    Session(page, tmp_path, forks).run()


@pytest.mark.usefixtures("_own_contenders")
@pytest.mark.parametrize(
    "page", [pytest.param(page, id=name_of(page), marks=[pytest.mark.slow] * (page.name in SLOW)) for page in SESSIONS]
)
def test_page_works_as_written(page, tmp_path, forks):
    require_extra(page)
    Session(page, tmp_path, forks).run()


def block(language, text, note=""):
    return f"{note}\n```{language}\n{text}\n```\n\n"


PAGE = (
    block("python", 'print("one", 1.25)')
    + block("text", "one 1.26", "<!-- output -->")
    + block("console", "$ accous fit\naccous: Missing argument ...", "<!-- exit code 2 -->")
    + block("console", "$ true", "<!-- prints nothing -->")
)


@pytest.mark.parametrize(
    ("old", "new"), [("", ""), ("1.26", "1.36"), ("accous: M", "river: M"), ("code 2", "code 1"), ("true", "echo a")]
)
def test_a_session_fails_where_the_page_is_wrong(old, new, tmp_path, forks):
    (tmp_path / "page.md").write_text(PAGE.replace(old, new))
    is_right = PAGE.replace(old, new) == PAGE
    with contextlib.nullcontext() if is_right else pytest.raises(AssertionError):
        Session(tmp_path / "page.md", tmp_path, forks).run()


def test_no_block_is_left_out_without_a_reason():
    for page, commands in COMMANDS_LEFT_OUT.items():
        assert set(commands) <= set(commands_of(page)), name_of(page)
    assert all(commands_of(page) for page in PAGES_LEFT_OUT)
    for page in GUIDES:
        for fence in FENCE.finditer(text_of(page)):
            assert fence["language"].lower() not in {"py", "py3", "python3", "pycon", "ipython"}, name_of(page)
            if fence["language"] in SHELLS and page not in PAGES_LEFT_OUT:
                assert fence["language"] == "console", name_of(page)
                assert fence["word"] != "no-test", name_of(page)
                assert fence["code"].lstrip().startswith("$ "), name_of(page)


# --- links and names --------------------------------------------------------------------------------------------


def test_relative_links_point_to_files_of_the_project_and_are_called_by_titles():
    broken = []
    for page in PAGES:
        prose = FENCE.sub("", text_of(page))
        targets = ["".join(groups) for groups in LINK.findall(CODE_SPAN.sub("", prose))]
        for target in targets:
            file = (page.parent / target.split("#")[0]).resolve()
            is_own = not SCHEME.match(target) and target[0] != "#"
            if is_own and not (file.exists() and file.is_relative_to(ROOT)):
                broken.append((name_of(page), target))
        if page in (*GUIDES, *SESSIONS):
            assert re.findall(r"\[[\w/]+\.md\]\([^)]*\)", prose) == [], name_of(page)
    assert not broken


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_make_commands_exist(name):
    text = text_of(ROOT / name)
    code = [fence["code"] for fence in FENCE.finditer(text)] + CODE_SPAN.findall(FENCE.sub("", text))
    words = " ".join(MAKE_CALL.findall(re.sub(r"#.*", "", "\n".join(code)))).split()
    called = {word for word in words if "=" not in word and not word.startswith("-")}
    assert called
    assert called <= set(MAKE_TARGET.findall(text_of(ROOT / "Makefile")))


PACKAGES = [ROOT / "src" / "accous", ROOT / "bench" / "src" / "accous_bench"]
SOURCES = [
    # Not below benchmarks/.peers, where other packages are installed.
    *sorted(file for file in (ROOT / "benchmarks").rglob("*.py") if ".peers" not in file.parts),
    *sorted((ROOT / "examples").rglob("*.py")),
    *(file for package in PACKAGES for file in sorted(package.rglob("*.py"))),
]
NAMING = [*PAGES, ROOT / "CHANGELOG.md", *sorted((DOCS / "development").glob("*.md"))]
NAMED_FILE = re.compile(r"(?<![\w/.*{}-])((?:[\w*-]+/)*[\w*-]+\.py)(?![\w/])")
NAMED_MODULE = re.compile(r"(?<![\w/.-])(accous(?:_bench)?(?:\.[A-Za-z_]\w*)+)(?![\w/])")
ENDINGS = ("png", "svg", "pdf", "html", "csv", "egg", "load")
# A group of entry points, and what was there once, which the changelog names.
NO_MODULES = {"accous.commands", "accous.bench", "accous.bench.contenders"}
FILES_OF_THE_READER = {
    "client.py", "my_contenders.py", "my_data.py", "my_shift.py", "parcels.py", "score.py", "train.py",
}  # fmt: skip


@cache
def names_of_files() -> set[str]:
    folders = ("src", "bench", "tests", "benchmarks", "examples", "docs")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    return {file.name for file in (*files, *ROOT.glob("*.py"))}


@cache
def leads_somewhere(path: str, folder: Path) -> bool:
    """Whether a path leads somewhere from the usual places; a bare name may be of any file of the project."""
    if "/" not in path and "*" not in path:
        return path in names_of_files()
    return any(
        any(place.glob(path))
        for place in (ROOT, ROOT / "src", ROOT / "bench" / "src", ROOT / "tests", *PACKAGES, folder)
    )


@cache
def is_importable(dotted: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    parts = dotted.split(".")
    for n_parts in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:n_parts]))
        except MissingExtraError:
            return True
        except ModuleNotFoundError:
            continue
        for part in parts[n_parts:]:
            try:
                is_there = hasattr(thing, part)
            except MissingExtraError:  # it is there, for those who have the extra
                return part in thing.__all__
            if not is_there:
                # An attribute of an instance is named like one of its class; only its docstring tells of it.
                return isinstance(thing, type) and part in (thing.__doc__ or "")
            thing = getattr(thing, part)
        return True
    return False


def test_files_and_modules_that_are_named_exist():
    missing = []
    for page in [*NAMING, *SOURCES]:
        # Headings of sections keep the first lines of the modules that were merged into a file.
        text = re.sub(r"^# --- .*$", "", text_of(page), flags=re.MULTILINE)
        files = set(NAMED_FILE.findall(text)) - FILES_OF_THE_READER
        missing += [(name_of(page), path) for path in sorted(files) if not leads_somewhere(path, page.parent)]
        modules = set(NAMED_MODULE.findall(text)) - NO_MODULES if page in NAMING else set()
        missing += [(name_of(page), each) for each in modules if not each.endswith(ENDINGS) and not is_importable(each)]
    assert missing == []
    assert not is_importable("accous.core.meta")


def test_the_map_of_the_paper_names_what_is_in_each_file_and_every_departure():
    listed = text_of(DOCS / "paper_map.md")
    named = []
    for line in listed.split("## Where the code departs")[0].splitlines():
        module = None
        if line.startswith("| ") and ".py`" in line:
            for code in CODE_SPAN.findall(line.split(" | ")[-1]):
                if code.endswith(".py"):
                    path = code if code.startswith("accous_bench/") else f"accous/{code}"
                    module = path.removesuffix(".py").replace("/", ".")
                elif "adversarial" not in module:  # it needs torch
                    named.append(f"{module}.{code}")
    assert len(named) > 20
    assert [name for name in named if not is_importable(name)] == []
    departing = [file for file in PACKAGES[0].rglob("*.py") if "# Departs from the paper:" in text_of(file)]
    assert [file for file in departing if file.relative_to(PACKAGES[0]).as_posix() not in listed] == []
