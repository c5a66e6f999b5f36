"""The gallery's pages say what was measured, and its pictures are those of the aggregates that are kept."""

import re

import numpy as np
import pytest

from benchmarks import gallery, pages
from benchmarks.gallery import CASES
from benchmarks.gallery import kept_case as kept_of
from tests.docs_pages import DOCS


@pytest.mark.parametrize("name", CASES)
def test_every_case_is_whole(name):
    kept = kept_of(name)
    assert len(kept["looks"]) * 500 == kept["rows"]
    assert set(kept["errors"]) == {"fixed", "used", "always adapted", "boosted"}
    for look in kept["looks"]:
        assert 0.0 <= look["low"] <= look["estimate"] <= look["high"] <= 1.0


def test_one_case_shows_that_adaptation_does_not_help_and_accous_holds_it_back():
    kept = kept_of("birdstrikes")
    assert kept["errors"]["always adapted"] > kept["errors"]["fixed"] + 0.02
    assert kept["errors"]["used"] == kept["errors"]["fixed"]


def percents(looks, model):
    """The least and the largest error of a model in these looks, in whole percent."""
    errors = [100 * look["errors"][model] for look in looks]
    return f"{min(errors):.0f}", f"{max(errors):.0f}"


def says(page, sentence):
    assert sentence in " ".join((DOCS / "gallery" / f"{page}.md").read_text(encoding="utf-8").split())


def test_the_page_about_network_traffic_tells_what_was_said_and_what_was_true():
    looks = kept_of("nsl_kdd")["looks"]
    believed = [look["predictions"] == "yes" for look in looks]
    n_believed = believed.index(False)
    assert sum(believed) == n_believed
    says("nsl-kdd", f"at the first {n_believed} looks it said that you can believe the estimate")
    before, last, after = looks[: n_believed - 1], looks[n_believed - 1], looks[n_believed:]
    assert all(look["errors"]["used"] <= look["high"] for look in [*before, *after])
    says("nsl-kdd", f"That was right {len(before)} times")
    says("nsl-kdd", f"{100 * last['errors']['used']:.1f} % of the last 500 rows were wrong")
    says("nsl-kdd", f"the interval ended at {100 * last['high']:.1f} %")
    ends = [100 * look["high"] for look in after]
    says("nsl-kdd", f"which then reached to {min(ends):.0f} to {max(ends):.0f} %")
    low, high = percents(before, "used")
    lowest, highest = percents(after, "fixed")[0], percents(after, "used")[1]
    says("nsl-kdd", f"from {low} to {high} % in a look to {lowest} to {highest} %")
    says("nsl-kdd", "from about 1 % to {} to {} %".format(*percents(after, "boosted")))


def test_the_page_about_calls_tells_how_the_errors_went():
    looks = kept_of("bank_marketing")["looks"]
    alarm = next(number for number, look in enumerate(looks) if look["inputs"] == "no")
    assert alarm == 2
    says("bank-marketing", f"at the third look: {100 * looks[alarm]['outside']:.0f} % of the rows lie outside")
    back = next(number for number in range(alarm + 2, len(looks)) if looks[number]["errors"]["fixed"] < 0.5)
    for look in looks[back:]:
        assert look["errors"]["fixed"] == pytest.approx(look["errors"]["boosted"], abs=0.005)
    says("bank-marketing", f"From {500 * (back + 1):,} rows on")
    first, last = (100 * looks[number]["errors"]["fixed"] for number in (back, -1))
    says("bank-marketing", f"in {first:.0f} % of the rows at first and in {last:.0f} % at the end")


def test_the_overview_counts_what_the_cases_say():
    cases = [kept_of(name) for name in CASES]
    better = sum(kept["errors"]["boosted"] < kept["errors"]["used"] for kept in cases)
    contradicted = sum(kept["said"]["with_late_labels"]["predictions"][0] == "no" for kept in cases)
    assert (better, contradicted) == (5, 4)
    says("index", "Boosted trees are better on five of the six")
    says("index", "show in four of the six that the estimate cannot be believed")


@pytest.mark.parametrize("cases", [("birdstrikes",), pytest.param(CASES, marks=pytest.mark.slow)], ids=["one", "all"])
def test_pictures_come_in_pairs_and_are_drawn_from_what_is_kept(cases, tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "IMAGES", tmp_path)
    monkeypatch.setattr(gallery, "CASES", {name: CASES[name] for name in cases})
    gallery.draw()
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
