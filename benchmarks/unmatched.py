"""What our runs cannot match of the paper's numbers, computed from both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import fmean

from accous.text import count
from accous_bench.protocols import PREDICT_FIRST
from accous_bench.reporting.cells import ORACLE, OURS, UNWEIGHTED, Cell, Panel
from accous_bench.reporting.document import Block, Bullets, Heading
from accous_bench.reporting.paper import paper_result
from accous_bench.reporting.wording import dataset_title, listed

__all__ = ["unmatched", "unmatched_blocks"]

_ONE_STEP = ("KMM", "KLIEP", "uLSIF", "LR")
_SYNTHETIC, _PUBLISHED = "gaussian", "gaussian_published"
_LEAST_DISTANCE = 3.0  # points between the levels of FIX that call for a word

_Place = tuple[Panel, str, Cell]


def unmatched_blocks(panels: Iterable[Panel]) -> list[Block]:
    """Return the section; nothing if there is nothing to say."""
    sentences = unmatched(panels)
    return [Heading("What cannot be matched", 2), Bullets(sentences)] if sentences else []


def unmatched(panels: Iterable[Panel]) -> list[str]:
    """Return a sentence for each kind of number that our runs do not and cannot reach."""
    headline = [panel for panel in panels if panel.protocol == PREDICT_FIRST]
    places = [(panel, shift, cell) for panel in headline for shift, cell in panel.cells.items()]
    kinds = (_below_the_oracle, _above_fix, _published_geometry, _levels)
    return [sentence for kind in kinds for sentence in kind(places)]


def _below_the_oracle(places: list[_Place]) -> Iterator[str]:
    """Name the paper's errors that lie below the exact risk of the oracle of the reconstruction."""
    found = []
    for panel, shift, cell in places:
        oracle = _mean(cell, ORACLE, "risk")
        if panel.dataset != _SYNTHETIC or oracle is None:
            continue
        for name in ("OLRE", OURS):
            published = paper_result(panel.dataset, shift, panel.batch_size, name)
            if published is not None and published.mean < oracle:
                place = f"{shift}, N_t = {panel.batch_size}"
                found.append(f"{name} {published.mean:.2f} % (oracle {oracle:.2f} %; {place})")
    if found:
        yield (
            f"In the reconstructed geometry, {count(len(found), 'number')} of the paper's table of synthetic data lie "
            f"below the exact risk of a model that is weighted with the true ratio of every round: {listed(found)}. A "
            "method that estimates this ratio can hardly reach them, so the paper's data is most likely another one."
        )


def _above_fix(places: list[_Place]) -> Iterator[str]:
    """Compare where the one-step contenders lie relative to FIX at N_t = 1, in the paper and here."""
    theirs, ours = [], []
    for panel, shift, cell in places:
        fixed, published = _mean(cell, UNWEIGHTED), paper_result(panel.dataset, shift, panel.batch_size, UNWEIGHTED)
        if panel.dataset != _SYNTHETIC or panel.batch_size != 1 or fixed is None or published is None:
            continue
        for name in _ONE_STEP:
            one, paper = _mean(cell, name), paper_result(panel.dataset, shift, panel.batch_size, name)
            theirs += [] if paper is None else [paper.mean - published.mean]
            ours += [] if one is None else [one - fixed]
    if theirs and ours and min(theirs) > 0.0 > min(ours):
        yield (
            f"At N_t = 1 the paper's one-step contenders lie {min(theirs):.1f} to {max(theirs):.1f} points above FIX; "
            f"ours lie {_signed(min(ours))} to {_signed(max(ours))} points from it. Ours are regularised, and how the "
            'paper\'s were set is not described beyond "by their default" (section "Experiments", Contenders).'
        )


def _published_geometry(places: list[_Place]) -> Iterator[str]:
    """Compare FIX and the oracle of the published geometry with the paper's FIX and Accous."""
    for panel, shift, cell in places:
        fixed, oracle = _mean(cell, UNWEIGHTED, "risk"), _mean(cell, ORACLE, "risk")
        papers = [paper_result(panel.dataset, shift, panel.batch_size, name) for name in (UNWEIGHTED, OURS)]
        if panel.dataset == _PUBLISHED and shift == "Lin" and fixed is not None and oracle is not None and all(papers):
            numbers = [paper.mean for paper in papers if paper is not None]
            yield (
                f'In the geometry that the paper publishes (appendix "Experiment Setup", Datasets), FIX has an exact '
                f"risk of {fixed:.2f} % and the oracle of {oracle:.2f} % under Lin with N_t = {panel.batch_size}; the "
                f"paper has {numbers[0]:.2f} % for FIX and {numbers[1]:.2f} % for Accous."
            )


def _levels(places: list[_Place]) -> Iterator[str]:
    """Name the data sets on which already FIX, which learns nothing online, is far from the paper's."""
    datasets = dict.fromkeys(panel.dataset for panel, _, _ in places if panel.dataset not in (_SYNTHETIC, _PUBLISHED))
    for dataset in datasets:
        pairs = [
            (ours, paper.mean)
            for panel, shift, cell in places
            if panel.dataset == dataset
            and (ours := _mean(cell, UNWEIGHTED)) is not None
            and (paper := paper_result(dataset, shift, panel.batch_size, UNWEIGHTED)) is not None
        ]
        ours, theirs = (fmean(values) for values in zip(*pairs, strict=True)) if pairs else (0.0, 0.0)
        if abs(ours - theirs) >= _LEAST_DISTANCE:
            yield (
                f"{dataset_title(dataset)}: FIX, which learns nothing online, errs on {ours:.1f} % here and on "
                f"{theirs:.1f} % in the paper (mean over the shifts). The tables differ in the data or the "
                "classifier, which no adaptation explains."
            )


def _mean(cell: Cell, name: str, measure: str = "error") -> float | None:
    """Return the mean in % over the seeds of the cell, if the contender has them."""
    values = cell.entries[name].values(measure, cell.seeds) if cell.is_complete(name) else []
    return 100.0 * fmean(values) if values else None


def _signed(points: float) -> str:
    return f"{round(points, 1) + 0.0:+.1f}".replace("-", "\N{MINUS SIGN}")
