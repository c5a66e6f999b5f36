"""Weights that leave few effective rows are shrunk for the fit, by a strength that the labels choose."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from accous import AdaptiveClassifier
from accous.model.safeguards import FIRST_STRENGTH, STRENGTHS, Fit, _choose, choose_strength, is_choice_due, shrink
from accous.model.tasks import ClassTask
from accous.streams import GaussianStream, SquareShift

N = 40
BASE = np.ones(N)
WEIGHTS = np.where(np.arange(N) < 20, 1.9, 0.1)
LABELS = np.arange(N) % 2


@given(st.integers(0, 2**32 - 1), st.floats(0.0, 1e4))
def test_the_formula(seed: int, strength: float) -> None:
    rng = np.random.default_rng(seed)
    base = rng.uniform(0.1, 2.0, size=12)
    weights = base * np.exp(rng.normal(scale=2.0, size=12))
    weights *= base.sum() / weights.sum()
    n_effective = sum(weights) ** 2 / sum(w * w for w in weights)
    expected = [(n_effective * w + strength * b) / (n_effective + strength) for w, b in zip(weights, base, strict=True)]
    shrunk = shrink(weights, base, strength)
    np.testing.assert_allclose(shrunk, expected, rtol=1e-12)
    assert shrunk.sum() == pytest.approx(base.sum(), rel=1e-12)


def test_the_fewer_effective_rows_the_more_it_shrinks() -> None:
    few, many = np.where(np.arange(1000) < 10, 100.0, 0.0), np.where(np.arange(1000) < 800, 1.25, 0.0)
    ones = np.ones(1000)
    assert shrink(few, ones, 12.0)[0] == pytest.approx((10 * 100.0 + 12.0) / 22.0)
    assert shrink(many, ones, 12.0)[0] == pytest.approx((800 * 1.25 + 12.0) / 812.0)


class ScriptedErm:
    """Fits nothing: the cross-fitted probability of each row's label depends on the weights as the test says."""

    is_quick_to_cross_fit = True

    def __init__(self, losses: dict[float, Any] | None) -> None:
        self.losses = losses
        self.fitted: list[float] = []

    def strength_of(self, weights: Any) -> float:
        return next(each for each in STRENGTHS if np.array_equal(weights, shrink(WEIGHTS, BASE, each)))

    def fit(self, weights: Any, previous: Any) -> Any:
        self.fitted.append(self.strength_of(weights))
        return f"fit with {self.strength_of(weights):g}"

    def cross_fitted_probabilities(self, weights: Any, fitted: Any) -> Any:
        if self.losses is None:
            return None
        assert fitted == f"fit with {self.strength_of(weights):g}"
        of_label = 1.0 - np.broadcast_to(self.losses[self.strength_of(weights)], N)
        return np.where(np.eye(2, dtype=bool)[LABELS], of_label[:, None], 1.0 - of_label[:, None])


def choose(
    losses: dict[float, Any] | None, current: float = 12.0, this_round: int = 90
) -> tuple[float, Fit, ScriptedErm]:
    erm = ScriptedErm(losses)
    latest = Fit(f"fit with {current:g}", shrink(WEIGHTS, BASE, current), 7, 90)
    strength, fit = choose_strength(
        erm, ClassTask(np.array([0, 1]), LABELS), WEIGHTS, BASE, (current, latest), this_round
    )
    return strength, fit, erm


# One row in four differs: the mean difference is 0.05, and its standard error about 0.015.
SPREAD = np.where(np.arange(N) % 4 == 0, 0.2, 0.0)


@pytest.mark.parametrize(
    ("losses", "chosen"),
    [
        ((0.3, 0.3, 0.3), 192.0),
        ((0.3, 0.2, 0.1), 192.0),
        ((0.1, 0.2, 0.3), 12.0),
        ((0.2, 0.1, 0.3), 48.0),
        ((0.3, 0.1, 0.1), 192.0),
        ((0.2, 0.2, 0.2 + SPREAD), 48.0),
        ((0.2 + SPREAD, 0.2, 0.2 + SPREAD), 48.0),
        ((0.2, 0.2 + SPREAD, 0.2 + SPREAD), 12.0),
        # Worse by 0.001 on average, with a standard error of 0.02: as good as the best.
        ((0.3, 0.301 + np.where(np.arange(N) % 2 == 0, 0.1, -0.1), 0.5), 48.0),
        ((0.3, 0.5, 0.301 + np.where(np.arange(N) % 2 == 0, 0.1, -0.1)), 192.0),
    ],
)
def test_the_largest_strength_within_one_standard_error_of_the_best_is_chosen(losses: Any, chosen: float) -> None:
    for current in STRENGTHS:
        strength, fit, _ = choose(dict(zip(STRENGTHS, losses, strict=True)), current)
        assert strength == chosen
        assert fit.estimator == f"fit with {chosen:g}"
        np.testing.assert_array_equal(fit.weights, shrink(WEIGHTS, BASE, chosen))


