"""The guard: which one is chosen, when it holds the adaptation back, and that a model keeps to it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import accous
from accous import AdaptiveClassifier, NoShift
from accous.diagnostics.risk import NO_EVIDENCE, Evidence, Look
from accous.exceptions import ParameterError
from accous.model.backtest import Backtest
from accous.model.safeguards import (
    CAUTIONS,
    DOUBTED,
    FREE,
    GAIN_STANDARD_ERRORS,
    LARGEST_LOSS,
    LARGEST_UNEXPLAINED,
    LENIENT,
    OFF,
    QUIET_DRIFT,
    STRICT,
    UNPROVEN,
    VETO_STANDARD_ERRORS,
    Guard,
    choose_guard,
)
from tests.classifiers import PROBE, drifting_batches, labelled_rows, play, shown_state

NAN = float("nan")


def evidence(unexplained: float = 0.0, drift: float = 0.0, gain: float = 0.0) -> Evidence:
    found = replace(NO_EVIDENCE.fixed, unexplained=unexplained)
    return replace(NO_EVIDENCE, n_looks=12, fixed=found, drift=drift, gain=gain)


# --- which one ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "normal", "high"),
    [
        (None, LENIENT, UNPROVEN),
        (evidence(), LENIENT, LENIENT),
        (evidence(drift=QUIET_DRIFT - 0.001, gain=0.1), LENIENT, LENIENT),
        (evidence(drift=QUIET_DRIFT), STRICT, STRICT),
        (evidence(drift=0.5, gain=LARGEST_LOSS), STRICT, STRICT),
        (evidence(drift=0.5, gain=LARGEST_LOSS + 0.0001), OFF, OFF),
        (evidence(drift=0.5, gain=-0.1), STRICT, STRICT),
        (evidence(unexplained=LARGEST_UNEXPLAINED), OFF, OFF),
        (evidence(unexplained=LARGEST_UNEXPLAINED - 0.001), LENIENT, LENIENT),
        (evidence(unexplained=LARGEST_UNEXPLAINED, drift=0.5, gain=-0.1), DOUBTED, DOUBTED),
    ],
)
def test_the_choice(found: Evidence | None, normal: Guard, high: Guard) -> None:
    assert choose_guard(found, "low") is LENIENT
    assert choose_guard(found, "normal") is normal
    assert choose_guard(found, "high") is high


def test_a_gain_beside_a_backtest_that_forbids_adaptation_is_one_on_the_replayed_rows() -> None:
    look = Look(
        n_reference=200,
        start=200,
        stop=300,
        error_fixed=0.4,
        error_adapted=0.3,
        estimate_fixed=0.1,
        estimate_adapted=0.1,
        half_width_fixed=0.01,
        half_width_adapted=0.01,
        drift=0.5,
    )
    doubted = evidence(unexplained=LARGEST_UNEXPLAINED, drift=0.5, gain=-0.1)
    second = Backtest(n_reference=300, looks=(look,), evidence=doubted).sentences[1]
    assert second.startswith("Adaptation would have lowered the error by 10.0 points on the replayed rows. ")
    assert second.endswith(DOUBTED.sentence)
    supported = Backtest(n_reference=300, looks=(look,), evidence=replace(doubted, fixed=evidence().fixed))
    assert "on the replayed rows" not in supported.sentences[1]


# --- what it holds back -------------------------------------------------------------------------------------

differences = st.floats(-1.0, 1.0) | st.just(NAN)
errors = st.floats(0.0, 1.0) | st.just(NAN)


@given(differences, errors)
def test_free_never_holds_back_and_off_always_does(excess: float, standard_error: float) -> None:
    assert not FREE.holds(excess, standard_error)
    assert OFF.holds(excess, standard_error)


@given(differences, errors)
def test_a_lenient_guard_asks_for_evidence_against_and_a_strict_one_for_evidence_in_favour(
    excess: float, standard_error: float
) -> None:
    is_clearly_worse = excess - VETO_STANDARD_ERRORS * standard_error > 0.0
    is_clearly_better = excess + GAIN_STANDARD_ERRORS * standard_error < 0.0
    assert LENIENT.holds(excess, standard_error) == is_clearly_worse
    assert STRICT.holds(excess, standard_error) == (not is_clearly_better)


@pytest.mark.parametrize(("guard", "is_held"), [(FREE, False), (LENIENT, False), (STRICT, True), (OFF, True)])
def test_before_the_first_comparison_nothing_is_known(guard: Guard, is_held: bool) -> None:
    assert guard.starts_held == guard.holds(NAN, NAN) == is_held


# --- in a model ---------------------------------------------------------------------------------------------


def drifting_reference(n_rows: int = 600) -> tuple[Any, Any]:
    """Rows whose first column wanders, and classes with a curved border: a linear model gains by following."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n_rows, 3))
    X[:, 0] += np.linspace(-0.5, 0.5, n_rows)
    return X, (X[:, 0] ** 2 + X[:, 1] + 0.3 * rng.normal(size=n_rows) > 1.0).astype(int)


