"""The benchmarks measure what they say: central computations, the smallest runs, and pages that show what is kept."""

import argparse
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

from accous import AdaptiveClassifier, NoShift, OnlineDensityRatio
from accous.streams import GaussianStream, SquareShift
from benchmarks import (
    cli_throughput,
    data,
    defaults,
    figures,
    gallery,
    keyed,
    labels,
    pages,
    pool,
    predictors,
    service,
    speed,
    startup,
)
from benchmarks.peers import __main__ as peers
from benchmarks.peers import contests, serving
from tests.classifiers import drifting_batches, labelled_rows, run_rounds

has_streams = (Path(os.environ.get("ACCOUS_DATA", "")) / "streams" / "bike_sharing_hour.csv.gz").is_file()
needs_streams = pytest.mark.skipif(
    not has_streams,
    reason="needs real streams that accous cannot download: put them into the folder streams of ACCOUS_DATA",
)

SCRIPTS = (
    cli_throughput, defaults, figures, gallery, keyed, peers, pool, predictors, service, speed, startup,
)  # fmt: skip


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Folders for what a script keeps and writes, away from the project's."""
    monkeypatch.setattr(pages, "RESULTS", tmp_path)
    return tmp_path


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_every_script_says_what_it_does(script, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["script", "--help"])
    with pytest.raises(SystemExit, match="0"):
        script.main()
    assert "usage:" in capsys.readouterr().out


# --- pages and kept results ---------------------------------------------------------------------------------------


def test_results_are_kept_with_their_origin(results):
    pages.keep("speed", [1])
    assert pages.kept("speed") == [1]
    found = json.loads((results / "speed.json").read_text())["measured_with"]
    assert {"date", "commit", "accous", "numpy", "machine"} <= set(found)


def test_a_run_replaces_only_a_run_of_the_same(results):
    run = {"case": "a", "n_rounds": 10, "seeds": [0], "errors": {"FIX": 1.0}}
    for part, other in (("regimes", {}), ("tables", {}), ("regimes", {"n_rounds": 20}), ("regimes", {"errors": {}})):
        pool.keep_row(part, run | other)
    stored = pages.kept("pool")
    assert list(stored) == ["regimes", "tables"]
    assert [(row["n_rounds"], row["errors"]) for row in stored["regimes"]] == [(20, {"FIX": 1.0}), (10, {})]


def tables_of(name):
    """The table of a mark, from what is kept now."""
    if name.startswith("pool "):
        return pool.table_of(name)
    if name == "speed":
        return speed.speed_table(rows=pages.kept("speed")["rounds"], ages=pages.kept("speed")["ages"])
    if name == "bench-peers":
        rows = [row for row in pages.kept("peers") if "aim" in row]
        return peers.speed_table(rows) + "\n" + peers.agreement_table(rows)
    if name.startswith("gallery"):
        return gallery.tables()[name]
    return {
        "labels": labels.table,
        "rules": labels.rules_table,
        "long run": labels.long_table,
        "predictors": predictors.table,
    }[name]()


WITH_TABLES = [*sorted(pages.DOCS.rglob("*.md")), pages.ROOT / "README.md"]
NOT_KEPT = {"sweep defaults", "sweep losses", "performance", "states", "others", "alarms"}


@pytest.mark.parametrize(
    "page",
    # docs/results.md is filled by accous_bench, which tests it.
    [page for page in WITH_TABLES if "<!-- table " in page.read_text() and page.stem != "results"],
    ids=lambda p: p.stem,
)
def test_pages_show_what_is_kept(page):
    text = page.read_text(encoding="utf-8")
    assert text.count("<!-- table ") == text.count("<!-- end of table -->")
    assert pages.filled(text, lambda name: None if name in NOT_KEPT else tables_of(name)) == text


def test_rules_for_the_weights_of_two_experts_follow_the_better_one():
    first, second = np.array([[300.0, 0.0]] * 60), np.array([[0.0, 300.0]] * 60)
    both = np.concatenate((first, second))
    assert (round(labels.fixed_share(first)), round(labels.fixed_share(both))) == (1, 0)
    assert labels.adapt_ml_prod(both, np.full(120, 100)) < 0.4
    assert labels.adapt_ml_prod(first, np.full(60, 100)) > 0.6


