"""The pool of OnlineDensityRatio: regimes remembered, candidates of the user's own, and how it is held back."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from accous import ULSIF, AdaptiveClassifier, LogisticRatio, NoShift, OnlineDensityRatio, SingleLearnerRatio
from accous.core.pool import N_SHAPES
from accous.core.round import RoundArrays
from accous.exceptions import ParameterError
from accous.streams import GaussianStream, SquareShift
from tests.needs import needs_compilation
from tests.oracles import PlainFilters, plain_likelihoods, plain_pooled
from tests.ratio.online_cases import SIX, THREE, TWO, RegimeStream, slot_of

A_FEW_ROUNDS = 6
NORMAL = np.random.default_rng(0).normal(size=(200, 2))

# --- regimes ----------------------------------------------------------------------------------------------------


def assert_recognised(means, schedule, memory=4, within=A_FEW_ROUNDS, **stream: float):
    """Every regime has one slot, and on every return that slot has more than half of the pool within a few rounds."""
    recurring = RegimeStream(means, **stream)
    ratio = OnlineDensityRatio(memory=memory).fit(recurring.reference())
    visits = recurring.run(ratio, schedule)
    regimes = sorted({regime for regime, _ in schedule})
    slots = {regime: {slot_of(ratio, visit) for visit in visits if visit.regime == regime} for regime in regimes}
    assert all(len(of_regime) == 1 for of_regime in slots.values()), slots
    slot = {regime: next(iter(of_regime)) for regime, of_regime in slots.items()}
    assert len(set(slot.values())) == len(regimes), slot
    assert ratio.pool_.slots.is_used.sum() == len(regimes)
    returns = visits[len(regimes) :]
    rounds = [visit.rounds_until(slot[visit.regime]) for visit in returns]
    assert all(n is not None and n <= within for n in rounds), rounds
    return ratio


OF_SIX = {"memory": 6, "n_reference": 600}


@pytest.mark.parametrize(
    ("means", "n_rounds", "n_visits", "settings"),
    [
        (TWO, 100, 3, {}),
        (TWO, 200, 3, {"batch_size": 1, "within": 40}),
        (THREE, 100, 3, {}),
        (SIX, 100, 2, OF_SIX),
        *(
            pytest.param(*case, {**settings, "seed": seed}, marks=pytest.mark.slow)
            for *case, settings in ((TWO, 100, 4, {}), (THREE, 120, 4, {}), (SIX, 150, 3, OF_SIX))
            for seed in range(1, 6)
        ),
    ],
)
def test_regimes_are_recognised(means, n_rounds, n_visits, settings):
    assert_recognised(means, [(regime, n_rounds) for regime in range(len(means))] * n_visits, **settings)


def test_regimes_that_drift_slowly_between_visits_keep_their_slots():
    ratio = assert_recognised(TWO, [(0, 80), (1, 80)] * 5, drift_per_visit=0.05)
    assert ratio.pool_.slots.n_merged[:2].min() > 8


@pytest.mark.parametrize(("day", "night", "weekend"), [(96, 64, 192), (12, 12, 48)])
def test_a_weekly_cycle_of_days_nights_and_weekends(day, night, weekend):
    """Days of twelve rounds are shorter than a look of 16: a look ends with the regime."""
    recurring = RegimeStream(THREE)
    ratio = OnlineDensityRatio().fit(recurring.reference())
    week = [(0, day), (1, night)] * 5 + [(2, weekend)]
    for _ in range(1 if day > 16 else 3):
        recurring.run(ratio, week)
    last = recurring.run(ratio, week)
    assert (ratio.pool_.slots.n_merged > 1).sum() >= 3
    slot = [int(np.argmax(last[number].shares[-4:].mean(axis=0))) for number in (0, 1, -1)]
    assert len(set(slot)) == 3
    rounds = [visit.rounds_until(slot[visit.regime]) for visit in last]
    assert np.mean([n is not None and n <= A_FEW_ROUNDS for n in rounds]) > 0.8, rounds


def error_after_returns(memory, seed):
    """Mean |r - r*| on the reference in the first 25 rounds of each return of a part of the stream."""
    stream = GaussianStream(
        SquareShift(period=100), n_features=6, n_reference=300, n_rounds=800, batch_size=1, random_state=seed
    )
    X, _ = stream.reference()
    ratio, errors, n_rounds = OnlineDensityRatio(memory=memory).fit(X), [], 0
    for batch in stream:
        ratio.partial_fit(batch.X)
        n_rounds = n_rounds + 1 if batch.alpha == 0.0 else 0
        if batch.round > 400 and 0 < n_rounds <= 25:
            errors.append(np.abs(ratio.reference_ratio_ - stream.true_ratio(X, 0.0)).mean())
    return float(np.mean(errors))


def test_a_regime_that_comes_back_is_followed_faster_with_memory_than_without():
    with_memory, without = (np.mean([error_after_returns(memory, seed) for seed in range(2)]) for memory in (4, 0))
    assert with_memory < 0.75 * without


def test_more_regimes_than_slots_forget_the_least_used():
    recurring = RegimeStream(SIX, n_reference=600)
    ratio = OnlineDensityRatio(memory=2).fit(recurring.reference())
    often, seldom, new = recurring.run(ratio, [(0, 150), (1, 150), (0, 150)])[1:] + recurring.run(ratio, [(3, 150)])
    assert new.n_used == seldom.n_used == 2
    kept, replaced = slot_of(ratio, seldom), slot_of(ratio, new)
    assert kept != replaced
    # The slot of the seldom regime holds the new one, and its visits are gone.
    first_rounds = [first for slot, first, _ in ratio.pool_.slots.visits.tolist() if slot == replaced]
    assert min(first_rounds) > often.last_round
    again = recurring.run(ratio, [(0, 50), (3, 50)])
    assert again[0].rounds_until(kept) <= A_FEW_ROUNDS
    assert again[1].rounds_until(replaced) <= A_FEW_ROUNDS


def test_without_memory_there_are_no_slots_and_the_shapes_do_the_work():
    recurring = RegimeStream(TWO)
    ratio = OnlineDensityRatio(memory=0).fit(recurring.reference())
    recurring.run(ratio, [(0, 100), (1, 100)])
    assert len(ratio.pool_.proportions) == N_SHAPES
    assert ratio.pool_.slots.visits.shape == (0, 3)
    assert ratio.reference_ratio_.mean() == pytest.approx(1.0, abs=1e-9)
    left, right = ratio.predict_ratio(TWO)
    assert left < 0.1
    assert right > 1.5


def test_visits_are_in_order_inside_the_stream_and_do_not_overlap():
    recurring = RegimeStream(TWO)
    ratio = OnlineDensityRatio().fit(recurring.reference())
    recurring.run(ratio, [(0, 100), (1, 100)] * 3)
    visits = ratio.pool_.slots.visits
    assert visits[0, 1] >= 1
    assert visits[-1, 2] <= ratio.n_rounds_
    assert (visits[:, 1] <= visits[:, 2]).all()
    assert (visits[1:, 1] > visits[:-1, 2]).all()
    # A visit ends within a few rounds of the regime's end: a look ends when the ratio moves away.
    assert np.abs(visits[:-1, 2] - 100 * np.arange(1, 6)).max() <= A_FEW_ROUNDS


@pytest.mark.parametrize("n_columns", [3, 70, 120])
def test_the_pooled_ratio_of_a_row_does_not_depend_on_the_rows_beside_it(n_columns):
    rng = np.random.default_rng(0)
    ratio = OnlineDensityRatio().fit(rng.normal(size=(200, n_columns)))
    for level in np.repeat((1.0, -1.0, 1.0), 40):
        ratio.partial_fit(rng.normal(size=(3, n_columns)) + level * (np.arange(n_columns) == 0))
    assert ratio.pool_.slots.is_used.any()
    rows = rng.normal(size=(21, n_columns))
    one_by_one = [ratio.predict_ratio(row[None])[0] for row in rows]
    assert ratio.predict_ratio(rows).tolist() == one_by_one


@pytest.mark.parametrize("settings", [{}, {"candidates": [lambda X: np.exp(X[:, 0])]}, {"loss": "least_squares"}])
@pytest.mark.parametrize("shift", [1.0, 6.0])
def test_the_ratio_of_a_batch_before_its_round_is_what_predict_ratio_gave(settings, shift):
    rng = np.random.default_rng(1)
    ratio = OnlineDensityRatio(**settings).fit(rng.normal(size=(200, 4)))
    for _ in range(60):
        batch = rng.normal(size=(3, 4)) + shift
        before = ratio.predict_ratio(batch)
        assert ratio.partial_fit(batch).batch_ratio().tolist() == before.tolist()
    assert (ratio.pool_.hold > 0.0) == (shift > 5.0)
    assert before.tolist() != ratio.predict_ratio(batch).tolist()


def test_a_large_batch_is_not_part_of_a_pickle():
    rng = np.random.default_rng(1)
    ratio = OnlineDensityRatio().fit(rng.normal(size=(200, 4)))
    small = len(pickle.dumps(ratio.partial_fit(rng.normal(size=(3, 4)))))
    assert len(pickle.dumps(ratio.partial_fit(rng.normal(size=(20_000, 4))))) < small + 20_000


# --- held back where the stream leaves the reference ------------------------------------------------------------


def rows(rng, loc, n_rows, n_columns):
    return rng.normal(size=(n_rows, n_columns)) + loc * np.eye(n_columns)[0]


def holds_after(ratio, rng, loc, n_rounds):
    """How far the pool is held back after each round."""
    holds = []
    for _ in range(n_rounds):
        ratio.partial_fit(rows(rng, loc, 5, ratio.n_features_in_))
        holds.append(ratio.pool_.hold)
    return np.array(holds)


@pytest.mark.parametrize("n_columns", [2, 6])
def test_the_hold_follows_the_stream_out_of_the_reference_and_back(n_columns):
    rng = np.random.default_rng(0)
    ratio = OnlineDensityRatio().fit(rows(rng, 0.0, 400, n_columns))
    assert holds_after(ratio, rng, 0.0, 64).max() == 0.0
    assert holds_after(ratio, rng, 1.0, 128).max() == 0.0
    away = holds_after(ratio, rng, 6.0, 96)
    assert away[:4].max() == 0.0
    assert away[48:].min() == 1.0
    back = holds_after(ratio, rng, 0.5, 96)
    assert back[-32:].max() == 0.0
    assert ratio.reference_ratio_.mean() == pytest.approx(1.0, abs=1e-9)


def test_while_held_the_ratio_is_that_of_the_three_cautious_shapes():
    rng = np.random.default_rng(1)
    ratio = OnlineDensityRatio().fit(rows(rng, 0.0, 300, 3))
    holds_after(ratio, rng, 6.0, 80)
    pool = ratio.pool_
    assert pool.hold == 1.0
    np.testing.assert_array_equal(pool.proportions, pool.cautious.proportions)
    estimate = ratio.whole_reference_.ratios(pool.coef, 1e30)
    shapes = [np.ones(300), np.minimum(np.sqrt(estimate), 100.0), np.minimum(estimate, 100.0)]
    expected = sum(q * shape / shape.mean() for q, shape in zip(pool.proportions, shapes, strict=False))
    np.testing.assert_allclose(pool.reference_ratios, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("loss", ["logistic", "least_squares", "kl"])
def test_however_far_it_is_held_predictions_for_the_reference_are_its_ratios(loss):
    rng = np.random.default_rng(0)
    X = rows(rng, 0.0, 300, 3)
    ratio, holds = OnlineDensityRatio(loss=loss).fit(X), []
    for loc in (*np.repeat((1.0, -1.0), 70), *np.linspace(0.0, 4.5, 320)):
        ratio.partial_fit(rows(rng, loc, 5, 3))
        holds.append(ratio.pool_.hold)
        if len(holds) % 20 == 0 or 0.0 < holds[-1] < 1.0:
            np.testing.assert_allclose(ratio.predict_ratio(X), ratio.reference_ratio_, rtol=1e-9, atol=1e-12)
            assert ratio.pool_.reference_ratios.mean() == pytest.approx(1.0, abs=1e-9)
    assert ratio.pool_.slots.is_used.any()
    assert loss != "logistic" or any(0.0 < hold < 1.0 for hold in holds)


# --- ratios of the user's own -----------------------------------------------------------------------------------


def tilted(X):
    """A ratio that is not scaled to mean 1."""
    return 3.0 * np.exp(X[:, 0])


def batches(n_rounds, place=1.0, n_rows=3, seed=1):
    return np.random.default_rng(seed).normal((place, 0.0), size=(n_rounds, n_rows, 2))


def after_rounds(candidates, n_rounds=40, **parameters: Any):
    ratio = OnlineDensityRatio(candidates=candidates, **parameters).fit(NORMAL)
    for batch in batches(n_rounds):
        ratio.partial_fit(batch)
    return ratio


def test_rounds_are_those_of_the_equations():
    """A slow pool: every candidate's ratio of every row, divided by its mean over the reference."""
    ratio, alone = OnlineDensityRatio(candidates=[tilted, ULSIF()], memory=2).fit(NORMAL), ULSIF().fit(NORMAL)
    filters, prior = None, np.array([0.5, *[0.25 / 11] * 11, 0.0, 0.0, 0.125, 0.125])
    for batch in batches(8, n_rows=4):
        before, state = alone.predict_ratio(NORMAL), ratio.pool_
        given = [tilted(batch) / tilted(NORMAL).mean(), alone.predict_ratio(batch) / before.mean()]
        if filters is None:
            filters = PlainFilters([0.2] * 5, [prior.tolist()] * 3, [[0.0] * 16] * 2)
        batch_ratios = np.exp(-(ratio.features_.transform(batch)[0] @ ratio.coef_))
        no_slots = np.zeros((2, 4)), np.zeros((2, N_SHAPES))
        filters = filters.after(prior, plain_likelihoods(batch_ratios, 100.0, state.means, *no_slots, given))
        ratio.partial_fit(batch)
        alone.partial_fit(batch)
        estimate = np.exp(-(ratio.reference_features_ @ ratio.coef_))
        rows = [tilted(NORMAL) / tilted(NORMAL).mean(), alone.reference_ratio_ / alone.reference_ratio_.mean()]
        expected = plain_pooled(estimate, 100.0, filters.proportions(prior), [np.zeros(200), np.zeros(200), *rows])
        np.testing.assert_allclose(ratio.reference_ratio_, np.minimum(expected, 100.0), rtol=1e-9)
        np.testing.assert_allclose(ratio.candidate_shares_, filters.proportions(prior)[-2:], rtol=1e-9)


