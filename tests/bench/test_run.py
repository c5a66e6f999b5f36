"""One run against an obvious loop over the same stream, and against the rules of what is seen when."""

from __future__ import annotations

import json
import math
import re
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accous import AdaptiveClassifier, OnlineDensityRatio
from accous.exceptions import ParameterError
from accous.streams import GaussianStream, MovingGaussianStream
from accous_bench import problems
from accous_bench.contenders import Contender, get_contender
from accous_bench.oracle import Oracle
from accous_bench.problems import SHIFTS, Setting, get_problem
from accous_bench.protocols import PROTOCOLS
from accous_bench.run import Measures, Run, _chosen_rounds, play
from accous_bench.scores import RoundScores, expected_excess_loss, observed_loss, scored_rounds
from tests.budgets import rest_slow
from tests.needs import needs_data

REQUIRED = {"dataset", "shift", "batch_size", "contender", "seed", "error"}


def make_run(contender: str | Contender, *, n_rounds: int = 40, score_every: int = 1, **changes: Any) -> Run:
    chosen = get_contender(contender) if isinstance(contender, str) else contender
    options = {"n_reference": 80, "n_features": 3, **changes.pop("options", {})}
    dataset = changes.pop("dataset", "gaussian")
    setting = Setting(changes.pop("shift", "Squ"), changes.pop("batch_size", 3), n_rounds, 1, options)
    return Run("test", get_problem(dataset), chosen, setting, Measures(score_every, **changes))


def test_a_run_agrees_with_the_obvious_loop() -> None:
    row = play(make_run("Accous"))
    stream = GaussianStream(SHIFTS["Squ"], n_features=3, n_reference=80, n_rounds=40, batch_size=3, random_state=1)
    X, y = stream.reference()
    ratio = OnlineDensityRatio(random_state=1)
    model = AdaptiveClassifier(ratio=ratio, standardize=False, random_state=1).fit(X, y)
    n_wrong, risks, losses, ratio_errors, sizes = 0, [], [], [], []
    for batch in stream:
        n_wrong += int((model.predict(batch.X) != batch.y).sum())
        risks.append(stream.risk(model.estimator_, batch.alpha))
        on_reference, on_batch = (model.ratio_.predict_ratio(rows) for rows in (X, batch.X))
        losses.append(0.5 * (np.log(1 + on_reference).mean() + np.log(1 + 1 / on_batch).mean()))
        ratio_errors.append(np.abs(model.ratio_.reference_ratio_ - stream.true_ratio(X, batch.alpha)).mean())
        sizes.append(model.effective_sample_size_)
        model.adapt(batch.X)
    assert row["error"] == n_wrong / 120
    assert row["risk"] == pytest.approx(np.mean(risks), rel=1e-12)
    assert row["estimator_loss"] == pytest.approx(np.mean(losses), rel=1e-12)
    assert row["ratio_error"] == pytest.approx(np.mean(ratio_errors), rel=1e-12)
    assert row["effective_sample_size"] == pytest.approx(np.mean(sizes), rel=1e-12)


def test_the_recorded_loss_is_that_of_the_ratio_in_use() -> None:
    pooled, ensemble = (play(make_run(name, n_rounds=150)) for name in ("Accous", "Accous (ensemble only)"))
    assert pooled["curve"]["estimator_loss"] != ensemble["curve"]["estimator_loss"]


@pytest.mark.parametrize("name", ["OLRE", "LR", "FIX"])
def test_without_a_pool_the_observed_loss_is_that_of_the_estimator(name: str) -> None:
    stream = GaussianStream(SHIFTS["Squ"], n_features=3, n_reference=80, n_rounds=20, batch_size=3, random_state=1)
    model = get_contender(name)(1).fit(*stream.reference())
    for batch in stream:
        ratio = model.ratio_
        # In these rounds no ratio reaches the bound, which the loss of theta does not know.
        assert observed_loss(ratio.reference_ratio_, ratio.predict_ratio(batch.X), 100.0) == pytest.approx(
            ratio.score_loss(batch.X), rel=1e-9
        )
        model.adapt(batch.X)