# --- data ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", data.TABLES)
def test_real_tables_are_followed_without_a_number_out_of_range(table, data_folder, monkeypatch):
    monkeypatch.setenv("ACCOUS_DATA", str(data_folder))
    stream = data.two_parts(table, "Squ", n_features=0, n_reference=300, batch_size=5, n_rounds=120, seed=0)
    model = AdaptiveClassifier(standardize=False).fit(*stream.reference())
    for batch in stream:
        model.adapt(batch.X)
        assert np.all(np.isfinite(model.ratio_.coef_))
    assert model.n_refits_ > 0
    assert all(0.0 <= risk < 0.8 for risk in stream.component_risks(model.estimator_))
    assert 2.0 < model.effective_sample_size_ <= len(stream.reference()[1])
    # The stream is in its second stretch: what is rare in the reference carries more weight than it did.
    is_rare = stream.reference_ratio(0.0) > 0.0
    assert model.reference_weight_[is_rare].mean() > 1.0


@needs_streams
def test_the_default_is_compared_with_what_never_adapts_and_with_itself():
    case = predictors.Case.read("bike_sharing_hour", 500, 1600, has_numbers=False)
    fixed, adapted = predictors.run_fixed(case), predictors.run_adapted(case)
    errors = [fixed[each] for each in predictors.FIXED]
    assert 0.0 < min(errors) < max(errors) < 0.5
    assert fixed["default"] <= min(errors) + 0.025
    assert max(adapted[each] for each in predictors.HARMS) <= 0.005
    assert adapted["found"] == adapted["told"]
    assert {part: set(rows[0]) for part, rows in pages.kept("predictors").items()} == {
        part: {"stream", "reference", "has_numbers", *found} for part, found in (("fixed", fixed), ("adapted", adapted))
    }


@needs_streams
def test_a_case_of_the_gallery_is_run():
    case = gallery.run_case("noaa_weather", 2000)
    assert set(case["errors"]) == set(gallery.MODELS)
    assert [look["row"] for look in case["looks"]] == [1500, 2000]
    assert case["looks"][-1]["said"]["labels"]["basis"] == "labels"
    assert case["looks"][-1]["said"]["weights"]["basis"] == "expected"
    assert set(case) == set(pages.kept("gallery")["noaa_weather"])


# --- defaults -----------------------------------------------------------------------------------------------------


def resolved(estimator):
    return [estimator.radius_, estimator.feature_bound_, estimator.step_size_]


@pytest.mark.parametrize("n_features", [1, 40])
@pytest.mark.parametrize("batch_size", [1, 5, 50])
def test_the_rule_of_the_sweep_is_the_default(n_features, batch_size):
    X = np.random.default_rng(0).normal(size=(80, n_features))
    swept, default = defaults.RULE.make(X, batch_size).fit(X), OnlineDensityRatio().fit(X)
    for _ in range(6):
        swept.partial_fit(X[:batch_size] + 1.0)
        default.partial_fit(X[:batch_size] + 1.0)
    assert resolved(swept) == pytest.approx(resolved(default), rel=1e-12)
    np.testing.assert_allclose(swept.coef_, default.coef_, rtol=1e-9)


@pytest.mark.parametrize("loss", ["least_squares", "kl"])
def test_the_swept_step_of_the_other_losses_has_the_default_among_them(loss):
    X = np.random.default_rng(0).normal(size=(80, 3))
    default = OnlineDensityRatio(loss=loss).fit(X).partial_fit(X[:5])
    swept = defaults.OTHER_LOSSES[f"{loss}, step 2"].make(X, 5).fit(X).partial_fit(X[:5])
    assert resolved(swept) == resolved(default)


def test_a_case_is_scored_between_known_answers():
    case = defaults.Case("gaussian", "Squ", n_features=12, n_reference=1000, batch_size=5, n_rounds=300, seed=0)
    ((_, scored),) = defaults.score_case(case, {"the rule": defaults.RULE})
    # The oracle has few rows of the rare part, so another method may do a little better.
    assert 0.2 < scored.oracle < scored.fix < 0.5
    assert abs(scored.adapted - scored.oracle) < 0.5 * (scored.fix - scored.oracle)
    rows = [{"data": "gaussian", "shift": shift, "candidate": "the rule"} | vars(scored) for shift in data.SHIFTS]
    share = 100.0 * (scored.fix - scored.adapted) / (scored.fix - scored.oracle)
    assert f"| {share:.0f} |" in defaults.main_table(rows, ["the rule"])


