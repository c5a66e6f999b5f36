"""OnlineDensityRatio: the paper's algorithms, what is learned and shown, parameters, meaning, threads."""

import math
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from accous import OnlineDensityRatio, SingleLearnerRatio
from accous.exceptions import ParameterError
from accous.ratio import defaults
from tests.oracles import PaperAccous, kl_loss, least_squares_loss, logistic_loss

Array = NDArray[np.float64]

LOSSES = ["logistic", "least_squares", "kl"]
ORACLE_LOSSES = {"logistic": logistic_loss, "least_squares": least_squares_loss, "kl": kl_loss}
MAX_RATIO = OnlineDensityRatio().max_ratio

each_loss = pytest.mark.parametrize("loss", LOSSES)


def normal_rows(n_rows: int, n_features: int = 3, seed: int = 0, loc: Any = 0.0) -> Array:
    return np.random.default_rng(seed).normal(loc, size=(n_rows, n_features))


def drifting_batches(sizes: Any, n_rounds: int, n_features: int = 3, seed: int = 1) -> Iterator[Array]:
    """Batches whose mean turns around the origin; sizes are repeated as often as needed."""
    rng = np.random.default_rng(seed)
    for t, size in enumerate(islice(cycle(sizes), n_rounds)):
        loc = np.zeros(n_features)
        loc[:2] = np.cos(t / 7), np.sin(t / 7)
        yield rng.normal(loc, size=(size, n_features))


def brought_back(rows: Array, bound: float) -> Array:
    """Rows longer than the bound, shortened to it."""
    return np.array([row * min(1.0, bound / np.linalg.norm(row)) for row in rows])


def with_one(rows: Array) -> Array:
    return np.array([[*row, 1.0] for row in rows])


def features_by_hand(loss: str, bound: float, is_scaled: bool = True) -> Callable[[Array], Array]:
    """Intercept, bound and scale, in the order documented for the loss."""
    unit = bound if is_scaled else 1.0
    if loss == "logistic":
        return lambda X: brought_back(with_one(X), bound) / unit
    # A constant that has to stay 1 is appended last.
    return lambda X: with_one(brought_back(X, bound) / unit)


def paper_settings(**changes: Any) -> dict[str, Any]:
    """The documented keywords that reproduce the paper."""
    settings = {
        "feature_map": "identity",
        "scale_features": False,
        "fit_intercept": False,
        "start": "zero",
        "meta_range": "paper",
        "step_size": 1.0,
        "horizon": 100,
        "radius": 1.5,
        "feature_bound": 10.0,
        "ridge": 1.0,
    }
    return settings | changes


def paper_oracle(reference: Array, settings: dict[str, Any], **more: Any) -> PaperAccous:
    shared = ("radius", "feature_bound", "step_size", "ridge", "horizon")
    return PaperAccous(reference, **{name: settings[name] for name in shared}, **more)


def assert_agrees(estimator: OnlineDensityRatio, oracle: PaperAccous) -> None:
    assert estimator.n_rounds_ == oracle.round
    assert estimator.learner_lengths_.tolist() == oracle.lengths.tolist()
    np.testing.assert_allclose(estimator.coef_, oracle.theta, rtol=0, atol=1e-9)
    np.testing.assert_allclose(estimator.learner_weights_, oracle.weights, rtol=0, atol=1e-9)
    np.testing.assert_allclose(estimator.learner_coefs_, oracle.learner_thetas, rtol=0, atol=1e-9)


def shown_state(estimator: OnlineDensityRatio) -> dict[str, bytes]:
    """Every documented attribute, as bytes."""
    names = [
        *("coef_", "reference_ratio_", "learner_lengths_", "learner_weights_", "learner_coefs_", "n_rounds_"),
        *("feature_bound_", "radius_", "step_size_", "n_out_of_bound_", "n_features_in_"),
    ]
    return {name: np.asarray(getattr(estimator, name)).tobytes() for name in names}