def test_the_true_ratio_joins_and_wins():
    stream = GaussianStream(SquareShift(period=100), n_rounds=190, n_reference=500)
    parts = [partial(stream.true_ratio, alpha=alpha) for alpha in (0.0, 1.0)]
    X, _ = stream.reference()
    ratio, alone = OnlineDensityRatio(candidates=parts).fit(X), OnlineDensityRatio().fit(X)
    errors = []
    for batch in stream:
        truth = stream.reference_ratio(batch.alpha)
        errors.append([np.abs(each.reference_ratio_ - truth).mean() for each in (ratio, alone)])
        if batch.round in (100, 190):
            assert ratio.candidate_shares_[int(batch.alpha)] > 0.8
        for each in (ratio, alone):
            each.partial_fit(batch.X)
    mine, without = np.mean(errors, axis=0)
    assert mine < 0.5 * without


def test_a_one_step_estimator_joins_and_wins_where_no_log_linear_ratio_is_right():
    rng = np.random.default_rng(0)
    reference = rng.normal(size=(300, 1))
    given = [ULSIF(feature_map="identity"), NoShift()]
    ratio = OnlineDensityRatio(candidates=given).fit(reference)
    alone = OnlineDensityRatio().fit(reference)
    for _ in range(15):
        for each, rows in zip((ratio, alone), [0.4 * rng.normal(size=(150, 1))] * 2, strict=True):
            each.partial_fit(rows)
    assert ratio.candidate_shares_[0] > 0.8
    truth = np.exp(0.5 * reference[:, 0] ** 2 - 0.5 * (reference[:, 0] / 0.4) ** 2) / 0.4
    assert np.abs(ratio.reference_ratio_ - truth).mean() < 0.5 * np.abs(alone.reference_ratio_ - truth).mean()