# --- speed --------------------------------------------------------------------------------------------------------


def adapted_model(n_classes):
    model = AdaptiveClassifier(standardize=False, refit="always", adaptation="always")
    model.fit(*labelled_rows(n_classes=n_classes))
    return run_rounds(model, drifting_batches(20))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_bare_arithmetic_is_that_of_the_model(n_classes):
    model = adapted_model(n_classes)
    gradients, ratios, step = speed.BareArithmetic(model).run()
    assert gradients.shape == (len(model.ratio_.learner_weights_) + 1, 4)
    np.testing.assert_allclose(ratios, model.ratio_.reference_ratio_, rtol=1e-12)
    if n_classes == 2:
        # From the optimum a Newton step leads nowhere; the yardstick's penalises the intercept as well.
        np.testing.assert_allclose(step[:-1], model.estimator_.coef_[0], atol=0.05)
    else:
        np.testing.assert_allclose(step[:, :-1], 0.0, atol=1e-3)


def test_where_the_refit_descends_the_bare_arithmetic_has_its_gradient(monkeypatch):
    monkeypatch.setattr(speed, "MAX_NEWTON_COEFS", 1)
    np.testing.assert_allclose(speed.BareArithmetic(adapted_model(2)).run()[2][:-1], 0.0, atol=1e-3)


# --- the pool -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", pool.KINDS)
def test_streams_of_many_regimes_know_their_ratio_and_risk(kind):
    stream = pool.RegimeStream(kind, n_rounds=400, batch_size=200, random_state=3)
    batches = {int(batch.alpha): batch for batch in stream}
    X, y = stream.reference()
    model = AdaptiveClassifier(ratio=NoShift(), standardize=False).fit(X, y).estimator_
    for part, batch in batches.items():
        ratio = stream.reference_ratio(float(part))
        assert ratio.mean() == pytest.approx(1.0, abs=0.35)
        assert ratio.max() <= 1.0 / stream.shares[part] + 1e-9
        wrong = float(np.mean(model.predict(batch.X) != batch.y))
        assert wrong == pytest.approx(stream.risk(model, part), abs=0.12)
        # The weighted reference has the mean of the part's rows.
        weighted = (ratio[:, None] * X).mean(axis=0) / ratio.mean()
        assert np.linalg.norm(weighted - batch.X.mean(axis=0)) < 1.0


def test_a_case_is_measured_against_fix_and_its_bounds():
    options = argparse.Namespace(rounds=140)
    case = next(case for case in pool.headline(options) if case.label == "d = 12, N_0 = 1,000, N_t = 5, Squ")
    row = pool.measure(case, [pool.ENSEMBLE, pool.DEFAULT], [0, 1])
    errors = row["errors"]
    assert list(errors) == ["FIX", "limit", "oracle", pool.ENSEMBLE.name, pool.DEFAULT.name]
    assert row["standard_errors"]["FIX"] == 0.0
    share = (errors["FIX"] - errors["default"]) / (errors["FIX"] - errors["limit"])
    assert f"{errors['default']:.2f} ({100 * share:.0f})" in pool.error_table([row])


def test_the_ensemble_alone_has_spikes_and_the_pool_has_none():
    stream = GaussianStream(SquareShift(period=figures.POOL_PERIOD), n_rounds=400, random_state=7)
    sizes, ratios = figures.follow_ratios(stream)
    since_switch = np.arange(1, 400) % figures.POOL_PERIOD
    jumps = [np.diff(np.log(values))[since_switch > 10] for values in sizes.values()]
    alone, pooled = ((jump > np.log(1.5)).sum() for jump in jumps)
    assert alone > 0 == pooled
    assert list(ratios) == list(sizes)


# --- service, keys and command line -------------------------------------------------------------------------------


# --- peers --------------------------------------------------------------------------------------------------------

PROBLEM = contests.gaussian_problem(n_reference=40, n_features=2, batch_size=4, n_batches=2)
REFERENCE, BATCH = PROBLEM.reference, PROBLEM.batches[0]


