"""When the adapted predictor is compared with the fixed one: regularly, at once after a jump, and after a pause."""

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from accous import AdaptiveClassifier
from accous.model.round import is_check_due
from accous.model.safeguards import Check, Veto
from accous.streams import ConstantShift, GaussianStream

ONES = np.ones(10)
NEAR = np.where(np.arange(10) < 5, 1.3, 0.7)  # a total variation of 0.15 away
FAR = np.where(np.arange(10) < 5, 1.5, 0.5)  # 0.25


class Erm:
    """Says how often to compare."""

    def __init__(self, rounds: int = 32, refits: int = 1) -> None:
        self.rounds_between_checks, self.refits_between_checks = rounds, refits


def check_at(n_rounds: int, n_refits: int, weights: Any) -> Check:
    return Check(Veto(True, 0.1, 0.01, n_rounds, n_refits), 12.0, weights)


@pytest.mark.parametrize(
    ("erm", "this_round", "n_refits", "weights", "is_due"),
    [
        (Erm(), 131, 11, NEAR, False),
        (Erm(), 132, 11, NEAR, True),
        (Erm(), 132, 10, NEAR, False),
        (Erm(), 101, 11, FAR, False),
        (Erm(), 102, 11, FAR, True),
        (Erm(), 102, 10, FAR, False),
        (Erm(256), 115, 11, FAR, False),
        (Erm(256), 116, 11, FAR, True),
        (Erm(1, 5), 140, 14, NEAR, False),
        (Erm(1, 5), 140, 11, FAR, False),
        (Erm(1, 5), 140, 12, FAR, True),
        (Erm(1, 5), 140, 15, NEAR, True),
    ],
)
def test_regularly_or_at_once_after_a_jump(
    erm: Any, this_round: int, n_refits: int, weights: Any, is_due: bool
) -> None:
    assert is_check_due(check_at(100, 10, ONES), erm, this_round, n_refits, weights) is is_due


@pytest.mark.parametrize("erm", [Erm(), Erm(1, 5)], ids=["built-in", "user's"])
def test_after_rounds_with_nothing_to_adapt_to_the_first_fit_is_compared(erm: Any) -> None:
    paused = check_at(100, 10, None)
    assert not is_check_due(paused, erm, 102, 10, NEAR)
    assert is_check_due(paused, erm, 102, 11, NEAR)


def adapt_to(model: AdaptiveClassifier, alpha: float, n_rounds: int, seed: int) -> list[int]:
    """Adapt to a part of the stream; return the rounds in which predictors were compared."""
    stream = GaussianStream(ConstantShift(alpha), n_rounds=n_rounds, batch_size=5, n_features=6, random_state=seed)
    compared = []
    for batch in stream:
        model.adapt(batch.X)
        check = model.state_.fallback.check
        if check.veto.n_rounds == model.n_rounds_ and check.weights is not None:
            compared.append(model.n_rounds_)
    return compared


def fitted(**parameters: Any) -> AdaptiveClassifier:
    stream = GaussianStream(ConstantShift(0.5), n_rounds=1, n_features=6, n_reference=400, alpha_0=0.5)
    return AdaptiveClassifier(**parameters).fit(*stream.reference())


def test_a_jump_is_checked_within_a_few_rounds() -> None:
    model = fitted()
    compared = adapt_to(model, 1.0, 120, seed=1)
    assert model.erm_.rounds_between_checks == 32
    # Not long after the last comparison, the stream jumps from one part to the other.
    while model.n_rounds_ - compared[-1] > 3:
        compared += adapt_to(model, 1.0, 1, seed=model.n_rounds_)
    jump = model.n_rounds_
    after = adapt_to(model, 0.0, 20, seed=3)
    assert after
    assert after[0] <= jump + 8
    assert after[0] - compared[-1] < 32
    veto = model.state_.fallback.veto
    assert veto.standard_error > 0.0


def test_standing_in_one_regime_it_is_compared_every_32_rounds_at_most() -> None:
    model = fitted()
    adapt_to(model, 1.0, 150, seed=1)
    compared = adapt_to(model, 1.0, 120, seed=2)
    assert len(compared) <= 5


@pytest.mark.parametrize("estimator", [None, LogisticRegression()], ids=["built-in", "user's"])
def test_while_there_is_nothing_to_adapt_to_the_fixed_predictor_answers_unfitted(estimator: Any) -> None:
    model = fitted(estimator=estimator)
    distances = []
    for batch in GaussianStream(ConstantShift(0.5), n_rounds=60, batch_size=5, n_features=6, random_state=1):
        n_refits = model.n_refits_
        model.adapt(batch.X)
        if model.state_.fallback.share == 0.0:
            assert model.estimator_ is model.fixed_.estimator
            assert (model.n_refits_, model.state_.fallback.check.weights) == (n_refits, None)
            distances.append(0.5 * np.abs(model.reference_weight_ - 1.0).mean())
    assert len(distances) > 50
    # The pool moved a little; no fit follows such weights.
    assert 0.0 < max(distances) < 0.1
    n_refits = model.n_refits_
    adapt_to(model, 1.0, 20, seed=2)
    assert model.n_refits_ > n_refits


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [1, 5])
def test_standing_still_costs_at_most_two_hundredths_of_a_point(batch_size: int) -> None:
    excess = []
    for seed in range(4):
        stream = GaussianStream(ConstantShift(0.9), n_rounds=2000, batch_size=batch_size, random_state=seed)
        model = AdaptiveClassifier().fit(*stream.reference())
        fixed = model.estimator_
        for batch in stream:
            excess.append(stream.risk(model.estimator_, batch.alpha) - stream.risk(fixed, batch.alpha))
            model.adapt(batch.X)
    assert 100.0 * np.mean(excess) <= 0.02
