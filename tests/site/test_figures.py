"""Every picture of the documentation has one command that draws it."""

from fnmatch import fnmatch

import pytest

from benchmarks.figures import FIGURES
from benchmarks.pages import ROOT
from tests.docs_pages import DOCS

IMAGES = sorted(path.name for path in (DOCS / "images").iterdir())


# Charts without a twin in dark colours: dark pages turn their lightness round (docs/_static/site.css).
TURNED = ("pool-*.png", "results-*.png", "speed.png", "support_inbox.png")
PHOTOGRAPHS = ("drifting_camera.png",)


def test_each_has_a_twin_for_dark_pages_or_is_turned_or_framed():
    def has_twin(name):
        stem, _, ending = name.rpartition(".")
        return f"{stem}-dark.{ending}" in IMAGES

    def has_a_rule(name):
        return any(fnmatch(name, pattern) for pattern in TURNED + PHOTOGRAPHS)

    assert [name for name in IMAGES if "-dark." not in name and has_twin(name) == has_a_rule(name)] == []


def test_one_command_draws_each():
    patterns = {name: [pattern for pattern in FIGURES if fnmatch(name, pattern)] for name in IMAGES}
    assert {name: found for name, found in patterns.items() if len(found) != 1} == {}
    assert [pattern for pattern in FIGURES if not any(fnmatch(name, pattern) for name in IMAGES)] == []


@pytest.mark.parametrize("command", [draw for draw in FIGURES.values() if isinstance(draw, str)])
def test_files_that_commands_name_exist(command):
    assert all((ROOT / word).exists() for word in command.split() if "/" in word)


def test_every_picture_is_on_a_page():
    text = "\n".join(page.read_text(encoding="utf-8") for page in [ROOT / "README.md", *DOCS.rglob("*.md")])
    assert [name for name in IMAGES if name.replace("-dark.", ".") not in text] == []