class Spy:
    """Notes in which order it is asked to learn and to predict, and what it is shown."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, float]] = []

    def fit(self, X: Any, y: Any) -> Spy:
        return self

    def adapt(self, X: Any) -> None:
        self.calls.append(("adapt", float(X[0, 0])))

    def predict(self, X: Any) -> Any:
        self.calls.append(("predict", float(X[0, 0])))
        return np.zeros(len(X))


ORDERS = {
    "predict_first": ["predict", "adapt"],
    "fresh_rows": ["adapt", "predict"],
    "batch_first": ["adapt", "predict"],
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_protocol_says_when_a_batch_is_learned_from(protocol: str) -> None:
    spy = Spy()
    play(replace(make_run(Contender("spy", lambda _: spy), n_rounds=4), protocol=protocol))
    assert [name for name, _ in spy.calls] == ORDERS[protocol] * 4
    for first, second in zip(spy.calls[::2], spy.calls[1::2], strict=True):
        assert (first[1] == second[1]) == (protocol != "fresh_rows")


def test_protocols_differ_in_the_scored_rows_only() -> None:
    seen = {}
    for protocol in PROTOCOLS:
        spy = Spy()
        play(replace(make_run(Contender("spy", lambda _, spy=spy: spy)), protocol=protocol))
        seen[protocol] = {kind: [x for name, x in spy.calls if name == kind] for kind in ("adapt", "predict")}
    assert seen["predict_first"] == seen["batch_first"]
    assert seen["fresh_rows"]["adapt"] == seen["predict_first"]["adapt"]
    assert not set(seen["fresh_rows"]["predict"]) & set(seen["predict_first"]["predict"])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_who_forgets_may_play_a_part_of_the_rounds_and_sees_what_they_need(protocol: str) -> None:
    every, some = Spy(), Spy()
    for spy, one_step_every in ((every, 1), (some, 4)):
        run = make_run(Contender("spy", lambda _, spy=spy: spy, forgets=True), one_step_every=one_step_every)
        row = play(replace(run, protocol=protocol))
    assert (row["n_predicted"], row["n_played"], row["n_rows"]) == (10, 40, 30)
    pairs = list(zip(every.calls, every.calls[1:], strict=False))
    place = 0
    for position, call in enumerate(some.calls):
        if call[0] == "predict" and position:
            assert (some.calls[position - 1], call) in pairs
            place += 1
    assert place >= 9


def test_what_forgets_has_the_same_risk_in_the_rounds_that_it_plays() -> None:
    whole, part = (play(make_run("uLSIF", n_rounds=200, score_every=5, one_step_every=k)) for k in (1, 5))
    assert part["risk"] == pytest.approx(whole["risk"], rel=1e-6)
    assert play(make_run("Accous", one_step_every=5))["n_predicted"] == 40


@pytest.mark.parametrize(("score_every", "n_scored"), [(1, 40), (5, 40), (10, 20), (20, 10)])
def test_what_plays_few_rounds_is_scored_in_no_more_of_them_than_asked(score_every: int, n_scored: int) -> None:
    run = make_run("uLSIF", n_rounds=200, score_every=score_every, one_step_every=5)
    is_played, is_scored = _chosen_rounds(run, 200)
    assert (is_played.sum(), is_scored.sum()) == (40, n_scored)
    assert not (is_scored & ~is_played).any()


def test_slow_contenders_play_fewer_of_the_rounds_and_none_is_left_out_without_need():
    slow = Contender("slow", lambda seed: AdaptiveClassifier(random_state=seed), forgets=True, every=3)
    assert [make_run(slow, one_step_every=k).plays_one_of for k in (1, 4)] == [1, 12]
    some, all_rounds = make_run(slow, one_step_every=4), make_run(slow)
    assert play(some)["n_predicted"] < 40 == play(all_rounds)["n_predicted"]
    assert some.settings()["one_step_every"] == 12
    assert make_run("KLIEP (cv)", one_step_every=5).plays_one_of == 25
    assert make_run("KLIEP", one_step_every=5).plays_one_of == 5
    assert make_run("Accous", one_step_every=5).plays_one_of == 1


@pytest.mark.parametrize("period", [5, 10, 100])
def test_no_phase_of_a_period_is_never_scored(period: int) -> None:
    is_scored = scored_rounds(10_000, 5, seed=3)
    assert is_scored.reshape(-1, 5).sum(axis=1).tolist() == [1] * 2000
    phases = np.bincount(np.flatnonzero(is_scored) % period, minlength=period)
    assert phases.min() > 0.25 * 2000 / period
    assert scored_rounds(7, 3, seed=0).sum() == 3
    assert scored_rounds(9, 1, seed=0).all()


@needs_data
def test_fresh_rows_need_a_known_distribution() -> None:
    run = Run("test", get_problem("powersupply"), get_contender("FIX"), Setting("natural", 5, 10, 0), Measures(1))
    row = play(replace(run, protocol="fresh_rows"))
    assert row["status"] == "failed"
    assert "use the protocol predict_first or batch_first" in row["reason"]


def test_a_record_has_what_is_needed_and_is_json() -> None:
    row = play(make_run("uLSIF"))
    assert row.keys() >= REQUIRED
    assert row == json.loads(json.dumps(row, allow_nan=False))
    assert row["settings"]["contender"]["ratio__max_ratio"] == "100.0"
    assert row["versions"]["accous"]
    assert row["n_rows"] == 120
    assert len(row["curve"]["round"]) == 40


def test_the_same_run_gives_the_same_numbers() -> None:
    first, second = (play(make_run("KLIEP")) for _ in range(2))
    for row in (first, second):
        for name in ("seconds", "cpu_seconds", "seconds_per_round", "finished"):
            del row[name]
    assert first == second


def test_making_the_stream_is_no_cost_of_the_contender(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams of a seed may share what takes minutes, which the first run of the seed would have to bear."""
    run, late = make_run("FIX"), 0.0
    real_clocks = {name: getattr(time, name) for name in ("perf_counter", "process_time")}
    for name, clock in real_clocks.items():
        monkeypatch.setattr(f"accous_bench.run.time.{name}", lambda clock=clock: clock() + late)

    def make(setting: Setting) -> Any:
        nonlocal late
        late = 1000.0
        return run.problem.make(setting)

    row = play(replace(run, problem=replace(run.problem, make=make)))
    assert row["status"] == "done"
    assert max(row["seconds"], row["cpu_seconds"]) < 1000.0


