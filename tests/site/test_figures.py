"""Every picture of the documentation has one command that draws it."""

import importlib.util
import shlex
from fnmatch import fnmatch

import pytest

from benchmarks.figures import FIGURES, ROOT
from tests.docs_pages import DOCS

IMAGES = sorted(path.name for path in (DOCS / "images").iterdir())


@pytest.mark.parametrize("name", IMAGES)
def test_one_command_draws_it(name):
    assert len([figure for figure in FIGURES if fnmatch(name, figure.pattern)]) == 1


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.pattern)
def test_the_command_exists_and_draws_something(figure):
    assert any(fnmatch(name, figure.pattern) for name in IMAGES)
    first, *rest = shlex.split(figure.command)
    if first == "-m":
        assert importlib.util.find_spec(rest[0])
    else:
        assert (ROOT / first).is_file()


def test_every_picture_is_on_a_page():
    text = "\n".join(page.read_text(encoding="utf-8") for page in [ROOT / "README.md", *DOCS.rglob("*.md")])
    assert [name for name in IMAGES if name.replace("-dark.svg", ".svg") not in text] == []