def test_candidates_that_explain_nothing_lose_their_share():
    ratio = after_rounds([lambda X: np.exp(-2.0 * X[:, 0]), tilted])
    assert ratio.candidate_shares_[0] < 0.01
    assert ratio.candidate_shares_[1] > 0.3


def test_without_candidates_nothing_changes():
    default, empty = after_rounds(None), after_rounds([])
    assert default.reference_ratio_.tobytes() == empty.reference_ratio_.tobytes()
    assert len(default.pool_.proportions) == N_SHAPES + 4
    assert default.candidate_shares_.shape == empty.candidate_shares_.shape == (0,)
    # The ensemble learns the same with them.
    assert after_rounds([tilted]).coef_.tobytes() == default.coef_.tobytes()


@pytest.mark.parametrize("n_rounds", [0, 1, 40])
def test_ratios_of_the_reference_are_those_of_its_rows(n_rounds):
    """A ratio of zero everywhere counts as one."""
    others = [LogisticRatio(), OnlineDensityRatio(feature_map="rbf", random_state=0), lambda X: np.zeros(len(X))]
    ratio = after_rounds([tilted, *others], n_rounds)
    np.testing.assert_allclose(ratio.predict_ratio(NORMAL), ratio.reference_ratio_, rtol=1e-9)
    assert ratio.pool_.reference_ratios.mean() == pytest.approx(1.0, abs=1e-9)
    assert ratio.predict_ratio(NORMAL[:0]).shape == (0,)