def test_the_oracle_gets_the_true_ratio_and_does_better() -> None:
    oracle, fixed = (play(make_run(name, n_rounds=60, options={"n_reference": 2000})) for name in ("oracle", "FIX"))
    assert oracle["risk"] < fixed["risk"] - 0.01
    assert oracle["ratio_error"] is None


def test_the_oracle_is_fitted_only_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = GaussianStream(SHIFTS["Sin"], n_features=3, n_reference=80, n_rounds=40, random_state=1)
    eager, lazy = Oracle().fit(*stream.reference()), Oracle().fit(*stream.reference())
    n_fits, fit = 0, lazy.erm_.fit

    def counted(*arguments: Any) -> Any:
        nonlocal n_fits
        n_fits += 1
        return fit(*arguments)

    monkeypatch.setattr(lazy.erm_, "fit", counted)
    for batch in stream:
        for oracle in (eager, lazy):
            oracle.adapt_to(stream.reference_ratio(batch.alpha))
        coefs = eager.estimator_.coefs
        if batch.round % 10 == 0:
            np.testing.assert_allclose(lazy.estimator_.coefs, coefs, atol=1e-3)
            assert lazy.estimator_ is lazy.estimator_
    assert n_fits == 4


@needs_data
def test_the_oracle_cannot_run_where_nobody_knows_the_ratio() -> None:
    row = play(
        Run("test", get_problem("powersupply"), get_contender("oracle"), Setting("natural", 5, 10, 0), Measures(1))
    )
    assert row["status"] == "failed"
    assert "true ratio of this stream is not known" in row["reason"]


def test_a_data_set_of_ones_own_is_run_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problems, "_PROBLEMS", dict(problems._PROBLEMS))
    given = get_problem("gaussian")
    problems.register_problem(replace(given, name="mine"))
    assert problems.problem_names()[-1] == "mine"
    assert play(make_run("Accous", dataset="mine"))["error"] == play(make_run("Accous"))["error"]
    with pytest.raises(ParameterError, match="register_problem takes a Problem"):
        problems.register_problem("mine")  # type: ignore[arg-type]


def test_a_failure_is_recorded() -> None:
    def make(_: Any) -> Any:
        raise RuntimeError("no such luck")

    broken = Contender("broken", make)
    run = make_run(broken)
    with pytest.raises(RuntimeError):
        run.identity()
    fails_later = Contender("later", lambda _: _FailsToFit())
    row = play(make_run(fails_later))
    assert row["status"] == "failed"
    assert re.fullmatch(r"RuntimeError: no such luck \(test_run.py, line \d+\)", row["reason"])
    assert row["error"] is None
    assert row.keys() >= REQUIRED


class _FailsToFit(Spy):
    def fit(self, X: Any, y: Any) -> Spy:
        raise RuntimeError("no such luck")


def test_weights_of_the_learners_are_those_of_the_ensemble() -> None:
    row = play(make_run("Accous", n_rounds=40, has_learner_weights=True))
    weights = row["learner_weights"]
    assert weights["length"] == [4, 8, 16, 32]
    assert np.sum(weights["weight"], axis=1) == pytest.approx(np.ones(len(weights["round"])), abs=1e-5)
    assert play(make_run("FIX", has_learner_weights=True))["learner_weights"] is None


def test_the_regret_is_that_of_the_expected_loss() -> None:
    run = make_run("OLRE", dataset="moving_gaussian", shift="fixed path", has_regret=True, n_rounds=30)
    row = play(run)
    stream = MovingGaussianStream(
        SHIFTS["fixed path"], n_features=3, n_reference=80, n_rounds=30, batch_size=3, random_state=1
    )
    rows = stream.fresh_reference_rows(2000)
    model = run.model().fit(*stream.reference())
    regret = 0.0
    for batch in stream:
        r, truth = model.ratio_.predict_ratio(rows), stream.true_ratio(rows, batch.alpha)
        for ratio, sign in ((r, 1.0), (truth, -1.0)):
            regret += sign * 0.5 * float(np.mean(np.log(1 + ratio) + truth * np.log(1 + 1 / ratio)))
        model.adapt(batch.X)
    assert row["ratio_regret"] == pytest.approx(regret, rel=1e-9)
    assert regret > 0


