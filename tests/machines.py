"""Parts of the suite as other machines would run them: `make test-machines`, or `python -m tests.machines [NAME ...]`.

Each setting stands for a machine: another processor, a busy one, one core, an unusual environment. Variables of
the environment tell the libraries what they may use; compiled code goes into a cache of its own. One setting runs what
waits and races five times, because what fails now and then may pass once.
"""

import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
TIME_LIMIT = 1800.0  # seconds, for what hangs
N_BUSY = 8

# Where numbers come out of BLAS, LAPACK, vectorised loops and sums.
NUMERICAL = (
    "tests/core", "tests/diagnostics", "tests/streams", "tests/deep", "tests/keyed", "tests/ratio", "tests/model",
    "tests/test_properties.py", "tests/table/test_fit.py", "tests/test_docs.py",
)  # fmt: skip
# Where processes and threads race or wait for each other: cheap enough to be run five times.
RACING = (
    "tests/cli/test_kill.py", "tests/cli/test_processes.py", "tests/checkpoint/test_crash.py",
    "tests/ratio/test_threads.py", "tests/test_locks.py",
)  # fmt: skip
TIMED = (*RACING, "tests/bench/test_grid.py", "tests/deep", "tests/service")
# Where texts are printed, and files found and written.
PRINTED = ("tests/cli", "tests/checkpoint/test_folder.py", "tests/table", "tests/report", "tests/test_docs.py")


@dataclass(frozen=True)
class Machine:
    """A setting: what is run, with which variables and options of pytest, beside what, on how many cores, how often."""

    name: str
    parts: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    is_busy: bool = False
    n_cores: int | None = None
    umask: int = -1
    n_runs: int = 1


def processors() -> list[Machine]:
    """Other processors that this one can stand for: none but those of its own kind, and none newer than it is."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return []
    # What numpy uses of this processor beyond what every one has.
    found = list(np.show_config(mode="dicts")["SIMD Extensions"].get("found", []))  # type: ignore[call-overload]
    avx2 = {"OPENBLAS_CORETYPE": "Haswell", "NUMBA_CPU_NAME": "haswell", "ATEN_CPU_CAPABILITY": "avx2"}
    newer = [name for name in found if "512" in name or name == "X86_V4"]
    sse = {"OPENBLAS_CORETYPE": "Prescott", "NUMBA_CPU_NAME": "generic", "ATEN_CPU_CAPABILITY": "default"}
    machines = [Machine("sse", NUMERICAL, {**sse, "NPY_DISABLE_CPU_FEATURES": " ".join(found)})]
    if {"X86_V3", "AVX2"} & set(found):
        machines.append(Machine("avx2", NUMERICAL, {**avx2, "NPY_DISABLE_CPU_FEATURES": " ".join(newer)}))
    return machines


def all_machines() -> list[Machine]:
    """Every setting, the cheapest first."""
    elsewhere = {"LC_ALL": "C", "TZ": "Pacific/Kiritimati", "COLUMNS": "40", "FORCE_COLOR": "1", "PYTHONHASHSEED": "1"}
    return [
        Machine("elsewhere", PRINTED, elsewhere, umask=0o077),
        Machine("shuffled", PRINTED, options=("-p", "tests.shuffled")),
        *([Machine("one core", TIMED, n_cores=1)] if hasattr(os, "sched_setaffinity") else []),
        Machine("busy", TIMED, is_busy=True),
        Machine("five times", RACING, n_runs=5),
        Machine("not compiled", ("tests/core",), {"NUMBA_DISABLE_JIT": "1"}),
        *processors(),
    ]


@contextmanager
def surroundings(machine: Machine) -> Iterator[None]:
    """Start processes that compute without end, and use so many cores only, while the block runs."""
    # Should this process be killed, they end by themselves.
    code = f"import time\nend = time.monotonic() + {TIME_LIMIT}\nwhile time.monotonic() < end: pass"
    started = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(N_BUSY if machine.is_busy else 0)]
    before = os.sched_getaffinity(0) if machine.n_cores else None
    try:
        if before:
            os.sched_setaffinity(0, sorted(before)[: machine.n_cores])
        yield
    finally:
        if before:
            os.sched_setaffinity(0, before)
        for process in started:
            process.kill()
            process.wait()


def run_on(machine: Machine, folder: Path) -> tuple[int, str]:
    """Exit code and output of a machine's part of the suite, with caches and home in an empty folder."""
    (folder / "home").mkdir()
    places = {"NUMBA_CACHE_DIR": str(folder / "cache"), "HOME": str(folder / "home"), "MPLBACKEND": "Agg"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *machine.options, *machine.parts]
    how = {"cwd": ROOT, "env": {**os.environ, **places, **machine.variables}, "umask": machine.umask, "text": True}
    with surroundings(machine):
        for _ in range(machine.n_runs):
            try:
                pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
                run = subprocess.run(command, check=False, timeout=TIME_LIMIT, **pipes, **how)  # type: ignore[call-overload]
            except subprocess.TimeoutExpired:
                return -1, f"not finished in {TIME_LIMIT:,.0f} seconds: stopped"
            if run.returncode != 0:
                break
    return run.returncode, run.stdout


def main(names: list[str]) -> int:
    """Run the settings of these names, or all; print a table; return how many failed."""
    machines = {machine.name: machine for machine in all_machines()}
    n_failed = 0
    for name in names or machines:
        with tempfile.TemporaryDirectory() as folder:
            code, output = run_on(machines[name], Path(folder))
        lines = output.splitlines() or [""]
        print(f"{name:14}{re.sub('=+', '', lines[-1]).strip()}", flush=True)
        if code != 0:
            n_failed += 1
            failures = [line for line in lines if line.startswith(("FAILED", "ERROR"))] or lines[-20:]
            print(*(f"    {line}" for line in failures), sep="\n", flush=True)
    return n_failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
