"""Recipe: a shift is a subclass of `Shift` with `_alphas`; the benchmark names it in accous_bench/problems.py."""

from dataclasses import dataclass

import numpy as np

from accous.streams import GaussianStream, Shift
from accous_bench.problems import SHIFTS, Setting, get_problem


@dataclass(frozen=True)
class SawShift(Shift):
    """Up in a straight line, and back at once."""

    period: int = 10

    def _alphas(self, rounds, generator):
        return (rounds % self.period) / self.period


def test_streams_take_it():
    stream = GaussianStream(SawShift(), n_rounds=25, batch_size=400, random_state=0)
    batches = list(stream)
    np.testing.assert_allclose(SawShift().alphas(25)[:11], [*np.arange(1, 10) / 10, 0.0, 0.1])
    first_column = [batch.X[:, 0].mean() for batch in batches]
    correlation = np.corrcoef(first_column, SawShift().alphas(25))[0, 1]
    assert abs(correlation) > 0.9


def test_problems_of_the_benchmark_take_it_by_name(monkeypatch):
    monkeypatch.setitem(SHIFTS, "Saw", SawShift())
    setting = Setting("Saw", 2, 25, 0, {"n_reference": 50})
    stream = get_problem("gaussian").make(setting)
    np.testing.assert_allclose([batch.alpha for batch in stream], SawShift().alphas(25))


def test_what_is_listed_is_allowed_wherever_two_parts_are_mixed():
    paths = {"fixed path", "growing path"}
    assert set(get_problem("gaussian").shifts) == set(SHIFTS) - paths