def test_what_was_given_is_cloned_and_a_fitted_one_joins_as_its_function():
    given, fitted = ULSIF(), SingleLearnerRatio().fit(NORMAL)
    for batch in batches(30):
        fitted.partial_fit(batch)
    before = fitted.coef_
    ratio = after_rounds([given, fitted.predict_ratio], 20)
    assert "reference_" not in vars(given)
    assert fitted.n_rounds_ == 30
    assert fitted.coef_.tobytes() == before.tobytes()
    assert ratio.candidate_shares_[1] > ratio.candidate_shares_[0]
    copied = clone(ratio)
    assert copied.candidates[0] is not given
    assert copied.fit(NORMAL).candidate_shares_.tolist() == [0.125, 0.125]


def test_a_copy_learns_on_its_own_and_a_pickle_goes_on_with_the_same_bits():
    ratio = after_rounds([ULSIF(), tilted], 10)
    before, other = ratio.reference_ratio_.copy(), pickle.loads(pickle.dumps(ratio))
    copy(ratio).partial_fit(NORMAL[:4] + 2.0)
    assert ratio.reference_ratio_.tobytes() == before.tobytes()
    assert ratio.predict_ratio(NORMAL) == pytest.approx(before, rel=1e-9)
    for batch in batches(5, seed=3):
        found, expected = (each.partial_fit(batch).reference_ratio_.tobytes() for each in (other, ratio))
        assert found == expected


