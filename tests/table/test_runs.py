"""Runs over a stream: where rounds end, and which runs are remembered."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accous.table import runs
from accous.table.runs import MOST_RUNS, Job, JobSpec, RoundRule, last_run_with_rows, remember_run


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


def job(output: str, n_rows: int = 1) -> Job:
    return Job(spec=JobSpec("stream.csv", output, ""), n_rows=n_rows)


@pytest.mark.parametrize(
    ("earlier", "last", "current", "remembered"),
    [
        ([], job("a"), "b", ["a"]),
        (["a"], job("b", n_rows=0), "c", ["a"]),
        (["a"], job("-"), "c", ["a"]),  # it has written no file
        ([], None, "a", []),
        (["a", "b"], job("c"), "a", ["b", "c"]),  # the file of "a" is replaced
        ([str(number) for number in range(MOST_RUNS)], job("last"), "now", [*map(str, range(1, MOST_RUNS)), "last"]),
    ],
)
def test_which_runs_are_remembered(earlier, last, current, remembered):
    found = remember_run(tuple(map(job, earlier)), last, job(current))
    assert [run.spec.output for run in found] == remembered


def test_the_last_run_is_the_one_with_rows():
    empty = job("c", n_rows=0)
    assert last_run_with_rows(empty, (job("a"), job("b"))).spec.output == "b"
    assert last_run_with_rows(empty, ()) is empty
    assert last_run_with_rows(None, ()) is None