# --- the paper's algorithms ---------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [[1], [8], [1, 5, 2, 9, 1, 1, 30]], ids=["one", "many", "changing"])
@pytest.mark.parametrize(
    ("changes", "is_projected"),
    [
        ({"radius": 0.3, "step_size": 2.0}, True),
        ({"radius": 0.3, "step_size": 50.0, "ridge": 0.01}, True),
        ({"radius": 50.0, "step_size": 0.5}, False),
        ({"radius": 50.0, "step_size": 0.5, "ridge": 4.0}, False),
    ],
)
def test_paper_mode_is_algorithms_1_and_2_after_every_round(
    changes: dict[str, Any], is_projected: bool, sizes: list[int]
) -> None:
    settings = paper_settings(**changes)
    reference = normal_rows(15)
    estimator = OnlineDensityRatio(**settings).fit(reference)
    oracle = paper_oracle(reference, settings)
    assert_agrees(estimator, oracle)
    n_on_surface = 0
    for batch in drifting_batches(sizes, n_rounds=70):
        estimator.partial_fit(batch)
        oracle.play(batch)
        assert_agrees(estimator, oracle)
        norms = np.linalg.norm(oracle.learner_thetas, axis=1)
        n_on_surface += np.count_nonzero(norms > settings["radius"] * (1 - 1e-9))
    assert (n_on_surface > 20) == is_projected
    assert (n_on_surface == 0) != is_projected
    assert estimator.n_out_of_bound_ == 0


def test_rows_longer_than_the_bound_are_learned_as_if_brought_back() -> None:
    settings = paper_settings(feature_bound=1.2)
    reference = normal_rows(15)
    estimator = OnlineDensityRatio(**settings).fit(reference)
    oracle = paper_oracle(brought_back(reference, 1.2), settings)
    n_long = 0
    for batch in drifting_batches([1, 4], n_rounds=40):
        estimator.partial_fit(batch)
        oracle.play(brought_back(batch, 1.2))
        n_long += np.count_nonzero(np.linalg.norm(batch, axis=1) > 1.2)
        assert_agrees(estimator, oracle)
        assert estimator.n_out_of_bound_ == n_long
    assert n_long > 20


@pytest.mark.parametrize("horizon", [None, 1, 20, 64, 10_000])
def test_any_horizon_or_none_agrees_also_beyond_it(horizon: int | None) -> None:
    settings = paper_settings(horizon=horizon)
    reference = normal_rows(10)
    estimator = OnlineDensityRatio(**settings).fit(reference)
    oracle = paper_oracle(reference, settings)
    for batch in drifting_batches([2], n_rounds=70):
        estimator.partial_fit(batch)
        oracle.play(batch)
        assert_agrees(estimator, oracle)


@pytest.mark.parametrize("min_interval", [1, 2, 4, 8, 128])
def test_any_shortest_interval_agrees(min_interval: int) -> None:
    settings = paper_settings()
    reference = normal_rows(10)
    estimator = OnlineDensityRatio(**settings, min_interval=min_interval).fit(reference)
    oracle = paper_oracle(reference, settings, min_interval=min_interval)
    for batch in drifting_batches([2], n_rounds=35):
        estimator.partial_fit(batch)
        oracle.play(batch)
        assert_agrees(estimator, oracle)