def test_one_standard_error_is_that_of_the_weighted_difference() -> None:
    """Just below and just above one standard error, computed by hand."""
    noise = np.where(np.arange(N) % 2 == 0, 0.1, -0.1)
    shares = WEIGHTS / WEIGHTS.sum()
    centred = noise - shares @ noise
    error = np.sqrt(sum((share * value) ** 2 for share, value in zip(shares, centred, strict=True)))
    for factor, chosen in ((0.99, 48.0), (1.01, 12.0)):
        losses = {12.0: 0.4, 48.0: 0.4 + centred + factor * error, 192.0: 0.9}
        assert choose(losses)[0] == chosen


def test_the_fit_in_use_is_not_repeated_and_refits_are_counted() -> None:
    _, fit, erm = choose({12.0: 0.1, 48.0: 0.2, 192.0: 0.3}, current=48.0)
    assert erm.fitted == [12.0, 192.0]
    assert (fit.n_refits, fit.last_refit) == (7, 90)  # a round counts as one refit
    _, fit, _ = choose({12.0: 0.2, 48.0: 0.1, 192.0: 0.3}, current=48.0)
    assert (fit.n_refits, fit.last_refit) == (7, 90)


def test_a_fit_of_an_earlier_round_is_not_compared_with_fresh_ones() -> None:
    _, fit, erm = choose({12.0: 0.1, 48.0: 0.2, 192.0: 0.3}, current=48.0, this_round=100)
    assert erm.fitted == [12.0, 48.0, 192.0]
    assert (fit.n_refits, fit.last_refit) == (8, 100)


def test_where_rows_cannot_be_left_out_the_strength_stays() -> None:
    strength, fit, _ = choose(None, current=48.0)
    assert strength == 48.0
    assert fit.estimator == "fit with 48"


# --- in a model ---------------------------------------------------------------------------------------------


def play(
    n_features: int = 4, n_rounds: int = 80, n_reference: int = 250, **parameters: Any
) -> tuple[AdaptiveClassifier, list[Any]]:
    """The model after a jump, and (strength, last check) after every round."""
    stream = GaussianStream(
        SquareShift(period=80),
        n_rounds=n_rounds,
        n_features=n_features,
        n_reference=n_reference,
        batch_size=5,
        random_state=1,
    )
    model = AdaptiveClassifier(**parameters).fit(*stream.reference())
    history = []
    for batch in stream:
        model.adapt(batch.X)
        check = model.state_.fallback.check
        history.append((check.strength, check.veto.n_rounds))
    return model, history


def test_the_strength_changes_only_with_a_check() -> None:
    model, history = play(n_reference=100)
    assert len({strength for strength, _ in history}) > 1
    for (before, _), (after, checked), this_round in zip(
        history, history[1:], range(2, len(history) + 1), strict=False
    ):
        assert after in STRENGTHS
        assert after == before or checked == this_round
    assert is_choice_due(model.erm_, model.reference_weight_)


@pytest.mark.parametrize(
    ("n_features", "estimator"), [(140, None), (4, LogisticRegression())], ids=["many coefficients", "user's estimator"]
)
def test_where_choosing_is_expensive_the_first_strength_stays(n_features: int, estimator: Any) -> None:
    model, history = play(n_features, estimator=estimator)
    assert not is_choice_due(model.erm_, model.reference_weight_)
    assert {strength for strength, _ in history} == {FIRST_STRENGTH}
    assert model.n_refits_ > 0


def test_with_many_effective_rows_there_is_nothing_to_choose() -> None:
    model, _ = play()
    ones = np.ones(1000)
    assert not is_choice_due(model.erm_, ones[:400])
    assert is_choice_due(model.erm_, ones[:399])


def test_without_the_fallback_nothing_is_shrunk() -> None:
    model, _ = play(refit="always", fallback="none")
    np.testing.assert_array_equal(model.state_.fitted_weights, model.reference_weight_)


@pytest.mark.parametrize(
    ("gain", "chosen"), [(-1.5, 0), (0.0, 0), (0.9, 0), (1.1, 1)], ids=["worse", "equal", "not clear", "clear"]
)
def test_with_enough_effective_rows_a_larger_strength_has_to_be_clearly_better(gain: float, chosen: int) -> None:
    """The gain is in standard errors; with few rows, the larger strength is taken unless it is clearly worse."""
    n_rows = 100
    noise = np.where(np.arange(n_rows) % 2 == 0, 0.1, -0.1)
    losses = [np.full(n_rows, 0.4), 0.4 + noise - gain * 0.1 / np.sqrt(n_rows), np.full(n_rows, 0.9)]
    assert _choose(losses, np.ones(n_rows)) == chosen
    few = slice(0, 50)
    assert _choose([each[few] for each in losses], np.ones(50)) == (0 if gain < -1.45 else 1)
