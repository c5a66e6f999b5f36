"""Grids in one process, in several and on a cluster; stopped, torn and resumed."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accous.exceptions import AccousError, DataError
from accous_bench import contenders
from accous_bench.grid import play_grid, unfinished
from accous_bench.results import append_row, read_rows, repair
from accous_bench.run import Run
from accous_bench.spec import read_spec
from tests.budgets import examples
from tests.forks import ForkServer
from tests.waiting import wait_for

WriteSpec = Callable[..., Path]
# Times, and the state of the source files, which may be edited while the tests run.
NOT_COMPARED = ("seconds", "cpu_seconds", "seconds_per_round", "finished", "commit")


def numbers(file: Path) -> dict[str, dict[str, Any]]:
    return {row["run"]: {k: v for k, v in row.items() if k not in NOT_COMPARED} for row in read_rows(file)}


def played(runs: list[Run], file: Path, **how: Any) -> dict[str, dict[str, Any]]:
    play_grid(runs, file, **how)
    return numbers(file)


def test_the_numbers_of_a_run_do_not_depend_on_the_runs_played_before_it(write_spec: WriteSpec, tmp_path: Path) -> None:
    """So they may be dealt out to any number of processes; starting some takes seconds, which the next test does."""
    runs = read_spec(write_spec(("rounds = [24]", "rounds = [8]"))).runs()
    in_order = played(runs, tmp_path / "in_order.jsonl")
    assert len(in_order) == len(runs)
    assert all(row["status"] == "done" for row in in_order.values())
    assert played(runs[::-1][: len(runs) // 2], tmp_path / "half.jsonl").items() <= in_order.items()


@pytest.mark.slow
def test_the_numbers_do_not_depend_on_the_number_of_processes(write_spec: WriteSpec, tmp_path: Path) -> None:
    runs = read_spec(write_spec()).runs()
    alone = played(runs, tmp_path / "one.jsonl", n_jobs=1)
    assert len(alone) == len(runs)
    assert all(row["status"] == "done" for row in alone.values())
    assert played(runs, tmp_path / "two.jsonl", n_jobs=2) == alone


@pytest.mark.slow
def test_a_dask_cluster_gives_the_same_numbers(write_spec: WriteSpec, tmp_path: Path, own_registry: None) -> None:
    distributed = pytest.importorskip("distributed", reason="needs Dask: pip install 'accous[dask]'")
    (tmp_path / "mine.py").write_text(
        "from accous import AdaptiveClassifier, KLIEP\n"
        "from accous_bench.contenders import Contender, register\n"
        "register(Contender('mine', lambda seed: AdaptiveClassifier(ratio=KLIEP())))\n"
    )
    spec = read_spec(write_spec(('"uLSIF"', '"mine"'), ("seeds = 2", 'seeds = 1\nplugins = ["mine.py"]')))
    runs = spec.runs()
    alone = played(runs, tmp_path / "one.jsonl")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        on_cluster = played(runs, tmp_path / "cluster.jsonl", dask=cluster.scheduler_address)
    assert on_cluster == alone
    assert {row["contender"] for row in alone.values()} >= {"mine", "Accous"}


def test_no_cluster_at_the_address_is_one_sentence(write_spec: WriteSpec, tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="needs Dask: pip install 'accous[dask]'")
    with pytest.raises(AccousError, match="no Dask scheduler at nonsense://here"):
        play_grid(read_spec(write_spec()).runs(), tmp_path / "r.jsonl", dask="nonsense://here")


def test_finished_runs_are_not_played_again(write_spec: WriteSpec, tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    runs = read_spec(write_spec()).runs()
    play_grid(runs[:5], file)
    left = unfinished(runs, file)
    assert [run.identity() for run in left] == [run.identity() for run in runs[5:]]
    play_grid(left, file)
    assert unfinished(runs, file) == []
    assert numbers(file) == played(runs, tmp_path / "whole.jsonl")


def test_a_failed_run_is_recorded_and_gets_another_chance(
    write_spec: WriteSpec, tmp_path: Path, own_registry: None
) -> None:
    class Fails:
        def fit(self, X: Any, y: Any) -> None:
            raise RuntimeError("not today")

        def __repr__(self) -> str:
            return "Fails()"

    contenders.register(contenders.Contender("fails", lambda _: Fails()))
    runs = read_spec(write_spec(('"uLSIF"', '"fails"'))).runs()
    file = tmp_path / "r.jsonl"
    play_grid(runs, file)
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
    n_whole = sum(1 for line in whole[:cut].split(b"\n") if any(line == json.dumps(row).encode() for row in ROWS))
    assert read_rows(file) == ROWS[:n_whole]
    repair(file)
    assert read_rows(file) == ROWS[:n_whole]
    for row in ROWS[n_whole:]:
        append_row(file, row)
    assert file.read_bytes() == whole


def test_a_broken_line_elsewhere_is_an_error_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    file.write_text('{"run": "a", "status": "done"}\nnonsense\n{"run": "b", "status": "done"}\n')
    with pytest.raises(DataError, match=r"r.jsonl, line 2: not a record"):
        read_rows(file)


def test_the_last_record_of_a_run_counts(tmp_path: Path) -> None:
    for name, status in (("a.jsonl", "failed"), ("b.jsonl", "done")):
        append_row(tmp_path / name, {"run": "x", "status": status})
    assert [row["status"] for row in read_rows(tmp_path)] == ["done"]


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
    assert numbers(file) == played(runs, tmp_path / "whole.jsonl")
    assert len(file.read_bytes().splitlines()) == len(runs)