@pytest.mark.parametrize("start", ["zero", "ensemble", "auto"])
@pytest.mark.parametrize("meta_range", ["paper", "running"])
@pytest.mark.parametrize("horizon", [None, 1])
@each_loss
def test_every_loss_with_intercept_and_scaling_agrees(
    loss: str, horizon: int | None, meta_range: str, start: str
) -> None:
    bound, radius = 2.0, 3.0
    to_features = features_by_hand(loss, bound)
    reference = normal_rows(12, n_features=2)
    shared = {"radius": radius, "step_size": 0.7, "loss": loss, "horizon": horizon, "meta_range": meta_range}
    estimator = OnlineDensityRatio("identity", feature_bound=bound, start=start, **shared).fit(reference)
    longest = 1.0 if loss == "logistic" else math.sqrt(2.0)
    gradient_bounds = {
        "logistic": None,
        "least_squares": longest * (longest * radius + 1.0),
        "kl": longest * (1.0 + MAX_RATIO),
    }
    oracle = PaperAccous(
        to_features(reference),
        feature_bound=longest,
        neutral=np.array([0.0, 0.0, 1.0]),
        kl_floor=1.0 / MAX_RATIO,
        gradient_bound=gradient_bounds[loss],
        start=defaults.AUTO_START if start == "auto" else start,
        **shared,
    )
    smallest_rate = 0.5
    for batch in drifting_batches([1, 3], n_rounds=36, n_features=2):
        estimator.partial_fit(batch)
        oracle.play(to_features(batch))
        assert_agrees(estimator, oracle)
        smallest_rate = min([smallest_rate, *(learner.eps for learner in oracle.learners.values())])
    assert estimator.n_out_of_bound_ > 0
    # With K = 2 and margins up to 1 the rates do fall, so that their part in the weights is seen, too.
    assert (smallest_rate < 0.49) == (horizon == 1 and meta_range == "running")


def test_the_steps_called_auto_are_those_of_the_documented_rule() -> None:
    settings = paper_settings(step_size=defaults.default_step_size(6, is_log_linear=True))
    reference = normal_rows(12)
    estimator = OnlineDensityRatio(**(settings | {"step_size": "auto"})).fit(reference)
    oracle = paper_oracle(reference, settings)
    for batch in drifting_batches([6], n_rounds=20):
        estimator.partial_fit(batch)
        oracle.play(batch)
    assert_agrees(estimator, oracle)


# --- what is shown ------------------------------------------------------------------------------------------


@each_loss
def test_after_fit_everything_is_neutral(loss: str) -> None:
    estimator = OnlineDensityRatio(loss=loss).fit(normal_rows(20))
    neutral = np.zeros(4)
    neutral[-1] = 0.0 if loss == "logistic" else 1.0
    assert estimator.coef_.tolist() == neutral.tolist()
    assert estimator.learner_lengths_.shape == (0,)
    assert estimator.learner_weights_.shape == (0,)
    assert estimator.learner_coefs_.shape == (0, 4)
    assert estimator.n_rounds_ == 0
    assert estimator.n_out_of_bound_ == 0
    assert estimator.n_features_in_ == 3
    assert estimator.reference_ratio_.tolist() == [1.0] * 20
    assert estimator.predict_ratio(normal_rows(7, seed=5) * 10).tolist() == [1.0] * 7


@each_loss
def test_after_rounds_every_attribute_has_its_shape_and_range(loss: str) -> None:
    estimator = OnlineDensityRatio(loss=loss).fit(normal_rows(20))
    for t, batch in enumerate(drifting_batches([1, 4], n_rounds=40), start=1):
        estimator.partial_fit(batch)
        lengths = [2**k for k in range(2, 10) if 2**k <= t + 1]
        assert estimator.n_rounds_ == t
        assert estimator.learner_lengths_.tolist() == lengths
        assert estimator.learner_weights_.shape == (len(lengths),)
        assert estimator.learner_coefs_.shape == (len(lengths), 4)
        assert np.all(estimator.learner_weights_ > 0)
        assert not lengths or estimator.learner_weights_.sum() == pytest.approx(1.0, rel=1e-12)
        norms = np.linalg.norm(estimator.learner_coefs_, axis=1)
        assert np.all(norms <= estimator.radius_ * (1 + 1e-9))
        assert estimator.reference_ratio_.shape == (20,)
    np.testing.assert_allclose(
        estimator.coef_, estimator.learner_weights_ @ estimator.learner_coefs_, rtol=1e-12, atol=1e-15
    )