def test_a_candidate_that_fails_leaves_the_round_before():
    ratio = after_rounds([ULSIF(), lambda X: np.where(X[:, 0] > 50.0, np.nan, 1.0)], 5)
    before = ratio.reference_ratio_.copy()
    with pytest.raises(ParameterError, match=r"candidates\[1\].* row 1"):
        ratio.partial_fit([[0.0, 0.0], [99.0, 0.0]])
    assert ratio.n_rounds_ == 5
    assert ratio.reference_ratio_.tobytes() == before.tobytes()


@pytest.mark.parametrize(
    ("candidates", "place"),
    [
        (ULSIF(), "candidates"),
        ([ULSIF], r"candidates\[0\]"),
        ([tilted, 2.0], r"candidates\[1\]"),
        ([lambda X: X], r"candidates\[0\]"),
        ([lambda X: X[:, 0]], r"candidates\[0\]"),
    ],
    ids=["no list", "a class", "a number", "two columns", "negative"],
)
def test_what_cannot_join_is_refused(candidates, place):
    with pytest.raises(ParameterError, match=place):
        OnlineDensityRatio(candidates=candidates).fit(NORMAL)


@pytest.mark.parametrize("settings", [{"pool": "none"}, {"horizon": 10}], ids=str)
def test_without_a_pool_there_is_nothing_to_join(settings):
    with pytest.raises(ParameterError, match="candidates"):
        OnlineDensityRatio(candidates=[tilted], **settings).fit(NORMAL)


