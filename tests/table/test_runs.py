"""Runs over a stream: where rounds end."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accous.table import runs
from accous.table.runs import RoundRule


def cut(rule: RoundRule, values: list[str], pieces: list[int]) -> list[list[str]]:
    """Rounds of a stream that comes in pieces of these sizes."""
    waiting: list[str] = []
    found: list[list[str]] = []
    arrived = 0
    for size in [*pieces, len(values)]:
        waiting += values[arrived : arrived + size]
        arrived = min(arrived + size, len(values))
        start = 0
        for stop in rule.stops(pl.DataFrame({"by": pl.Series(waiting, dtype=pl.String)}), len(waiting), is_end=False):
            found.append(waiting[start:stop])
            start = stop
        waiting = waiting[start:]
    stops = rule.stops(pl.DataFrame({"by": pl.Series(waiting, dtype=pl.String)}), len(waiting), is_end=True)
    return found + [waiting[start:stop] for start, stop in zip([0, *stops], stops, strict=False)]


@given(
    values=st.lists(st.sampled_from("ab"), max_size=40),
    pieces=st.lists(st.integers(0, 9), max_size=9),
    rule=st.one_of(st.builds(RoundRule, st.integers(1, 7)), st.just(RoundRule(by="by"))),
)
def test_where_rounds_end_does_not_depend_on_how_the_stream_comes_in_pieces(values, pieces, rule):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "LARGEST_ROUND", 6)
        found = cut(rule, values, pieces)
        assert found == cut(rule, values, [])
    assert [value for batch in found for value in batch] == values
    assert all(found)
    if rule.by:
        assert all(len(set(batch)) == 1 and len(batch) <= 6 for batch in found)
    else:
        assert all(len(batch) == rule.batch_size for batch in found[:-1])