@each_loss
def test_the_ratio_is_1_and_no_learner_there_before_the_shortest_interval(loss: str) -> None:
    estimator = OnlineDensityRatio(loss=loss, min_interval=4).fit(normal_rows(20))
    batches = drifting_batches([3], n_rounds=4)
    for _ in range(2):
        estimator.partial_fit(next(batches))
        assert estimator.learner_lengths_.size == 0
        assert estimator.reference_ratio_.tolist() == [1.0] * 20
    estimator.partial_fit(next(batches))  # round 4 comes next: its learner is there and has learned nothing
    assert estimator.learner_lengths_.tolist() == [4]
    assert estimator.learner_weights_.tolist() == [1.0]
    assert estimator.reference_ratio_.tolist() == [1.0] * 20
    estimator.partial_fit(next(batches))
    assert np.all(estimator.reference_ratio_ != 1.0)


@each_loss
def test_refit_forgets_everything(loss: str) -> None:
    used = OnlineDensityRatio(loss=loss).fit(normal_rows(30, n_features=2, seed=9) * 5)
    for batch in drifting_batches([4], n_rounds=20, n_features=2):
        used.partial_fit(batch * 50)
    assert used.n_out_of_bound_ > 0
    fresh = OnlineDensityRatio(loss=loss)
    for estimator in (used, fresh):
        estimator.fit(normal_rows(15))
    assert shown_state(used) == shown_state(fresh)
    for batch in drifting_batches([3], n_rounds=20):
        used.partial_fit(batch)
        fresh.partial_fit(batch)
    assert shown_state(used) == shown_state(fresh)


BAD_FITS = {
    "parameter": ({"ridge": -1.0}, normal_rows(5)),
    "late parameter": ({"loss": "kl", "radius": 0.5}, normal_rows(5)),
    "missing value": ({}, np.array([[1.0, np.nan], [0.0, 1.0]])),
    "too large value": ({}, np.array([[1.0, 1e300], [0.0, 1.0]])),
    "one row": ({}, normal_rows(1)),
    "strings": ({}, np.array([["a", "b"], ["c", "d"]])),
}


@pytest.mark.parametrize(("changes", "X"), BAD_FITS.values(), ids=BAD_FITS)
def test_a_failed_first_fit_leaves_the_estimator_unfitted(changes: dict[str, Any], X: Any) -> None:
    estimator = OnlineDensityRatio(**changes)
    with pytest.raises(ValueError, match=r"\w"):
        estimator.fit(X)
    with pytest.raises(NotFittedError):
        estimator.predict_ratio(normal_rows(5))
    estimator.set_params(ridge=1.0, radius=2.0)
    assert estimator.partial_fit(normal_rows(5)).n_rounds_ == 0  # the first call is fit


@pytest.mark.parametrize(("changes", "X"), BAD_FITS.values(), ids=BAD_FITS)
def test_a_failed_refit_leaves_the_estimator_as_it_was(changes: dict[str, Any], X: Any) -> None:
    estimator = OnlineDensityRatio().fit(normal_rows(20, n_features=4))
    for batch in drifting_batches([3], n_rounds=8, n_features=4):
        estimator.partial_fit(batch)
    before = shown_state(estimator)
    estimator.set_params(**changes)
    with pytest.raises(ValueError, match=r"\w"):
        estimator.fit(X)
    assert shown_state(estimator) == before
    estimator.set_params(**OnlineDensityRatio().get_params())
    assert estimator.partial_fit(normal_rows(3, n_features=4)).n_rounds_ == 9


@pytest.mark.parametrize("method", ["predict_ratio", "score_loss"])
def test_an_unfitted_estimator_says_so(method: str) -> None:
    with pytest.raises(NotFittedError, match="OnlineDensityRatio"):
        getattr(OnlineDensityRatio(), method)(normal_rows(5))


