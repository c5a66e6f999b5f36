"""One run against an obvious loop; grids in one process, in several and on a cluster; stopped, torn and resumed."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accous import AdaptiveClassifier, OnlineDensityRatio
from accous.exceptions import DataError, ParameterError
from accous.streams import GaussianStream
from accous_bench import contenders
from accous_bench.contenders import PROTOCOLS, Contender, get_contender
from accous_bench.grid import (
    MeasurePlan,
    RoundScores,
    Run,
    _chosen_rounds,
    append_row,
    expected_excess_loss,
    read_rows,
    repair,
    run_grid,
    run_one,
    scored_rounds,
    unfinished,
)
from accous_bench.problems import SHIFTS, Setting, get_problem
from accous_bench.spec import read_spec
from accous_bench.streams import MovingGaussianStream
from tests.budgets import examples, rest_slow
from tests.forks import ForkServer
from tests.needs import needs_data
from tests.waiting import wait_for

REQUIRED = {"dataset", "shift", "batch_size", "contender", "seed", "error"}


def make_run(contender: str | Contender, *, n_rounds: int = 40, score_every: int = 1, **changes: Any) -> Run:
    chosen = get_contender(contender) if isinstance(contender, str) else contender
    options = {"n_reference": 80, "n_features": 3, **changes.pop("options", {})}
    dataset = changes.pop("dataset", "gaussian")
    setting = Setting(changes.pop("shift", "Squ"), changes.pop("batch_size", 3), n_rounds, 1, options)
    return Run("test", get_problem(dataset), chosen, setting, MeasurePlan(score_every, **changes))


def test_a_run_agrees_with_the_obvious_loop() -> None:
    row = run_one(make_run("accous"))
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
    run_one(replace(make_run(Contender("spy", lambda _: spy), n_rounds=4), protocol=protocol))
    assert [name for name, _ in spy.calls] == ORDERS[protocol] * 4
    for first, second in zip(spy.calls[::2], spy.calls[1::2], strict=True):
        assert (first[1] == second[1]) == (protocol != "fresh_rows")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_who_forgets_may_run_a_part_of_the_rounds_and_sees_what_they_need(protocol: str) -> None:
    every, some = Spy(), Spy()
    for spy, one_step_every in ((every, 1), (some, 4)):
        run = make_run(Contender("spy", lambda _, spy=spy: spy, forgets=True), one_step_every=one_step_every)
        row = run_one(replace(run, protocol=protocol))
    assert (row["n_predicted"], row["n_run"], row["n_rows"]) == (10, 40, 30)
    pairs = list(zip(every.calls, every.calls[1:], strict=False))
    place = 0
    for position, call in enumerate(some.calls):
        if call[0] == "predict" and position:
            assert (some.calls[position - 1], call) in pairs
            place += 1
    assert place >= 9


@pytest.mark.parametrize(("score_every", "n_scored"), [(1, 40), (5, 40), (10, 20), (20, 10)])
def test_what_runs_few_rounds_is_scored_in_no_more_of_them_than_asked(score_every: int, n_scored: int) -> None:
    run = make_run("uLSIF", n_rounds=200, score_every=score_every, one_step_every=5)
    is_run, is_scored = _chosen_rounds(run, 200)
    assert (is_run.sum(), is_scored.sum()) == (40, n_scored)
    assert not (is_scored & ~is_run).any()


@pytest.mark.parametrize("period", [5, 10, 100])
def test_no_phase_of_a_period_is_never_scored(period: int) -> None:
    is_scored = scored_rounds(10_000, 5, seed=3)
    assert is_scored.reshape(-1, 5).sum(axis=1).tolist() == [1] * 2000
    phases = np.bincount(np.flatnonzero(is_scored) % period, minlength=period)
    assert phases.min() > 0.25 * 2000 / period
    assert scored_rounds(7, 3, seed=0).sum() == 3
    assert scored_rounds(9, 1, seed=0).all()


def test_a_record_has_what_is_needed_and_is_json() -> None:
    row = run_one(make_run("uLSIF"))
    assert row.keys() >= REQUIRED
    assert row == json.loads(json.dumps(row, allow_nan=False))
    assert row["settings"]["contender"]["ratio__max_ratio"] == "100.0"
    assert row["versions"]["accous"]
    assert row["n_rows"] == 120
    assert len(row["curve"]["round"]) == 40


def test_the_same_run_gives_the_same_numbers() -> None:
    first, second = (run_one(make_run("KLIEP")) for _ in range(2))
    for row in (first, second):
        for name in ("seconds", "cpu_seconds", "seconds_per_round", "finished"):
            del row[name]
    assert first == second


def test_the_oracle_gets_the_true_ratio_and_does_better() -> None:
    oracle, fixed = (run_one(make_run(name, n_rounds=60, options={"n_reference": 2000})) for name in ("oracle", "FIX"))
    assert oracle["risk"] < fixed["risk"] - 0.01
    assert oracle["ratio_error"] is None


def test_a_failure_is_recorded() -> None:
    def make(_: Any) -> Any:
        raise RuntimeError("no such luck")

    broken = Contender("broken", make)
    run = make_run(broken)
    with pytest.raises(RuntimeError):
        run.identity()
    fails_later = Contender("later", lambda _: _FailsToFit())
    row = run_one(make_run(fails_later))
    assert row["status"] == "failed"
    assert re.fullmatch(r"RuntimeError: no such luck \(test_grid.py, line \d+\)", row["reason"])
    assert row["error"] is None
    assert row.keys() >= REQUIRED


class _FailsToFit(Spy):
    def fit(self, X: Any, y: Any) -> Spy:
        raise RuntimeError("no such luck")


def test_the_regret_is_that_of_the_expected_loss() -> None:
    run = make_run("OLRE", dataset="moving_gaussian", shift="fixed path", has_regret=True, n_rounds=30)
    row = run_one(run)
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


@given(st.lists(st.floats(1e-3, 1e3), min_size=3, max_size=3), st.lists(st.floats(1e-3, 1e3), min_size=3, max_size=3))
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
    with pytest.raises(ParameterError, match=r"split .*fixed, seed"):
        get_problem(dataset).make(Setting("Squ", 5, 20, 1, {"split": "new"}))


WriteSpec = Callable[..., Path]
# Times, and the state of the source files, which may be edited while the tests run.
NOT_COMPARED = ("seconds", "cpu_seconds", "seconds_per_round", "finished", "commit")


def numbers(file: Path) -> dict[str, dict[str, Any]]:
    return {row["run"]: {k: v for k, v in row.items() if k not in NOT_COMPARED} for row in read_rows(file)}


def numbers_of(runs: list[Run], file: Path, **how: Any) -> dict[str, dict[str, Any]]:
    run_grid(runs, file, **how)
    return numbers(file)


def test_the_numbers_of_a_run_do_not_depend_on_the_runs_before_it(write_spec: WriteSpec, tmp_path: Path) -> None:
    """So they may be dealt out to any number of processes; starting some takes seconds, which the next test does."""
    runs = read_spec(write_spec(("rounds = [24]", "rounds = [8]"))).runs()
    in_order = numbers_of(runs, tmp_path / "in_order.jsonl")
    assert len(in_order) == len(runs)
    assert all(row["status"] == "done" for row in in_order.values())
    assert numbers_of(runs[::-1][: len(runs) // 2], tmp_path / "half.jsonl").items() <= in_order.items()


@pytest.mark.slow
def test_the_numbers_do_not_depend_on_the_number_of_processes(write_spec: WriteSpec, tmp_path: Path) -> None:
    runs = read_spec(write_spec()).runs()
    alone = numbers_of(runs, tmp_path / "one.jsonl", n_jobs=1)
    assert len(alone) == len(runs)
    assert all(row["status"] == "done" for row in alone.values())
    assert numbers_of(runs, tmp_path / "two.jsonl", n_jobs=2) == alone


def test_other_processes_know_the_contenders_and_shifts_of_plugins(
    write_spec: WriteSpec, tmp_path: Path, own_registry: None
) -> None:
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n"
        "from accous import AdaptiveClassifier, KLIEP\n"
        "from accous.streams import Shift\n"
        "from accous_bench.contenders import Contender, register\n"
        "from accous_bench.problems import register_shift\n"
        "class Spike(Shift):\n"
        "    def _alphas(self, rounds, generator):\n"
        "        return (np.asarray(rounds) % 10 == 0).astype(float)\n"
        "register(Contender('mine', lambda seed: AdaptiveClassifier(ratio=KLIEP())))\n"
        "register_shift('Spike', Spike())\n"
    )
    changes = (('"uLSIF"', '"mine"'), ("seeds = 2", 'seeds = 1\nplugins = ["mine.py"]'), ('"Squ"', '"Spike"'))
    runs = read_spec(write_spec(*changes)).runs()
    alone = numbers_of(runs, tmp_path / "one.jsonl")
    assert numbers_of(runs, tmp_path / "two.jsonl", n_jobs=2) == alone
    assert {row["contender"] for row in alone.values()} >= {"mine", "accous"}
    assert "Spike" in {row["shift"] for row in alone.values()}
    assert {row["status"] for row in alone.values()} == {"done"}


def test_finished_runs_are_not_run_again(write_spec: WriteSpec, tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    runs = read_spec(write_spec()).runs()
    run_grid(runs[:5], file)
    left = unfinished(runs, file)
    assert [run.identity() for run in left] == [run.identity() for run in runs[5:]]
    run_grid(left, file)
    assert unfinished(runs, file) == []
    assert numbers(file) == numbers_of(runs, tmp_path / "whole.jsonl")


def test_a_failed_run_is_recorded_and_gets_another_chance(
    write_spec: WriteSpec, tmp_path: Path, own_registry: None
) -> None:
    class Fails:
        def fit(self, X: Any, y: Any) -> None:
            raise RuntimeError("not today")

        adapt = predict = fit

        def __repr__(self) -> str:
            return "Fails()"

    contenders.register(contenders.Contender("fails", lambda _: Fails()))
    runs = read_spec(write_spec(('"uLSIF"', '"fails"'))).runs()
    file = tmp_path / "r.jsonl"
    run_grid(runs, file)
    rows = read_rows(file)
    assert len(rows) == len(runs)
    assert {row["contender"] for row in rows if row["status"] == "failed"} == {"fails"}
    assert {run.names["contender"] for run in unfinished(runs, file)} == {"fails"}


ROWS = [{"run": f"{i:016x}", "status": "done", "text": "a\u00fc" * i} for i in range(4)]


@examples(40)
@given(st.integers(0, 10_000))
def test_a_line_torn_anywhere_costs_that_line_only(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    file = tmp_path_factory.mktemp("torn") / "r.jsonl"
    for row in ROWS:
        append_row(file, row)
    whole = file.read_bytes()
    cut %= len(whole) + 1
    file.write_bytes(whole[:cut])
    n_whole = whole[:cut].count(b"\n")
    assert read_rows(file)[:n_whole] == ROWS[:n_whole]
    repair(file)
    assert read_rows(file) == ROWS[:n_whole]
    for row in ROWS[n_whole:]:
        append_row(file, row)
    assert file.read_bytes() == whole


def test_a_broken_line_elsewhere_is_an_error_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    file.write_text('{"run": "a", "status": "done"}\nnonsense\n{"run": "b", "status": "done"}\n')
    with pytest.raises(DataError, match=r"r\.jsonl, line 2"):
        read_rows(file)


@pytest.mark.parametrize(
    ("kind", "n_jobs"),
    [
        (signal.SIGKILL, 1),
        pytest.param(signal.SIGKILL, 2, marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, 1, marks=pytest.mark.slow),
    ],
)
def test_a_killed_grid_loses_only_the_runs_under_way(
    write_spec: WriteSpec, tmp_path: Path, forks: ForkServer, kind: signal.Signals, n_jobs: int
) -> None:
    path = write_spec(("rounds = [24]", "rounds = [60]"))
    folder = tmp_path / "out"
    command = ["accous", "bench", "run", path, "-o", folder, "-q", "-j", n_jobs]
    process = forks.start(*command, start_new_session=True)
    file = folder / "small.jsonl"
    wait_for(lambda: file.is_file() and file.read_bytes().count(b"\n") >= 2, "second record")
    if kind == signal.SIGKILL:
        os.killpg(process.pid, kind)
    else:
        process.send_signal(kind)
    with process:
        _, errors = process.communicate()
    assert process.returncode in (-signal.SIGKILL, 130, 0)
    assert b"Traceback" not in errors
    n_finished = len(read_rows(file))
    assert n_finished >= 2
    forks.run(*command)
    runs = read_spec(path).runs()
    assert numbers(file) == numbers_of(runs, tmp_path / "whole.jsonl")
    assert len(file.read_bytes().splitlines()) == len(runs)
