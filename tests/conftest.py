"""What every test shares: reproducible property tests and the folder of real data."""

import gc
import os
import sys

# Before Hypothesis is imported: it would import all packages that offer it something, trio for example.
os.environ["HYPOTHESIS_NO_PLUGINS"] = "1"

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings

from tests.budgets import leave_rest_of_pairs_to_slow
from tests.forks import LIBRARIES, ForkServer
from tests.needs import DATA

# A test that wants a terminal makes one: these would make one of every stream, also of those that are captured.
for name in ("FORCE_COLOR", "CLICOLOR_FORCE", "PY_COLORS", "GITHUB_ACTIONS", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
    os.environ.pop(name, None)

# No test depends on the clock: no deadline, and no complaint that a busy machine draws examples slowly.
UNTIMED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("reproducible", derandomize=True, max_examples=15, **UNTIMED)
# What `make test-slow` gives the same tests. `tests/budgets.py` gives costly tests a share of either number.
settings.register_profile("thorough", derandomize=True, max_examples=250, **UNTIMED)
# A search for new counterexamples: pytest --hypothesis-profile=explore
settings.register_profile("explore", derandomize=False, max_examples=1000, **UNTIMED)
settings.load_profile("reproducible")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for examples in docstrings in `src` only: the docstrings of tests have none."""
    found = yield
    return [collector for collector in found if not isinstance(collector, DoctestModule)]


def pytest_collection() -> None:
    """Collect without the garbage collector: nothing that is made is thrown away."""
    gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before `-m` chooses among the tests."""
    leave_rest_of_pairs_to_slow(items)


def pytest_collection_finish() -> None:
    """Let the garbage collector look through what tests make, not through thousands of collected tests each time."""
    gc.enable()
    gc.collect()
    gc.freeze()


def _server(*preparation: str) -> Iterator[ForkServer]:
    if not hasattr(os, "fork"):
        pytest.skip("needs fork: run the tests on Linux or macOS")
    with ForkServer(*preparation) as server:
        yield server


@pytest.fixture(scope="session")
def forks() -> Iterator[ForkServer]:
    """Starts commands as real processes, in milliseconds; every warning is an error, also while they import."""
    yield from _server()


@pytest.fixture(scope="session")
def library_forks() -> Iterator[ForkServer]:
    """Starts processes that have imported numpy, scikit-learn and numba but nothing of accous: to test imports."""
    yield from _server(LIBRARIES)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real data sets; tests that ask for it are skipped where there is none."""
    folder = os.environ.get("ACCOUS_DATA", "")
    if not folder:
        pytest.skip(DATA)
    if not Path(folder).is_dir():
        pytest.fail(f"ACCOUS_DATA names {folder}, which is not a folder")
    return Path(folder)


@pytest.fixture
def eager_thread_switches() -> Iterator[None]:
    """Lets threads take turns as often as can be."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)
