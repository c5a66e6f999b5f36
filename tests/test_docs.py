"""Documentation that goes stale fails here: its code runs, its links lead somewhere, its commands exist."""

import contextlib
import io
import re
import textwrap

import pytest

from accous_bench import contenders
from tests.docs_pages import CODE_SPAN, DOCS, FENCE, GUIDES, PAGES, ROOT, SESSIONS, name_of
from tests.docs_sessions import assert_prints

PAPER_MAP = DOCS / "paper_map.md"

LINK = re.compile(r"\]\(\s*<?([^)\s>]+)|^\s*\[[^\]]+\]:\s*(\S+)|(?:src|href)=\"([^\"]+)\"", re.MULTILINE)
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:")
MAKE_CALL = re.compile(r"(?:^|[\s;&|])make((?:[ \t]+[\w./=-]+)*)", re.MULTILINE)
MAKE_TARGET = re.compile(r"^([a-z][\w-]*)\s*:(?!=)", re.MULTILINE)
NEED_EXTRA = {"deep.md": "efficientnet_lite_pytorch"}
NAMES_OF_PYTHON = {"py", "py3", "python", "python3", "pycon", "ipython"}


def python_blocks(text: str) -> list[tuple[str, str]]:
    """The blocks to run, each after as many newlines as there are lines above it, for true tracebacks; what they print.

    The second is empty if the page does not show it.
    """
    blocks = []
    for fence in FENCE.finditer(text):
        if fence["word"] == "output":
            blocks[-1] = blocks[-1][0], fence["code"]
        elif fence["language"] == "python" and not fence["note"]:
            lines_above = text.count("\n", 0, fence.start("code"))
            blocks.append(("\n" * lines_above + textwrap.dedent(fence["code"]), ""))
    return blocks


def relative_links(text: str) -> list[str]:
    """Targets of links and images, without those of code, of other sites, and of the page itself."""
    prose = CODE_SPAN.sub("", FENCE.sub("", text))
    targets = ["".join(groups) for groups in LINK.findall(prose)]
    return [target.split("#")[0] for target in targets if not SCHEME.match(target) and target[0] != "#"]


def make_targets_called(text: str) -> set[str]:
    """The targets of every `make ...` command in code; prose may use the verb."""
    code = [fence["code"] for fence in FENCE.finditer(text)] + CODE_SPAN.findall(FENCE.sub("", text))
    commands = re.sub(r"#.*", "", "\n".join(code))
    words = " ".join(MAKE_CALL.findall(commands)).split()
    return {word for word in words if "=" not in word and not word.startswith("-")}


def test_pages_exist():
    assert [name_of(path) for path in PAGES if not path.is_file()] == []


@pytest.mark.parametrize("path", GUIDES, ids=name_of)
def test_python_blocks_run(path, tmp_path, monkeypatch):
    if path.name in NEED_EXTRA:
        pytest.importorskip(NEED_EXTRA[path.name], reason="needs a network for images: pip install 'accous[deep]'")
    monkeypatch.setattr(contenders, "_CONTENDERS", dict(contenders._CONTENDERS))  # a block may register one
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    for block, shown in python_blocks(path.read_text(encoding="utf-8")):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block, str(path), "exec"), namespace)
        if shown:
            assert_prints(printed.getvalue(), shown)


def test_python_is_always_fenced_under_the_name_that_runs():
    for path in GUIDES:
        languages = {fence["language"].lower() for fence in FENCE.finditer(path.read_text(encoding="utf-8"))}
        assert languages & NAMES_OF_PYTHON <= {"python"}, name_of(path)


def test_relative_links_point_to_files_of_the_project():
    broken = []
    for path in PAGES:
        for target in relative_links(path.read_text(encoding="utf-8")):
            file = (path.parent / target).resolve()
            if not (file.exists() and file.is_relative_to(ROOT)):
                broken.append((name_of(path), target))
    assert not broken


@pytest.mark.parametrize("path", [*GUIDES, *SESSIONS], ids=name_of)
def test_links_to_pages_are_called_by_titles(path):
    """A file's name says little to a reader of the site."""
    prose = FENCE.sub("", path.read_text(encoding="utf-8"))
    assert re.findall(r"\[[\w/]+\.md\]\([^)]*\)", prose) == []


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_make_commands_exist(name):
    targets = set(MAKE_TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))
    called = make_targets_called((ROOT / name).read_text(encoding="utf-8"))
    assert called
    assert called <= targets


def test_departures_from_the_paper_are_listed():
    listed = PAPER_MAP.read_text(encoding="utf-8")
    package = ROOT / "src" / "accous"
    departing = [
        file.relative_to(package).as_posix()
        for file in sorted(package.rglob("*.py"))
        if "# Departs from the paper:" in file.read_text(encoding="utf-8")
    ]
    unlisted = [file for file in departing if file not in listed]
    assert not unlisted


PAGE = """\
Run `make test` and make sure; see [the map](docs/map.md#top "title"), [![plot](plot.png)](https://example.org),
[here](#below) and `a[0](x)`.

```console
$ make PYTHON=python3.12 lint clean && make demo  # then make tea
```

```python
x = [1](2)
```

<!-- no-test -->
```python
1 / 0
```

- in a list:
  ```python
  y = 1
  ```

<img src="image.png">

[ref]: other.md
"""


def test_reader_of_python_blocks():
    assert [code.strip() for code, _ in python_blocks(PAGE)] == ["x = [1](2)", "y = 1"]
    first_line = PAGE.splitlines().index("x = [1](2)")
    assert python_blocks(PAGE)[0] == ("\n" * first_line + "x = [1](2)\n", "")


def test_reader_of_links():
    assert sorted(relative_links(PAGE)) == ["docs/map.md", "image.png", "other.md", "plot.png"]


def test_reader_of_make_commands():
    assert make_targets_called(PAGE) == {"test", "lint", "clean", "demo"}
