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
NOT_FINISHED = "not finished in {:,.0f} seconds: stopped"

# Where numbers come out of BLAS, LAPACK, vectorised loops and sums.
NUMERICAL = (
    "tests/core", "tests/diagnostics", "tests/streams", "tests/deep", "tests/keyed", "tests/ratio/test_kmm.py",
    "tests/ratio/test_kernel_ratios.py", "tests/ratio/test_one_step.py", "tests/ratio/test_pool.py",
    "tests/test_properties.py", "tests/model/test_predictors.py", "tests/model/test_regression.py",
    "tests/model/test_risk.py", "tests/tabular/test_choosing.py", "tests/test_docs.py",
)  # fmt: skip
# Where processes and threads wait for each other.
TIMED = (
    "tests/cli/test_processes.py", "tests/cli/test_kill.py", "tests/bench/test_grid.py",
    "tests/checkpoint/test_crash.py", "tests/model/test_threads.py", "tests/ratio/test_threads.py",
    "tests/bench/test_tuning.py", "tests/deep/test_features.py",
    "tests/deep/test_reduction.py", "tests/service", "tests/test_forks.py", "tests/test_turns.py",
)  # fmt: skip
# The part of those that races: cheap enough to be run five times.
RACING = (
    "tests/cli/test_kill.py", "tests/cli/test_processes.py", "tests/checkpoint/test_crash.py",
    "tests/ratio/test_threads.py", "tests/service/test_together.py", "tests/service/test_batch_log.py",
    "tests/service/test_workers.py", "tests/test_forks.py", "tests/test_turns.py",
)  # fmt: skip
# Where texts are printed, and files found and written.
PRINTED = (
    "tests/cli/test_fit.py", "tests/cli/test_adapt.py", "tests/cli/test_adapt_resuming.py",
    "tests/cli/test_backtest.py", "tests/cli/test_bad_rows.py", "tests/cli/test_counts.py", "tests/cli/test_demo.py",
    "tests/cli/test_earlier_runs.py",
    "tests/cli/test_estimators.py", "tests/cli/test_extend.py", "tests/cli/test_guide.py", "tests/cli/test_inspect.py",
    "tests/cli/test_label_positions.py", "tests/cli/test_labels.py", "tests/cli/test_labels_after_extend.py",
    "tests/cli/test_numbers.py", "tests/cli/test_predict.py", "tests/cli/test_reference_copies.py",
    "tests/cli/test_suggestions.py", "tests/checkpoint/test_folder.py", "tests/tabular", "tests/report",
    "tests/bench/test_images.py", "tests/test_docs_console.py", "tests/test_docs_sessions.py",
)  # fmt: skip
# Folders, and files of the folders `tests` and `tests/cli`, that are in no list, with the reason.
EXEMPT = {
    "tests/cli/test_bench.py": "runs what tests/bench/test_grid.py runs",
    "tests/cli/test_bench_report.py": "prints what tests/bench/test_tables.py computes",
    "tests/cli/test_compiling.py": "empties numba's cache itself",
    "tests/cli/test_embeddings.py": "reads arrays as tests/tabular does",
    "tests/cli/test_hostile_files.py": "reads files as tests/tabular does",
    "tests/cli/test_missing_bench.py": "hides packages from imports, which no machine changes",
    "tests/cli/test_swapped_arguments.py": "refuses files before anything is computed",
    "tests/cli/test_spark.py": "needs Java; `make test-spark` runs it",
    "tests/datasets": "reads files as tests/bench/test_images.py does",
    "tests/fuzz": "`make fuzz` plays as many cases as you like on the machine at hand",
    "tests/packaging": "about files of the project and its wheel",
    "tests/recipes": "short examples of what tests/core, tests/ratio and tests/tabular test",
    "tests/river": "another interface to what tests/model tests",
    "tests/site": "about files of the documentation; the builds are slow tests",
    "tests/spark": "needs Java; `make test-spark` runs it",
    "tests/test_benchmarks.py": "benchmarks start; what they measure is what the other tests test",
    "tests/test_budgets.py": "chooses among tests, as every machine does",
    "tests/test_contract.py": "scikit-learn's own checks, on numbers that are far from any edge",
    "tests/test_docs_claims.py": "about files of the documentation",
    "tests/test_docs_paths.py": "about files of the documentation",
    "tests/test_embeddings.py": "reads kept arrays",
    "tests/test_examples.py": "examples run to their end; their numbers are not compared",
    "tests/test_golden.py": "compares with what was recorded on one machine",
    "tests/test_left_out.py": "about how the run of tests itself ends",
    "tests/test_machines.py": "about these settings",
    "tests/test_openmp.py": "about numbers of threads, which it asks for itself",
    "tests/test_public_api.py": "about names",
}