def kernel(x, c, width):
    return np.exp(-sum((a - b) ** 2 for a, b in zip(x, c, strict=True)) / (2.0 * width**2))


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_least_squares_objective_term_by_term(alpha):
    coefs, width, ridge = np.array([0.5, -0.2, 0.0, 1.0]), 1.3, 0.7

    def r(x):
        return sum(coef * kernel(x, center, width) for coef, center in zip(coefs, BATCH, strict=True))

    expected = 0.5 * (1.0 - alpha) * np.mean([r(x) ** 2 for x in REFERENCE]) + 0.5 * ridge * (0.25 + 0.04 + 1.0)
    expected += np.mean([0.5 * alpha * r(x) ** 2 - r(x) for x in BATCH])
    value = contests.least_squares_objective(REFERENCE, BATCH, coefs, width=width, ridge=ridge, alpha=alpha)
    assert value == pytest.approx(expected, rel=1e-12)


def test_our_least_squares_solution_is_where_a_search_ends():
    settings = {"width": 1.3, "ridge": 2.0}
    found = minimize(
        lambda coefs: contests.least_squares_objective(REFERENCE, BATCH, coefs, **settings),
        np.full(4, 0.1),
        bounds=[(0.0, None)] * 4,
    )
    ours = contests.estimate_ours("ulsif", PROBLEM, [settings] * 2)
    np.testing.assert_allclose(ours.coefs[0], found.x, atol=1e-3)


def test_kliep_objective_and_violation():
    r_reference, r_batch = np.array([0.5, 1.5]), np.array([2.0, 4.0])
    assert contests.kliep_objective(3.0 * r_reference, 3.0 * r_batch) == pytest.approx(-np.log(8.0) / 2.0)
    assert contests.kliep_violation(r_reference, r_batch) == 0.0
    assert contests.kliep_violation(3.0 * r_reference, 3.0 * r_batch) == pytest.approx(2.0)
    assert contests.kliep_violation(np.array([2.25, -0.25]), r_batch) == pytest.approx(0.25)


def test_kmm_objective_term_by_term():
    weights, width = np.linspace(0.0, 2.0, len(REFERENCE)), 0.8
    quadratic = sum(
        weights[i] * weights[j] * kernel(REFERENCE[i], REFERENCE[j], width) for i in range(40) for j in range(40)
    )
    linear = sum(weights[i] * 40 / 4 * kernel(REFERENCE[i], x, width) for i in range(40) for x in BATCH)
    value = contests.kmm_objective(REFERENCE, BATCH, weights, width=width)
    assert value == pytest.approx((0.5 * quadratic - linear) / 40**2, rel=1e-12)


@pytest.mark.parametrize(
    ("weights", "violation"),
    [([0.0, 2.0], 0.0), ([-0.3, 2.0], 0.3), ([0.0, 2.5], 0.5), ([0.1, 0.5], 0.6), ([1.9, 1.9], 0.8)],
)
def test_kmm_violation_is_the_worst_one(weights, violation):
    found = contests.kmm_violation(np.array(weights), max_ratio=2.0, mass_tolerance=0.1)
    assert found == pytest.approx(violation)


class Repeating(serving.Contender):
    """Centres drawn with replacement, as one peer does, and the number of calls as weights."""

    def __init__(self, method, settings):
        self.n_calls, self.settings = 0, settings

    def estimate(self, reference, batch):
        self.n_calls += 1
        self.batch = batch
        return np.full(len(reference), float(self.n_calls))

    def used(self):
        return self.settings

    def expansion(self):
        return self.batch[[2, 0, 2]], np.array([1.0, 2.0, 4.0])


@pytest.mark.parametrize("at_least_seconds", [0.0, 0.01])
def test_a_request_is_answered_batch_by_batch(tmp_path, at_least_seconds):
    np.savez(tmp_path / "data.npz", reference=REFERENCE, batches=PROBLEM.batches)
    request = {"data": tmp_path / "data.npz", "method": "any", "settings": {"width": 2.0}}
    answer = serving.answer_request(request | {"at_least_seconds": at_least_seconds}, Repeating)
    np.testing.assert_array_equal(answer["weights"], np.outer([1.0, 2.0], np.ones(40)))
    np.testing.assert_array_equal(answer["coefs"], [[2.0, 0.0, 5.0, 0.0]] * 2)
    assert json.loads(answer["used"]) == [{"width": 2.0}] * 2
    assert np.all(np.isfinite(answer["times"]))
