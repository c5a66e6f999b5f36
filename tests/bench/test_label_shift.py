"""The label-shift stream, and the methods made for it against slow versions."""

import numpy as np
import pytest

from accous.streams import LinearShift, Shift, SquareShift
from accous_bench.contenders import SHARES, get_contender, make_contender, rounds
from accous_bench.label_shift import ATLAS, FLHFTL, FTH, ROGD, UOGD, LabelShiftStream, onto_simplex


def make_stream(shift: Shift, n_rounds: int) -> LabelShiftStream:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 400)
    X = 1.5 * np.eye(3)[y] + rng.normal(size=(1200, 3))
    return LabelShiftStream(X, y, shift, (1.0, 0.0, 0.0), n_rounds, 8, 90, random_state=0)


STREAM = make_stream(SquareShift(period=10), 30)


def after_rounds(make, horizon: int = 30):
    """The model after every round, with the estimate that it learned from."""
    model = make(horizon).fit(*STREAM.reference())
    estimates = []
    learn = model._learn
    model._learn = lambda shares: (estimates.append(shares), learn(shares))[1]
    for batch in STREAM:
        model.adapt(batch.X)
        yield model, estimates


def test_shares_move_and_rows_of_a_class_stay() -> None:
    stream = make_stream(LinearShift(), 400)
    batches = list(stream)
    late = np.concatenate([batch.y for batch in batches[300:]])
    assert np.mean(late == 0) == pytest.approx(
        np.mean([stream.shares(batch.alpha)[0] for batch in batches[300:]]), abs=0.04
    )
    reference, labels = stream.reference()
    assert np.bincount(labels).tolist() == [30, 30, 30]
    known = {row.tobytes() for row in reference}
    assert not any(row.tobytes() in known for batch in batches for row in batch.X)
    assert np.array_equal(batches[5].X, list(stream)[5].X)
    np.testing.assert_allclose(stream.reference_ratio(0.5)[labels == 0], 3 * (0.5 / 3 + 0.5))
    model = make_contender("FIX").fit(reference, labels)
    fresh = [np.mean(model.predict(batch.X) != batch.y) for batch in stream.fresh_batches()]
    risks = [stream.risk(model, batch.alpha) for batch in batches]
    assert np.mean(fresh) == pytest.approx(np.mean(risks), abs=0.03)


def test_the_estimate_of_the_shares_is_right_on_average() -> None:
    *_, (model, estimates) = after_rounds(FTH)
    truth = np.mean([STREAM.shares(alpha) for alpha in STREAM.alphas], axis=0)
    np.testing.assert_allclose(np.mean(estimates, axis=0), truth, atol=0.15)  # small batches are clipped at 0
    assert model.confusion_.sum() == pytest.approx(1.0)


def test_fth_is_the_mean_of_all_estimates() -> None:
    for model, estimates in after_rounds(FTH):
        np.testing.assert_allclose(model.shares_, np.mean(estimates, axis=0))


def test_flh_ftl_is_the_weighted_mean_of_means() -> None:
    weights: list[float] = []
    for t, (model, estimates) in enumerate(after_rounds(FLHFTL), start=1):
        *before, new = estimates
        if before:
            experts = [np.mean(before[j:], axis=0) for j in range(len(before))]
            losses = [float(np.sum((expert - new) ** 2)) for expert in experts]
            weights = [w * np.exp(-loss / 3) for w, loss in zip(weights, losses, strict=True)]
            weights = [w / sum(weights) * (1 - 1 / t) for w in weights]
        weights.append(1 / t)
        experts = [np.mean(estimates[j:], axis=0) for j in range(t)]
        np.testing.assert_allclose(model.shares_, sum(w * e for w, e in zip(weights, experts, strict=True)))


