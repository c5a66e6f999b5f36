"""Every picture of the documentation has one command that draws it."""

import importlib.util
import shlex
from fnmatch import fnmatch

import pytest

from benchmarks.figures import FIGURES, ROOT
from tests.docs_pages import DOCS

IMAGES = sorted(path.name for path in (DOCS / "images").iterdir())


# Charts without a twin in dark colours: dark pages turn their lightness round (docs/_static/site.css).
TURNED = ("pool-*.png", "results-*.png", "speed.png", "support_inbox.png", "trust_*.png")
PHOTOGRAPHS = ("drifting_camera.png",)


def test_each_has_a_twin_for_dark_pages_or_is_turned_or_framed():
    def has_twin(name):
        stem, _, ending = name.rpartition(".")
        return f"{stem}-dark.{ending}" in IMAGES

    def has_a_rule(name):
        return any(fnmatch(name, pattern) for pattern in TURNED + PHOTOGRAPHS)

    assert [name for name in IMAGES if "-dark." not in name and has_twin(name) == has_a_rule(name)] == []


def _dark_rule(image):
    sheet = (DOCS / "_static" / "site.css").read_text()
    return sheet.split(f'html[data-theme="dark"] .bd-content img{image} {{')[1].split("}")[0]


@pytest.mark.parametrize("name", PHOTOGRAPHS)
def test_dark_pages_frame_photographs(name):
    rule = _dark_rule(f'[src*="{name.removesuffix(".png")}"]')
    assert "background: #fff" in rule
    assert "filter: none" in rule


def test_one_command_draws_each():
    commands = {name: [figure for figure in FIGURES if fnmatch(name, figure.pattern)] for name in IMAGES}
    assert {name: found for name, found in commands.items() if len(found) != 1} == {}


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