def test_a_classifier_uses_them():
    y = (NORMAL[:, 1] > 0.3 * NORMAL[:, 0] ** 2).astype(int)
    model = AdaptiveClassifier(ratio=OnlineDensityRatio(candidates=[tilted, LogisticRatio()])).fit(NORMAL, y)
    for batch in batches(40):
        model.adapt(batch)
    assert model.ratio_.candidate_shares_[0] > 0.3
    assert np.isfinite(model.reference_weight_).all()


# --- the compiled round of many models ----------------------------------------------------------------------


@needs_compilation
def test_models_that_run_together_have_the_bits_of_each_alone():
    rng, ages = np.random.default_rng(3), (17, 70, 260)  # none gets another learner within the rounds below
    reference = rng.normal(size=(300, 4))
    ratios = [OnlineDensityRatio().fit(reference) for _ in ages]
    for place, (ratio, age) in enumerate(zip(ratios, ages, strict=True)):
        for _ in range(age):
            ratio.partial_fit(rng.normal(0.3 * place, size=(2, 4)))
    compiled, alone = ratios[0]._compiled, [copied_arrays(ratio) for ratio in ratios]
    together = RoundArrays._make(map(stacked, zip(*alone, strict=True)))
    starts, steps, first = np.array([0, 1, 4, 11]), np.array([10.0, 12.0, 15.0]), np.zeros(1, dtype=np.int64)
    for _ in range(12):
        batch = 0.3 * rng.normal(size=(11, 5))
        compiled.run(together, np.arange(3), batch, starts, steps, together)
        for place, (model, rows) in enumerate(zip(alone, np.split(batch, starts[1:-1]), strict=True)):
            compiled.run(model, first, rows, np.array([0, len(rows)]), steps[[place]], model)
            for found, wanted in zip(together, model, strict=True):
                if wanted is not None:
                    inside = found[(place, *map(slice, wanted.shape[1:]))]
                    np.testing.assert_array_equal(inside, wanted[0])


def test_copies_that_take_turns_have_the_bits_of_each_alone():
    """They share the arrays that their rounds write into, also with another number of learners."""
    rounds = [batches(60, seed=seed) for seed in (1, 2)]
    young = OnlineDensityRatio().fit(NORMAL)
    old = copy(young)
    for batch in batches(70, seed=3):
        old.partial_fit(batch)
    alone = [copy(young), copy(old)]
    for model, some in zip(alone, rounds, strict=True):
        for batch in some:
            model.partial_fit(batch)
    in_turns = [copy(young), copy(old)]
    with ThreadPoolExecutor(2) as pool:
        for each in zip(*rounds, strict=True):
            list(pool.map(lambda model, batch: model.partial_fit(batch), in_turns, each))
    for found, wanted in zip(in_turns, alone, strict=True):
        np.testing.assert_array_equal(found.reference_ratio_, wanted.reference_ratio_)
        np.testing.assert_array_equal(found.learner_coefs_, wanted.learner_coefs_)


def copied_arrays(ratio):
    """The model of a ratio as arrays to write into."""
    model = ratio._learned.model
    of, memory = ratio._compiled.arrays_of(model._replace(numbers=model.numbers.copy())), model.memory
    counts = of.n_rounds, of.largest_margins, of.log_likelihoods, of.n_learners
    return RoundArrays(*counts, *of.of_learners[3:], of.parts, memory.slots, memory.priors, memory.factors)


def stacked(parts):
    """One array of the models' arrays, with room for as many learners as any of them may have."""
    if parts[0] is None:
        return None
    shape = np.max([part.shape for part in parts], axis=0).astype(int)
    room = np.zeros((len(parts), *shape[1:]), dtype=parts[0].dtype)
    for place, part in enumerate(parts):
        room[(place, *map(slice, part.shape[1:]))] = part[0]
    return room