def changing_reference(n_rows: int = 600) -> tuple[Any, Any]:
    """Rows whose labels turn round in the middle."""
    X, y = drifting_reference(n_rows)
    return X, np.where(np.arange(n_rows) < n_rows // 2, y, 1 - y)


@pytest.mark.parametrize(
    ("rows", "order", "caution", "name"),
    [
        (drifting_reference, True, "normal", "strict"),
        (changing_reference, True, "normal", "off"),
        (changing_reference, True, "high", "off"),
        (changing_reference, True, "low", "lenient"),
        (changing_reference, None, "normal", "lenient"),
        (drifting_reference, None, "high", "off"),
    ],
)
def test_the_model_starts_with_the_predictor_that_its_guard_names(
    rows: Any, order: Any, caution: str, name: str
) -> None:
    model = AdaptiveClassifier(caution=caution).fit(*rows(), order=order)
    assert model.rules_.guard.name == name
    for batch in drifting_batches(3):
        assert model.trust_.is_vetoed == (name in ("strict", "off"))
        if name in ("strict", "off"):
            assert model.predict(PROBE).tolist() == model.predict_fixed(PROBE).tolist()
            assert model.estimator_ is model.fixed_.estimator
        model.adapt(batch)


def test_with_the_guard_off_the_fixed_model_predicts_in_every_round() -> None:
    model = AdaptiveClassifier(caution="high", refit="always").fit(*labelled_rows())
    free = AdaptiveClassifier(fallback="none", refit="always").fit(*labelled_rows())
    has_differed = False
    for batch in drifting_batches(80):
        assert model.predict_proba(PROBE).tobytes() == model.fixed_.estimator.predict_proba(PROBE).tobytes()
        has_differed |= free.predict_proba(PROBE).tobytes() != model.predict_proba(PROBE).tobytes()
        model.adapt(batch)
        free.adapt(batch)
    assert has_differed
    assert model.n_refits_ > 0, "it adapts behind the guard"
    assert "backtest" in model.trust_.adaptation.sentence


@pytest.mark.parametrize("parameters", [{"fallback": "none"}, {"ratio": NoShift()}], ids=["none", "no record"])
def test_without_a_fallback_nothing_is_held_back(parameters: dict[str, Any]) -> None:
    model = play(AdaptiveClassifier(caution="high", **parameters).fit(*labelled_rows()), drifting_batches(5))
    assert model.rules_.guard is FREE
    assert not model.trust_.is_vetoed


def test_a_caution_set_after_fit_holds_from_the_next_round_on() -> None:
    model = play(AdaptiveClassifier(caution="low").fit(*labelled_rows()), drifting_batches(40))
    assert model.trust_.exponent > 0.0
    assert not model.trust_.is_vetoed
    more = drifting_batches(3, seed=4)
    model.set_params(caution="high").adapt(more[0])
    assert (model.rules_.guard, model.trust_.is_vetoed) == (UNPROVEN, True)
    assert model.estimator_ is model.fixed_.estimator
    model.set_params(caution="low").adapt(more[1])
    assert (model.rules_.guard, model.trust_.is_vetoed) == (LENIENT, False)
    model.set_params(caution="high").adapt(more[2]).set_params(fallback="none").adapt(more[2])
    assert (model.rules_.guard, model.trust_.is_vetoed) == (FREE, False)


@pytest.mark.parametrize("caution", CAUTIONS)
@pytest.mark.parametrize("rows", [drifting_reference, changing_reference])
def test_a_saved_model_keeps_its_guard(caution: str, rows: Any, tmp_path: Any) -> None:
    model = play(AdaptiveClassifier(caution=caution).fit(*rows(), order=True), drifting_batches(40))
    accous.save(model, tmp_path)
    loaded = accous.load(tmp_path)
    assert (loaded.caution, loaded.rules_.guard) == (caution, model.rules_.guard)
    assert loaded.trust_ == model.trust_
    more = drifting_batches(30, seed=9)
    assert shown_state(play(loaded, more), PROBE) == shown_state(play(model, more), PROBE)


def test_a_caution_set_before_saving_holds_in_the_loaded_model_as_in_the_other(tmp_path: Any) -> None:
    model = play(AdaptiveClassifier(caution="low").fit(*labelled_rows()), drifting_batches(40))
    accous.save(model.set_params(caution="high"), tmp_path)
    loaded = accous.load(tmp_path)
    more = drifting_batches(5, seed=9)
    assert shown_state(play(loaded, more), PROBE) == shown_state(play(model, more), PROBE)
    assert loaded.trust_.is_vetoed


@pytest.mark.parametrize("caution", ["none", None, 1, "HIGH"])
def test_another_caution_is_refused(caution: Any) -> None:
    with pytest.raises(ParameterError, match=r"caution must be one of 'high', 'normal', 'low'"):
        AdaptiveClassifier(caution=caution).fit(*labelled_rows())
