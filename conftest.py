"""What every run of pytest shares: one thread per process, files that need an extra, a word on tests left out."""

import os
from collections.abc import Generator, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.left_out import left_out_lines
from tests.needs import RIVER, SPARK, TORCH

# Tests run in several processes, on small matrices. Where each process also starts a thread per core, threads that wait
# for each other take most of the time: on a busy machine a file of tests took twenty times as long. Tests of threads
# ask for as many as they need, and what the fixture `forks` starts has as many threads for tables as a user's command.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ.setdefault(_name, "1")

# They cannot be imported, or have examples that cannot be run, without the package that they need.
_NEED_TORCH = (
    "bench/src/accous_bench/tuning.py",
    "src/accous/deep/networks.py",
    "src/accous/deep/features.py",
    "tests/deep/networks.py",
)
_NEED_RIVER = ("src/accous/river.py",)
_NEED_SPARK = (
    "src/accous/spark.py",
    "tests/spark/stream_driver.py",
)
_LEFT_OUT = {
    Path(__file__).parent / name: reason
    for package, names, reason in (
        ("torch", _NEED_TORCH, TORCH),
        ("river", _NEED_RIVER, RIVER),
        ("pyspark", _NEED_SPARK, SPARK),
    )
    if find_spec(package) is None
    for name in names
}


class LeftOutFile(pytest.File):
    """A file that is skipped as a whole, and counted as such."""

    def collect(self) -> Iterator[pytest.Item]:
        """Say why."""
        raise pytest.skip.Exception(_LEFT_OUT[self.path], allow_module_level=True)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Generator[None, list[object], list[object]]:
    """Put a file that says why it is left out in the place of one that cannot be imported."""
    collectors = yield
    if file_path in _LEFT_OUT:
        return [LeftOutFile.from_parent(parent, path=file_path)]
    return collectors


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None, None, None]:
    """Say after everything else what was not tested."""
    yield
    for line in left_out_lines(terminalreporter.stats.get("skipped", [])):
        terminalreporter.write_line(line)