@each_loss
def test_predict_ratio_of_the_reference_is_the_reference_ratio(loss: str) -> None:
    reference = normal_rows(50)
    estimator = OnlineDensityRatio(loss=loss).fit(reference)
    for batch in drifting_batches([5], n_rounds=20):
        estimator.partial_fit(batch)
        np.testing.assert_allclose(
            estimator.predict_ratio(reference), estimator.reference_ratio_, rtol=1e-12, atol=1e-12
        )


@each_loss
def test_score_loss_is_the_observed_loss_of_the_current_theta(loss: str) -> None:
    to_features = features_by_hand(loss, bound=2.0)
    reference, batch = normal_rows(20), normal_rows(9, seed=3)
    estimator = OnlineDensityRatio("identity", loss=loss, feature_bound=2.0).fit(reference)
    for other in drifting_batches([5], n_rounds=12):
        expected = ORACLE_LOSSES[loss](estimator.coef_, to_features(reference), to_features(batch))
        assert estimator.score_loss(batch) == pytest.approx(expected, rel=1e-12)
        estimator.partial_fit(other)


@each_loss
def test_the_ratio_is_cut_at_max_ratio(loss: str) -> None:
    reference = normal_rows(50)
    uncut, cut = (OnlineDensityRatio(loss=loss, max_ratio=limit, step_size=3.0) for limit in (1e6, 1.5))
    for estimator in (uncut, cut):
        estimator.fit(reference)
        for _ in range(25):
            estimator.partial_fit(normal_rows(20, seed=4, loc=1.0))
    if loss != "kl":  # its floor is 1 / max_ratio, so there the limit takes part in learning
        assert cut.coef_.tobytes() == uncut.coef_.tobytes()
        np.testing.assert_array_equal(cut.reference_ratio_, np.minimum(uncut.reference_ratio_, 1.5))
    assert cut.reference_ratio_.max() == 1.5
    assert cut.predict_ratio(normal_rows(50, loc=3.0)).max() == 1.5
    assert uncut.reference_ratio_.max() > 1.5


def test_the_kl_ratio_is_floored_at_one_over_max_ratio() -> None:
    estimator = OnlineDensityRatio(loss="kl", max_ratio=4.0, step_size=1.0).fit(normal_rows(50))
    for _ in range(10):
        estimator.partial_fit(normal_rows(20, seed=4, loc=1.0))
    assert estimator.predict_ratio(normal_rows(50, loc=-3.0)).min() == 0.25


# --- parameters ---------------------------------------------------------------------------------------------

BAD_PARAMETERS = [
    ("loss", "hinge"),
    ("loss", None),
    ("radius", 0.0),
    ("radius", -1.0),
    ("radius", math.nan),
    ("radius", math.inf),
    ("radius", "large"),
    ("feature_bound", 0.0),
    ("feature_bound", -2.0),
    ("feature_bound", "norm"),
    ("step_size", 0.0),
    ("step_size", -1.0),
    ("step_size", math.inf),
    ("step_size", "big"),
    ("step_size", None),
    ("step_size", True),
    ("ridge", 0.0),
    ("ridge", -1.0),
    ("ridge", math.nan),
    ("ridge", None),
    ("min_interval", 3),
    ("min_interval", 0),
    ("min_interval", -4),
    ("min_interval", 4.0),
    ("min_interval", True),
    ("min_interval", 2**70),
    ("horizon", 0),
    ("horizon", 10.0),
    ("horizon", "long"),
    ("start", "one"),
    ("start", None),
    ("meta_range", "all"),
    ("meta_range", None),
    ("max_ratio", 0.5),
    ("max_ratio", 1.0),
    ("max_ratio", math.inf),
    ("max_ratio", None),
    ("feature_map", "pca"),
    ("feature_map", None),
    ("feature_map", 3),
]


def assert_one_sentence_about(name: str, message: str) -> None:
    assert name in message
    assert message.endswith(".")
    assert "\n" not in message
    assert ". " not in message


