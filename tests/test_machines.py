"""The settings of `make test-machines` take effect: the libraries say so themselves."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import machines
from tests.shuffled import pytest_collection_modifyitems

ASK_LIBRARIES = """
import json
import numpy as np
import scipy.linalg
from numba.core.registry import cpu_target
from threadpoolctl import threadpool_info

print(json.dumps({
    "blas": sorted({library.get("architecture", "") for library in threadpool_info() if library["user_api"] == "blas"}),
    "simd": np.show_config(mode="dicts")["SIMD Extensions"].get("found", []),
    "compiled for": cpu_target.target_context.codegen().magic_tuple()[1],
}))
"""
ASK_CORES = "import os; print(len(os.sched_getaffinity(0)))"
ASK_NUMBA = "from numba.core import config; print(config.DISABLE_JIT)"


def asked(machine: machines.Machine, question: str) -> Any:
    environment = {**os.environ, **machine.variables}
    with machines.cores(machine.n_cores):
        run = subprocess.run(
            [sys.executable, "-W", "error", "-c", question], env=environment, capture_output=True, text=True, check=True
        )
    return json.loads(run.stdout)


def by_name() -> dict[str, machines.Machine]:
    return {machine.name: machine for machine in machines.all_machines()}


def test_every_part_exists_and_names_are_distinct() -> None:
    assert len(by_name()) == len(machines.all_machines())
    for machine in machines.all_machines():
        assert all((machines.ROOT / part).exists() for part in machine.parts), machine.name


def test_every_part_of_the_suite_is_in_a_list_or_exempt_with_a_reason() -> None:
    tests = machines.ROOT / "tests"
    listed = {Path(part) for part in (*machines.NUMERICAL, *machines.TIMED, *machines.PRINTED)}
    files = {path.relative_to(machines.ROOT) for path in tests.rglob("test_*.py")}
    alone = (Path("tests"), Path("tests/cli"))  # where one file in a list says nothing of the others
    parts = {path if path.parent in alone else path.parent for path in files}
    found = listed | ({part.parent for part in listed} - set(alone))
    missing = {part.as_posix() for part in parts if part not in found and listed.isdisjoint(part.parents)}
    assert missing == machines.EXEMPT.keys()
    assert all(machines.EXEMPT.values())


def test_a_setting_is_repeated_until_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = iter([0, 0, 1, 0])
    monkeypatch.setattr(machines, "_run_within_limit", lambda *_: (next(codes), "1 passed"))
    machine = machines.Machine("often", (), n_runs=5)
    assert machines.run_on(machine, tmp_path).code == 1
    assert next(codes) == 0


@pytest.mark.skipif(
    not {"sse", "avx2"} <= by_name().keys(), reason="needs a processor with AVX2: run the tests on another machine"
)
def test_processors_are_those_that_the_libraries_see() -> None:
    old, newer = (asked(by_name()[name], ASK_LIBRARIES) for name in ("sse", "avx2"))
    assert newer["blas"] == ["Haswell"]
    assert newer["compiled for"] == "haswell"
    assert not [name for name in newer["simd"] if "512" in name or name == "X86_V4"]
    assert old["simd"] == []
    assert old["compiled for"] == "generic"
    assert "Haswell" not in old["blas"]


@pytest.mark.skipif("one core" not in by_name(), reason="needs sched_setaffinity: run the tests on Linux")
def test_one_core_and_no_compilation() -> None:
    before = os.sched_getaffinity(0)
    assert asked(by_name()["one core"], ASK_CORES) == 1
    assert os.sched_getaffinity(0) == before
    assert asked(by_name()["not compiled"], ASK_NUMBA) == 1


def test_a_failure_is_counted_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    (tmp_path / "test_two.py").write_text("def test_good(): ...\ndef test_bad(): assert 1 == 2\n")
    machine = machines.Machine("mine", (str(tmp_path),), is_busy=True)
    n_busy: list[int] = []

    @contextlib.contextmanager
    def busy_processes(number: int) -> Iterator[None]:  # what they do has a test of its own
        n_busy.append(number)
        yield

    monkeypatch.setattr(machines, "busy_processes", busy_processes)
    monkeypatch.setattr(machines, "all_machines", lambda: [machine])
    assert machines.main([]) == 1
    assert n_busy == [machines.N_BUSY]
    shown = capsys.readouterr().out.splitlines()
    assert shown[1].split()[:4] == ["mine", "1", "1", "0"]
    assert "test_two.py::test_bad" in shown[2]
    assert machines.main(["yours"]) == 2
    assert capsys.readouterr().out == "No setting yours: name one of mine.\n"


def test_a_setting_that_takes_too_long_is_stopped_and_the_next_one_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    hang = [sys.executable, "-c", "import time; print('here', flush=True); time.sleep(1000)"]
    monkeypatch.setattr(machines, "TIME_LIMIT", 0.5)
    code, output = machines._run_within_limit(hang, dict(os.environ), -1)
    assert code == -1
    assert output.splitlines()[-1] == "not finished in 0 seconds: stopped"
    outcomes = iter([machines.Outcome(code, output, 1.0), machines.Outcome(0, "1 passed in 0.1s", 1.0)])
    monkeypatch.setattr(machines, "run_on", lambda *_: next(outcomes))
    monkeypatch.setattr(machines, "all_machines", lambda: [machines.Machine("slow", ()), machines.Machine("next", ())])
    assert machines.main([]) == 1
    shown = capsys.readouterr().out
    assert "not finished in 0 seconds: stopped" in shown
    assert shown.splitlines()[-1].split()[:2] == ["next", "1"]


def fail_while_busy(started: list[subprocess.Popen]) -> None:
    with machines.busy_processes(2) as processes:
        started.extend(processes)
        assert [process.poll() for process in started] == [None, None]
        raise ZeroDivisionError


def test_busy_processes_are_ended_whatever_happens() -> None:
    started: list[subprocess.Popen] = []
    with pytest.raises(ZeroDivisionError):
        fail_while_busy(started)
    assert [process.poll() for process in started] == [-signal.SIGKILL] * 2


def test_shuffling_keeps_every_test_and_the_tests_of_a_file_together() -> None:
    items = [SimpleNamespace(path=Path(f"test_{name}.py"), number=number) for name in "abc" for number in range(9)]
    orders = [list(items) for _ in range(2)]
    for order in orders:
        pytest_collection_modifyitems(order)
    assert orders[0] == orders[1] != items
    assert len({item.path for item in orders[0][:9]}) == 1
    assert sorted(map(id, orders[0])) == sorted(map(id, items))
