"""Recipe: a meta-learner has `start`, `step` and `weights` and is handed to `choose_rounds`. Nothing else."""

from dataclasses import dataclass

import numpy as np
import pytest

from accous.core.ensemble import ADAPT_ML_PROD, CompiledRounds, PaperRounds, choose_rounds, prepare_reference
from accous.core.losses import Logistic
from tests.builders import Setup


@dataclass(frozen=True)
class Ages:
    """What the toy knows of each learner: how many rounds it has run."""

    rounds: np.ndarray

    def since(self, first):
        return Ages(self.rounds[first:])

    def after(self, younger):
        return Ages(np.concatenate((younger.rounds, self.rounds)))


class UniformWeights:
    """All learners count the same, however they did."""

    def start(self, n_learners, n_intervals):
        return Ages(np.zeros(n_learners, dtype=int))

    def step(self, meta, margins, n_intervals):
        assert np.abs(margins).max() <= 2.0
        return Ages(meta.rounds + 1)

    def weights(self, meta):
        return np.full(len(meta.rounds), 1.0 / len(meta.rounds))


@pytest.mark.parametrize("d", [3, 70, 120], ids=["compiled learners", "compiled step", "wide learners"])
def test_rounds_are_run_with_it(d):
    rng = np.random.default_rng(0)
    settings = Setup().settings(d)
    reference = prepare_reference(rng.normal(size=(50, d)) / np.sqrt(d), Logistic())
    rounds = choose_rounds(settings, reference, UniformWeights())
    assert type(rounds) is PaperRounds
    state = rounds.start()
    for round_number in range(1, 41):
        state = rounds.run(state, rng.normal(0.5, size=(2, d)) / np.sqrt(d), 1.0)
        starts = (round_number + 1) // state.lengths * state.lengths
        np.testing.assert_array_equal(state.meta.rounds, round_number + 1 - starts)
        if len(state.lengths):
            np.testing.assert_allclose(state.coef, state.learners.coefs.mean(axis=0), rtol=1e-12, atol=1e-15)
    assert len(state.lengths) > 1
    assert np.linalg.norm(state.coef) > 0.1


def test_the_papers_own_keeps_its_compiled_twin():
    settings = Setup().settings(3)
    reference = prepare_reference(np.random.default_rng(0).normal(size=(50, 3)), Logistic())
    assert isinstance(choose_rounds(settings, reference), CompiledRounds)
    assert isinstance(choose_rounds(settings, reference, ADAPT_ML_PROD), CompiledRounds)