@pytest.mark.parametrize(("name", "value"), BAD_PARAMETERS)
def test_a_bad_parameter_is_refused_by_name(name: str, value: Any) -> None:
    estimator = OnlineDensityRatio(**{name: value})
    with pytest.raises(ParameterError) as caught:
        estimator.fit(normal_rows(10))
    assert_one_sentence_about(name, str(caught.value))


@pytest.mark.parametrize("loss", ["least_squares", "kl"])
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("fit_intercept", {"fit_intercept": False}),
        ("radius", {"radius": 0.9}),
        ("step_size", {"step_size": "theory"}),
    ],
)
def test_what_only_the_logistic_loss_can_do_is_refused_for_the_others(
    name: str, changes: dict[str, Any], loss: str
) -> None:
    with pytest.raises(ParameterError) as caught:
        OnlineDensityRatio(loss=loss, **changes).fit(normal_rows(10))
    assert_one_sentence_about(name, str(caught.value))
    assert repr(loss) in str(caught.value)
    OnlineDensityRatio(**({"radius": 0.9} | changes)).fit(normal_rows(10))


@pytest.mark.parametrize(("scale_features", "largest_score"), [(True, 3.0), (False, 6.0)])
def test_the_theory_step_is_the_theorems(scale_features: bool, largest_score: float) -> None:
    estimator = OnlineDensityRatio(
        step_size="theory", radius=3.0, feature_bound=2.0, scale_features=scale_features
    ).fit(normal_rows(10))
    assert estimator.step_size_ == pytest.approx(3.0 * (1.0 + math.exp(largest_score)), rel=1e-14)
    assert estimator.partial_fit(normal_rows(5)).step_size_ == estimator.step_size_


@pytest.mark.parametrize("radius", [708.9, 709.5, 710.0, 1e6])
def test_a_theory_step_that_overflows_is_refused(radius: float) -> None:
    with pytest.raises(ParameterError, match="overflows") as caught:
        OnlineDensityRatio(step_size="theory", radius=radius).fit(normal_rows(10))
    assert_one_sentence_about("step_size", str(caught.value))


@pytest.mark.parametrize("radius", [30.0, 100.0, 200.0, 300.0, 500.0, 700.0])
def test_a_large_theory_step_is_computed_with_or_refused(radius: float) -> None:
    estimator = OnlineDensityRatio(step_size="theory", radius=radius)
    try:
        estimator.fit(normal_rows(10))
    except ParameterError as error:
        assert_one_sentence_about("step_size", str(error))
        return
    for batch in drifting_batches([2], n_rounds=8):
        estimator.partial_fit(batch)
    assert np.all(np.isfinite(estimator.coef_))
    assert np.linalg.norm(estimator.coef_) <= radius * (1 + 1e-9)


def test_parameters_given_as_numpy_numbers_are_taken() -> None:
    settings = {"radius": np.float64(2), "ridge": np.int32(1), "min_interval": np.int64(4)}
    settings |= {"horizon": np.int64(9), "step_size": np.float32(1), "max_ratio": np.int8(100)}
    of_numpy = OnlineDensityRatio(**settings).fit(normal_rows(20))
    of_python = OnlineDensityRatio(**{name: value.item() for name, value in settings.items()})
    of_python.fit(normal_rows(20))
    for batch in drifting_batches([2], n_rounds=12):
        of_numpy.partial_fit(batch)
        of_python.partial_fit(batch)
    assert shown_state(of_numpy) == shown_state(of_python)


@pytest.mark.parametrize("scale_features", [True, False])
@pytest.mark.parametrize("n_features", [2, 12, 64])
def test_radius_none_is_the_documented_rule_with_the_intercept_counted(n_features: int, scale_features: bool) -> None:
    estimator = OnlineDensityRatio(scale_features=scale_features).fit(normal_rows(10, n_features))
    assert estimator.radius_ == defaults.default_radius(n_features + 1, is_scaled=scale_features)