@dataclass(frozen=True)
class Machine:
    """A setting.

    Attributes
    ----------
    name : str
    parts : tuple of str
        What is run: files and folders of tests.
    variables : dict
        Added to the environment.
    options : tuple of str
        Added to pytest's.
    is_busy : bool
        Whether other processes compete for every core.
    n_cores : int or None
        How many it may use; None for all.
    umask : int
        Of the files it makes; -1 for this process's.
    n_runs : int
        How often it is run, in a new process each time; the first failure ends it.
    """

    name: str
    parts: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    is_busy: bool = False
    n_cores: int | None = None
    umask: int = -1
    n_runs: int = 1


def simd_extensions() -> list[str]:
    """What numpy uses of this processor beyond what every one has."""
    return list(np.show_config(mode="dicts")["SIMD Extensions"].get("found", []))  # type: ignore[call-overload]


def processors() -> list[Machine]:
    """Other processors that this one can stand for: none but those of its own kind, and none newer than it is."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return []
    found = simd_extensions()
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
def busy_processes(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that compute without end, ended in any case; should this one be killed, they end by themselves."""
    code = f"import time\nend = time.monotonic() + {TIME_LIMIT}\nwhile time.monotonic() < end: pass"
    started = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(count)]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


@contextmanager
def cores(count: int | None) -> Iterator[None]:
    """Let what is started meanwhile use so many cores only."""
    if count is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@dataclass(frozen=True)
class Outcome:
    """How the tests ended on a machine."""

    code: int
    output: str
    cpu_seconds: float

    def count(self, word: str) -> int:
        """How many tests passed, failed, were skipped, ..."""
        found = re.findall(rf"(\d+) {word}", self.output.splitlines()[-1] if self.output else "")
        return int(found[0]) if found else 0

    @property
    def failures(self) -> list[str]:
        """What pytest's short summary says of each, or the end of what was printed where there is no summary."""
        lines = self.output.splitlines()
        return [line for line in lines if line.startswith(("FAILED", "ERROR"))] or lines[-20:]


def run_on(machine: Machine, folder: Path) -> Outcome:
    """Run a machine's part of the suite in one process at a time, with caches and home in an empty folder."""
    home = folder / "home"
    home.mkdir(parents=True)
    variables = {"NUMBA_CACHE_DIR": str(folder / "cache"), "HOME": str(home), "MPLBACKEND": "Agg", **machine.variables}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *machine.options, *machine.parts]
    before = os.times()
    with busy_processes(N_BUSY if machine.is_busy else 0), cores(machine.n_cores):
        for _ in range(machine.n_runs):
            code, output = _run_within_limit(command, {**os.environ, **variables}, machine.umask)
            if code != 0:
                break
        after = os.times()  # while the busy processes run: they do not count
    cpu_seconds = after.children_user + after.children_system - before.children_user - before.children_system
    return Outcome(code, output, cpu_seconds)


def _run_within_limit(command: list[str], environment: dict[str, str], umask: int) -> tuple[int, str]:
    """Exit code and output; a run that takes too long is stopped, says so, and leaves the other settings their turn."""
    try:
        run = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=TIME_LIMIT,
            umask=umask,
        )
    except subprocess.TimeoutExpired as error:
        output = error.stdout.decode(errors="replace") if isinstance(error.stdout, bytes) else error.stdout or ""
        return -1, f"{output}\n{NOT_FINISHED.format(TIME_LIMIT)}"
    return run.returncode, run.stdout


def main(names: list[str]) -> int:
    """Run the settings of these names, or all; print a table; return how many failed."""
    machines = all_machines()
    unknown = set(names) - {machine.name for machine in machines}
    if unknown:
        print(f"No setting {', '.join(sorted(unknown))}: name one of {', '.join(one.name for one in machines)}.")
        return 2
    n_failed = 0
    print(f"{'setting':14}{'passed':>8}{'failed':>8}{'skipped':>8}{'CPU seconds':>13}", flush=True)
    for machine in machines:
        if names and machine.name not in names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = run_on(machine, Path(folder))
        n_bad = found.count("failed") + found.count("error")
        counts = f"{found.count('passed'):8}{n_bad:8}{found.count('skipped'):8}{found.cpu_seconds:13.0f}"
        print(f"{machine.name:14}{counts}", flush=True)
        if found.code != 0:
            n_failed += 1
            print(*(f"    {line}" for line in found.failures), sep="\n", flush=True)
    return n_failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
