"""The built site: no warnings, no dead links, nothing from elsewhere."""

import re
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from tests.site.building import References

pytestmark = [pytest.mark.slow]


@pytest.fixture(scope="module")
def pages(site) -> dict[Path, References]:
    return {page: References(page) for page in site.rglob("*.html") if "_static" not in page.parts}


def test_there_are_pages_for_everything(site, pages):
    assert len(pages) > 80
    for name in ("index", "start", "tutorials/table", "howto/resume", "explanation/playground", "gallery/index"):
        assert site / f"{name}.html" in pages


def test_nothing_is_loaded_from_elsewhere(site, pages):
    for page, found in pages.items():
        foreign = [target for target in found.loaded if re.match(r"(?:[a-z]+:)?//", target)]
        assert not foreign, (page, foreign)
        for target in found.loaded:
            path = unquote(urldefrag(target.split("?")[0]).url)
            if path and not path.startswith("data:"):
                assert (page.parent / path).exists(), (page, target)
    for sheet in site.rglob("*.css"):
        foreign = re.findall(r"url\(['\"]?(?:https?:)?//[^)]*|@import\s+['\"](?:https?:)?//\S*", sheet.read_text())
        assert not foreign, sheet


def test_no_link_is_dead(pages):
    for page, found in pages.items():
        for link in found.links:
            path, anchor = urldefrag(unquote(link))
            if re.match(r"[a-z]+:", path):
                continue
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), (page.name, link)
            if anchor and target in pages:
                assert anchor in pages[target].anchors, (page.name, link)


def test_what_may_scroll_has_a_name_and_is_reached_by_the_keyboard(pages):
    n_boxes = 0
    for page in pages:
        for box in re.findall(r'<div class="[^"]*(?:pst-scrollable-table-container|equation)[^>]*>', page.read_text()):
            n_boxes += 1
            assert 'role="region"' in box, (page, box)
            assert 'aria-label="' in box, (page, box)
            assert 'tabindex="0"' in box, (page, box)
    assert n_boxes > 100


def test_every_page_has_one_title_a_language_and_texts_for_its_images(pages):
    for page, found in pages.items():
        assert found.language == "en", page
        if page.name not in ("search.html", "genindex.html", "py-modindex.html"):
            assert found.n_titles == 1, page
        assert all(image.get("alt") for image in found.images), (page, found.images)