def test_the_default_radius_is_half_the_dimension_unscaled_and_can_express_max_ratio_scaled() -> None:
    for n_coefs in (2, 13, 65):
        assert defaults.default_radius(n_coefs, is_scaled=False) == n_coefs / 2
        assert defaults.default_radius(n_coefs, is_scaled=True) >= math.log(MAX_RATIO)


def test_numbers_for_radius_bound_and_step_are_taken_as_they_are() -> None:
    estimator = OnlineDensityRatio(radius=2.5, feature_bound=0.7, step_size=0.3).fit(normal_rows(10))
    estimator.partial_fit(normal_rows(5))
    assert (estimator.radius_, estimator.feature_bound_, estimator.step_size_) == (2.5, 0.7, 0.3)


def test_the_automatic_step_depends_on_the_batch_only_and_grows_with_it() -> None:
    estimator = OnlineDensityRatio().fit(normal_rows(10))
    assert estimator.step_size_ == defaults.default_step_size(1, is_log_linear=True)
    for n_rows in (1, 3, 50):
        estimator.partial_fit(normal_rows(n_rows) * 100)
        assert estimator.step_size_ == defaults.default_step_size(n_rows, is_log_linear=True)
    steps = [defaults.default_step_size(n_rows, is_log_linear=True) for n_rows in (1, 2, 5, 10, 1000)]
    assert steps == sorted(steps)


def test_the_meta_range_called_auto_is_the_documented_choice() -> None:
    automatic = OnlineDensityRatio(meta_range="auto").fit(normal_rows(20))
    explicit = OnlineDensityRatio(meta_range=defaults.AUTO_META_RANGE).fit(normal_rows(20))
    for batch in drifting_batches([2], n_rounds=20):
        automatic.partial_fit(batch)
        explicit.partial_fit(batch)
    assert shown_state(automatic) == shown_state(explicit)


# --- meaning ------------------------------------------------------------------------------------------------


def shifted_normal_estimate(estimator: Any, seed: int) -> tuple[float, float]:
    """Correlation of the estimated with the true log ratio of N(mu, I) to N(0, I), and mean reference ratio."""
    rng = np.random.default_rng(seed)
    mu = np.array([0.5, 0.0, -0.25])
    estimator.fit(rng.normal(size=(500, 3)))
    for _ in range(300):
        estimator.partial_fit(rng.normal(mu, size=(20, 3)))
    rows = rng.normal(size=(500, 3))
    true_log_ratio = rows @ mu - mu @ mu / 2.0
    log_ratio = np.log(np.maximum(estimator.predict_ratio(rows), 1e-2))
    return float(np.corrcoef(log_ratio, true_log_ratio)[0, 1]), float(estimator.reference_ratio_.mean())


each_estimator = pytest.mark.parametrize("estimator_class", [OnlineDensityRatio, SingleLearnerRatio])


@each_estimator
@each_loss
def test_a_standing_stream_gives_the_true_ratio(loss: str, estimator_class: Any) -> None:
    correlation, mean_ratio = shifted_normal_estimate(estimator_class(loss=loss, step_size=1.0), seed=0)
    assert correlation > (0.97 if loss == "logistic" else 0.75)
    assert 0.9 < mean_ratio < 1.1


@each_estimator
@each_loss
def test_the_defaults_give_the_direction_and_size_of_the_ratio(loss: str, estimator_class: Any) -> None:
    results = [shifted_normal_estimate(estimator_class(loss=loss), seed) for seed in range(3)]
    correlations, mean_ratios = np.array(results).T
    assert np.median(correlations) > 0.5
    assert np.all((mean_ratios > 0.33) & (mean_ratios < 3.0)), mean_ratios


