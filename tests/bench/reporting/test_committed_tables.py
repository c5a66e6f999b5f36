"""The committed tables keep what the results page promises: five seeds of every headline cell, predicting first."""

from pathlib import Path

import pytest

from accous_bench.protocols import PREDICT_FIRST
from accous_bench.reporting.aggregate import read_aggregates
from accous_bench.reporting.cells import ENSEMBLE, ORACLE, OURS, Cell, make_panels
from accous_bench.reporting.outcomes import MIXED_PROTOCOL
from accous_bench.spec import find_spec, read_spec

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"
HEADLINE = {"table1": ("diabetes", "breast"), "table2": ("diabetes", "breast"), "table3": ("gaussian",)}
CONTENDERS = ("FIX", "KMM", "KLIEP", "uLSIF", "LR", "OLRE", ENSEMBLE, OURS, ORACLE)
FIVE = [0, 1, 2, 3, 4]


def cells_of(name: str) -> dict[tuple[str, str, int], Cell]:
    panels = make_panels(read_aggregates(RESULTS / f"{name}.json").outcomes)
    assert not [panel for panel in panels if panel.protocol == MIXED_PROTOCOL]
    return {
        (panel.dataset, shift, panel.batch_size): cell
        for panel in panels
        if panel.protocol == PREDICT_FIRST
        for shift, cell in panel.cells.items()
    }


@pytest.mark.parametrize("name", HEADLINE)
def test_every_headline_cell_has_five_seeds_of_every_contender(name: str) -> None:
    spec, cells = read_spec(find_spec(name)), cells_of(name)
    for place in [(d, shift, size) for d in HEADLINE[name] for shift in spec.shifts for size in spec.batch_sizes]:
        cell = cells[place]
        assert cell.n_rounds == spec.rounds[0], place
        assert cell.seeds == FIVE, place
        for contender in CONTENDERS:
            assert list(cell.entries[contender].done) == FIVE, (place, contender)


@pytest.mark.parametrize("name", HEADLINE)
def test_other_cells_that_were_run_have_five_seeds_of_those_who_ran(name: str) -> None:
    for place, cell in cells_of(name).items():
        for contender in set(CONTENDERS) & set(cell.entries):
            assert list(cell.entries[contender].done) == FIVE, (place, contender)
