"""The site as files: every page is in the navigation, every link leads somewhere, every public name has a page."""

import importlib
import re
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from tests.docs_pages import CODE_SPAN, DOCS, FENCE, ROOT, name_of
from tests.site.building import build_site

PAGES = sorted(path for path in DOCS.glob("**/*.md") if path.parent.name != "generated")
PUBLIC = ["accous", *(f"accous.{name}" for name in ("datasets", "deep", "exceptions", "keyed", "river", "streams"))]
TOCTREE = re.compile(r"```\{toctree\}\n(?P<lines>.*?)```", re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(\s*<?(?P<file>[^)#\s>]*)(?:#(?P<anchor>[^)\s>]+))?")
HEADING = re.compile(r"^#{1,6} +(.+?)\s*#*$", re.MULTILINE)
IMAGE = re.compile(r"!\[(?P<text>[^\]]*)\]\((?P<file>[^)\s]+)\)")


def entries(page: Path) -> list[Path]:
    """The pages that a page's tables of contents name."""
    found = []
    for tree in TOCTREE.finditer(page.read_text(encoding="utf-8")):
        lines = [line.strip() for line in tree["lines"].splitlines() if line.strip() and not line.startswith(":")]
        names = [re.sub(r".*<(.+)>", r"\1", line) for line in lines]
        for name in names:
            found += sorted(map(Path.resolve, page.parent.glob(f"{name}.md"))) or [page.parent / f"{name}.md"]
    return found


@cache
def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    found: set[str] = set()
    for heading in HEADING.findall(text):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "").lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        number = 0
        while (numbered := f"{slug}-{number}" if number else slug) in found:
            number += 1
        found.add(numbered)
    return found


def test_every_page_is_in_the_navigation_once():
    start = DOCS / "index.md"
    listed, queue = [start], [start]
    while queue:
        children = entries(queue.pop())
        listed += children
        queue += [child for child in children if child.is_file()]
    assert [name_of(page) for page in listed if not page.is_file()] == []
    assert sorted(map(name_of, listed)) == sorted(map(name_of, PAGES))


def test_links_to_headings_find_them_and_headings_step_down_one_by_one():
    missing, wrong = [], []
    for page in PAGES:
        text = FENCE.sub("", page.read_text(encoding="utf-8"))
        for link in LINK.finditer(CODE_SPAN.sub("", text)):
            target = (page.parent / link["file"]).resolve() if link["file"] else page
            if link["anchor"] and target.suffix == ".md" and link["anchor"] not in anchors(target):
                missing.append((name_of(page), link[0]))
        levels = [len(line.split()[0]) for line in text.splitlines() if re.match(r"#{1,6} ", line)]
        # A page that only includes another has none.
        if levels and (levels[0] != 1 or any(after > before + 1 for before, after in pairwise(levels))):
            wrong.append((name_of(page), levels))
    assert not missing
    assert not wrong


def test_images_exist_and_say_what_they_show():
    for page in PAGES:
        for image in IMAGE.finditer(FENCE.sub("", page.read_text(encoding="utf-8"))):
            assert (page.parent / image["file"]).is_file(), (name_of(page), image["file"])
            assert image["text"].split(), (name_of(page), image["file"])


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_in_the_reference(module):
    listed: set[str] = set()
    for page in (DOCS / "reference").glob("*.md"):
        for block in page.read_text(encoding="utf-8").split(".. currentmodule:: ")[1:]:
            home, _, rest = block.partition("\n")
            listed |= {f"{home}.{name}" for name in re.findall(r"^   (\w+)$", rest, re.MULTILINE)}
    names = set(importlib.import_module(module).__all__) - {"__version__"}
    modules = {name for name in names if f"accous.{name}" in PUBLIC or f"accous.{name}" == module}
    elsewhere = {"AccousError"} if module == "accous" else set()  # with the other errors
    assert {f"{module}.{name}" for name in names - modules - elsewhere} - listed == set()


def test_the_reference_describes_every_command(monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "_ext")
    reference = importlib.import_module("command_reference")
    described = dict(reference.all_commands())
    assert len(described) > 10
    for name, command in described.items():
        text = "\n".join(reference.describe(name, command))
        assert text.startswith(f"## {name}\n")
        options = [option for each in command.params if not each.hidden for option in each.opts if option[0] == "-"]
        assert all(option in text for option in options)


def test_the_reference_lists_every_endpoint():
    routes = (ROOT / "src" / "accous" / "service" / "app.py").read_text(encoding="utf-8")
    addresses = set(re.findall(r'\b(?:get|look|post)\("(/[^"]*)"', routes))
    assert len(addresses) > 10
    listed = set(re.findall(r"`(/[^`]*)`", (DOCS / "reference" / "endpoints.md").read_text(encoding="utf-8")))
    assert addresses <= listed


def test_exit_codes_are_those_that_the_program_documents():
    from accous.cli import main

    codes = set(re.findall(r"^\| ([\d]+) \|", (DOCS / "reference" / "exit_codes.md").read_text(), re.MULTILINE))
    assert {"0", "1", "2", "3", "130", "141", "143"} == codes
    assert set(re.findall(r"\b(\d+)\b", main.__doc__.split("Returns")[1])) == codes


def test_the_theme_loads_nothing_from_elsewhere():
    for file in (DOCS / "_static").rglob("*.*"):
        assert "//" not in re.sub(r"^\s*//.*$|https?://www\.w3\.org\S*", "", file.read_text(), flags=re.MULTILINE), file


def test_reading_the_whole_site_gives_no_warning(tmp_path, forks):
    """Docstrings, references, tables of contents and Markdown; `make test-slow` also writes and checks the HTML."""
    pytest.importorskip("sphinx", reason="needs sphinx: pip install 'accous[docs]'")
    left_over = DOCS / "reference" / "generated" / "accous.moved.Away.rst"
    left_over.parent.mkdir(exist_ok=True)
    left_over.write_text("Away\n====\n")
    build_site(tmp_path, forks, "dummy")
    assert not left_over.exists()


def test_tables_and_pictures_get_boxes(monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "_ext")
    boxes = importlib.import_module("scroll_boxes")
    table = boxes.with_boxes('<div class="pst-scrollable-table-container"><table></table></div>')
    assert table.startswith(
        '<div class="pst-scrollable-table-container" role="region" aria-label="table" tabindex="0">'
    )
    picture = boxes.with_boxes('<p><img alt="a" src="a.svg" /><img alt="a" src="b.svg" />\n</p><p>text <img /></p>')
    assert picture.count("<div") == picture.count("</div>") == 1
    assert picture.endswith("</div><p>text <img /></p>")


def luminance(colour: str) -> float:
    """How bright a colour is to the eye, by the definition of the WCAG."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(("theme", "ground"), [("light", "#ffffff"), ("dark", "#14181e")])
def test_colours_can_be_read_on_their_ground(theme, ground):
    sheet = (DOCS / "_static" / "site.css").read_text()
    block = re.search(rf'data-theme="{theme}"\] \{{(.*?)\}}', sheet, re.DOTALL)[1]
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))
    assert len(colours) == 8
    for name, colour in colours.items():
        if name != "accous-grid":
            assert contrast(colour, ground) >= 4.5, (name, contrast(colour, ground))