def ratio_errors(estimator: Any, n_rounds: int, jump: int) -> Array:
    """mean |r - r*| on the reference after each round of N(mu, I) -> N(-mu, I)."""
    rng = np.random.default_rng(0)
    reference, mu = rng.normal(size=(300, 2)), np.array([0.8, 0.0])
    estimator.fit(reference)
    errors = []
    for t in range(1, n_rounds + 1):
        mean = mu if t <= jump else -mu
        estimator.partial_fit(rng.normal(mean, size=(5, 2)))
        true_ratio = np.exp(reference @ mean - mean @ mean / 2.0)
        errors.append(np.abs(estimator.reference_ratio_ - true_ratio).mean())
    return np.array(errors)


@each_loss
def test_after_a_jump_the_ensemble_recovers_and_the_single_learner_lags(loss: str) -> None:
    jump, n_rounds = 700, 800
    of_ensemble, of_single = (
        ratio_errors(estimator_class(loss=loss, step_size=1.0), n_rounds, jump)
        for estimator_class in (OnlineDensityRatio, SingleLearnerRatio)
    )
    assert of_single[jump - 50 : jump].mean() < 0.4  # it did learn
    at_jump = of_ensemble[jump]
    assert of_ensemble[-20:].mean() < 0.5 * at_jump
    assert of_ensemble[jump:].mean() < 0.85 * of_single[jump:].mean()


def test_the_ratio_is_batch_over_reference() -> None:
    estimator = OnlineDensityRatio().fit(normal_rows(200, n_features=1))
    for seed in range(40):
        estimator.partial_fit(normal_rows(20, n_features=1, seed=seed, loc=1.0))
    left, right = estimator.predict_ratio([[-1.0], [1.5]])
    assert left < 1.0 < right


# --- determinism and threads --------------------------------------------------------------------------------


@pytest.mark.parametrize("feature_map", ["identity", "standardize", "rbf"])
@each_loss
def test_the_same_seed_gives_the_same_bits(loss: str, feature_map: str) -> None:
    states = []
    for _ in range(2):
        estimator = OnlineDensityRatio(feature_map, loss=loss, random_state=0).fit(normal_rows(150))
        for batch in drifting_batches([1, 6], n_rounds=40):
            estimator.partial_fit(batch)
        states.append(shown_state(estimator))
    assert states[0] == states[1]


def test_asking_changes_nothing() -> None:
    estimator = OnlineDensityRatio("rbf", random_state=0).fit(normal_rows(30))
    for batch in drifting_batches([3], n_rounds=10):
        estimator.partial_fit(batch)
    before = pickle.dumps(estimator)
    far_away = normal_rows(20) * 1e6
    for _ in range(3):
        estimator.predict_ratio(far_away)
        estimator.score_loss(far_away)
        shown_state(estimator)
    assert pickle.dumps(estimator) == before


@pytest.fixture
def eager_thread_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("eager_thread_switches")
def test_threads_that_ask_during_rounds_see_one_round_or_another_never_a_mixture() -> None:
    reference, probe = normal_rows(100), normal_rows(40, seed=7)
    batches = list(drifting_batches([4], n_rounds=150))
    estimator = OnlineDensityRatio().fit(reference)
    answers = [estimator.predict_ratio(probe)]
    for batch in batches:
        estimator.partial_fit(batch)
        answers.append(estimator.predict_ratio(probe))
    expected = np.array(answers)

    estimator.fit(reference)
    is_done = threading.Event()
    seen: list[list[Array]] = [[] for _ in range(4)]

    def ask(found: list[Array]) -> None:
        while not is_done.is_set():
            found.append(estimator.predict_ratio(probe))

    threads = [threading.Thread(target=ask, args=(found,)) for found in seen]
    for thread in threads:
        thread.start()
    try:
        for batch in batches:
            estimator.partial_fit(batch)
    finally:
        is_done.set()
        for thread in threads:
            thread.join()
    np.testing.assert_allclose(estimator.predict_ratio(probe), expected[-1], rtol=1e-12)
    assert all(seen)
    for answer in (answer for found in seen for answer in found):
        assert np.abs(expected - answer).max(axis=1).min() < 1e-12
