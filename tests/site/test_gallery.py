"""The gallery's pages say what was measured, and its pictures are those of the aggregates that are kept."""

import json
import re

import numpy as np
import pytest

from benchmarks import gallery_pictures, site_style
from benchmarks.gallery import CASES, FOLDER
from benchmarks.gallery_page import PAGES, fill
from tests.docs_pages import DOCS, name_of


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=name_of)
def test_figures_on_the_page_are_those_that_are_kept(page):
    text = page.read_text(encoding="utf-8")
    assert "<!-- figures of " in text
    assert fill(text) == text


@pytest.mark.parametrize("name", CASES)
def test_every_case_is_whole(name):
    kept = json.loads((FOLDER / f"{name}.json").read_text())
    assert len(kept["looks"]) * 500 == kept["rows"]
    assert set(kept["errors"]) == {"fixed", "used", "always adapted", "boosted"}
    for look in kept["looks"]:
        assert 0.0 <= look["low"] <= look["estimate"] <= look["high"] <= 1.0


def test_one_case_shows_that_adaptation_does_not_help_and_accous_holds_it_back():
    kept = json.loads((FOLDER / "birdstrikes.json").read_text())
    assert kept["errors"]["always adapted"] > kept["errors"]["fixed"] + 0.02
    assert kept["errors"]["used"] == kept["errors"]["fixed"]


@pytest.mark.parametrize("cases", [("birdstrikes",), pytest.param(CASES, marks=pytest.mark.slow)], ids=["one", "all"])
def test_pictures_come_in_pairs_and_are_drawn_from_what_is_kept(cases, tmp_path, monkeypatch):
    monkeypatch.setattr(site_style, "IMAGES", tmp_path)
    monkeypatch.setattr(gallery_pictures, "CASES", cases)
    gallery_pictures.main()
    drawn = sorted(path.name for path in tmp_path.iterdir())
    assert len(drawn) == 2 * len(cases)
    for name in drawn:
        fresh, kept = (curves((folder / name).read_text()) for folder in (tmp_path, DOCS / "images"))
        assert len(fresh) == len(kept) == 5, name
        for one, other in zip(fresh, kept, strict=True):
            np.testing.assert_allclose(one, other, atol=0.01, err_msg=name)


def curves(svg: str) -> list[np.ndarray]:
    """The heights of every drawn curve, between 0 and 1: margins and texts depend on the version of matplotlib."""
    found = []
    for path in re.findall(r'<path d="([^"]+)" clip-path', svg):
        heights = np.array([float(point.split()[2]) for point in path.splitlines() if point[:1] in "ML"])
        if len(heights) > 10:
            found.append((heights - heights.min()) / max(np.ptp(heights), 1e-9))
    return found