@given(
    st.lists(st.floats(1e-3, 1e3), min_size=3, max_size=3),
    st.lists(st.floats(1e-3, 1e3), min_size=3, max_size=3),
)
def test_no_ratio_has_a_smaller_expected_loss_than_the_true_one(ratio: list[float], truth: list[float]) -> None:
    assert expected_excess_loss(np.array(ratio), np.array(truth)) >= -1e-12
    assert expected_excess_loss(np.array(truth), np.array(truth)) == 0.0


@given(st.integers(1, 60), st.integers(1, 20), st.randoms(use_true_random=False))
def test_a_curve_is_the_errors_in_blocks(n_rounds: int, n_points: int, random: Any) -> None:
    scores = RoundScores(n_rounds, n_points)
    wrong = [[random.random() < 0.5 for _ in range(random.randint(1, 3))] for _ in range(n_rounds)]
    for i, is_wrong in enumerate(wrong, start=1):
        scores.add_errors(i, np.array(is_wrong))
        if random.random() < 0.7:
            scores.add(i, risk=float(i))
    curve: Any = scores.curve()
    assert curve["round"][-1] == n_rounds
    assert len(curve["round"]) == min(n_rounds, n_points)
    start = 0
    for end, error, risk in zip(curve["round"], curve["error"], curve["risk"] or [None] * n_rounds, strict=False):
        rows = [row for is_wrong in wrong[start:end] for row in is_wrong]
        assert error == pytest.approx(sum(rows) / len(rows), rel=1e-5)
        assert risk is None or start < risk <= end
        start = end
    assert scores.error == pytest.approx(sum(map(sum, wrong)) / sum(map(len, wrong)))


def test_scores_between_two_rounds_count_like_their_mean() -> None:
    scores = RoundScores(10, 10)
    for i in (2, 4):
        scores.add(i, excess_loss=float(i))
    assert scores.mean("excess_loss") == 3.0
    assert scores.total("excess_loss") == 30.0
    assert scores.mean("risk") is None


@needs_data
@pytest.mark.parametrize("dataset", rest_slow(["diabetes", "breast", "breast_cancer"]))
def test_tables_are_scaled_by_their_reference_only(dataset: str) -> None:
    stream = get_problem(dataset).make(Setting("Squ", 5, 20, 3))
    X, _ = stream.reference()
    assert X.mean(axis=0) == pytest.approx(np.zeros(X.shape[1]), abs=1e-9)
    assert stream.reference_alpha == pytest.approx(0.9, abs=0.01)


@needs_data
@pytest.mark.parametrize("dataset", rest_slow(["diabetes", "breast"]))
def test_tables_as_described_have_a_reference_of_one_part_and_a_split_for_each_seed(dataset: str) -> None:
    problem = get_problem(f"{dataset}_described")
    streams = [problem.make(Setting("Squ", 5, 20, seed)) for seed in (0, 1)]
    assert {stream.reference_alpha for stream in streams} == {1.0}
    assert len({len(stream.reference()[1]) for stream in streams}) == 1
    assert len({stream.pool_a[1].mean() for stream in streams}) == 2
    fixed = [get_problem(dataset).make(Setting("Squ", 5, 20, seed)) for seed in (0, 1)]
    assert len({stream.pool_a[1].mean() for stream in fixed}) == 1
    options = {"alpha_0": 1.0, "split": "seed", "n_reference": len(streams[1].reference()[1])}
    same = get_problem(dataset).make(Setting("Squ", 5, 20, 1, options))
    assert np.array_equal(same.reference()[0], streams[1].reference()[0])
    with pytest.raises(ParameterError, match="split must be one of fixed, seed"):
        get_problem(dataset).make(Setting("Squ", 5, 20, 1, {"split": "new"}))


@needs_data
@pytest.mark.parametrize("dataset", rest_slow(["powersupply", "gas_sensor", "acs_employment"]))
def test_tables_in_order_of_time_differ_from_seed_to_seed(dataset: str) -> None:
    problem = get_problem(dataset)
    first, again, other = (problem.make(Setting("natural", 10, 20, seed)) for seed in (0, 0, 1))
    assert len(first.reference()[0]) == 1000
    assert len(first) == 20
    assert np.array_equal(first.X, again.X)
    assert not np.array_equal(first.X, other.X)
    assert math.isnan(next(iter(first)).alpha)