def test_rogd_goes_down_the_slope_of_its_loss() -> None:
    model = ROGD(30).fit(*STREAM.reference())

    def loss(p: np.ndarray, shares: np.ndarray) -> float:
        total = 0.0
        for k in range(3):
            rows = model.held_out_[model.labels_ == k] * p / model.first_
            total += shares[k] * (1 - np.mean(rows[:, k] / rows.sum(axis=1)))
        return total

    p, shares, step = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6]), 1e-6
    numeric = [(loss(p + step * e, shares) - loss(p - step * e, shares)) / (2 * step) for e in np.eye(3)]
    np.testing.assert_allclose(model.slope(p, shares), numeric, atol=1e-6)
    before = model.shares_
    model._learn(shares)
    np.testing.assert_allclose(model.shares_, onto_simplex(before - model.step_ * model.slope(before, shares)))


def test_the_projection_is_the_nearest_point_of_the_simplex() -> None:
    rng = np.random.default_rng(0)
    grid = rng.dirichlet(np.ones(3), 20_000)
    for point in rng.normal(size=(20, 3)):
        found = onto_simplex(point)
        assert found.sum() == pytest.approx(1.0)
        assert (found >= 0).all()
        assert np.linalg.norm(found - point) <= np.linalg.norm(grid - point, axis=1).min() + 1e-9


def slow_loss(model: UOGD, coefs: np.ndarray, shares: np.ndarray) -> float:
    X, y = STREAM.reference()
    total = 0.0
    for k in range(3):
        scores = np.column_stack((X[y == k], np.ones(np.sum(y == k)))) @ coefs.T
        total += shares[k] * np.mean(np.log(np.exp(scores).sum(axis=1)) - scores[:, k])
    return total


def test_uogd_and_atlas_step_down_the_weighted_loss() -> None:
    model = ATLAS(30).fit(*STREAM.reference())
    shares = np.array([0.2, 0.2, 0.6])
    value, slope = model.loss(model.coefs_, shares)
    assert value == pytest.approx(slow_loss(model, model.coefs_, shares))
    step = 1e-6
    for place in ((0, 1), (2, 3)):
        moved = np.zeros_like(model.coefs_)
        moved[place] = step
        up, down = (slow_loss(model, model.coefs_ + sign * moved, shares) for sign in (1, -1))
        assert slope[place] == pytest.approx((up - down) / (2 * step), abs=1e-6)
    assert len(model.steps_) == 1 + int(np.ceil(np.log2(61) / 2))
    learners, losses = [model.coefs_.copy() for _ in model.steps_], np.zeros(len(model.steps_))
    for _ in range(5):
        model._learn(shares)
        for i, size in enumerate(model.steps_):
            losses[i] += slow_loss(model, learners[i], shares)
            learners[i] = learners[i] - size * model.loss(learners[i], shares)[1]
            learners[i] *= min(1.0, model.reach_ / np.linalg.norm(learners[i]))
    weights = np.exp(-2 * np.sqrt(np.log(len(losses)) / 30) * losses)
    np.testing.assert_allclose(model.coefs_, np.tensordot(weights / weights.sum(), np.array(learners), axes=1))


def test_the_true_shares_move_the_intercepts_alone() -> None:
    contender = get_contender(SHARES)
    model = contender().fit(*STREAM.reference())
    for batch in rounds(contender, model, STREAM):
        np.testing.assert_allclose(model.shares_, STREAM.shares(batch.alpha), atol=1e-12)
    assert np.array_equal(model.estimator_.coef_, model.coefs_[:, :-1])


@pytest.mark.parametrize("name", ["FTH", "ROGD", "UOGD", "ATLAS", "FLH-FTL"])
def test_a_method_made_for_label_shift_beats_the_fixed_model_where_shares_stay_away(name: str) -> None:
    stream = make_stream(LinearShift(), 300)
    model = make_contender(name, horizon=300).fit(*stream.reference())
    for batch in stream:
        model.adapt(batch.X)
    fixed = make_contender("FIX").fit(*stream.reference())
    assert stream.risk(model, 0.8) < stream.risk(fixed, 0.8)
