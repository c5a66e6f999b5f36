"""Every picture of the documentation has one command that draws it."""

import importlib.util
import shlex
from fnmatch import fnmatch

import pytest

from benchmarks.figures import FIGURES, ROOT
from tests.docs_pages import DOCS

IMAGES = sorted(path.name for path in (DOCS / "images").iterdir())


# Without a twin in dark colours: dark pages show them in a white frame (docs/_static/site.css).
FRAMED = ("drifting_camera.png", "pool-*.png", "results-*.png", "speed.png", "support_inbox.png", "trust_*.png")


@pytest.mark.parametrize("name", [name for name in IMAGES if "-dark." not in name])
def test_it_has_a_twin_for_dark_pages_or_is_framed(name):
    stem, _, ending = name.rpartition(".")
    is_framed = any(fnmatch(name, pattern) for pattern in FRAMED)
    assert (f"{stem}-dark.{ending}" in IMAGES) != is_framed


def test_dark_pages_frame_what_has_no_twin():
    sheet = (DOCS / "_static" / "site.css").read_text()
    rule = sheet.split('html[data-theme="dark"] .bd-content img:not(.only-dark, .only-light) {')[1].split("}")[0]
    assert "background: #fff" in rule
    assert "padding" in rule


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
    assert [name for name in IMAGES if name.replace("-dark.", ".") not in text] == []
