"""Where the inner loops are kept: in a cache where one can be written, in memory elsewhere, and never a complaint."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import accous
from tests.forks import ForkServer

Run = Callable[..., str]

PACKAGE = Path(accous.__file__).parent

USE_A_KERNEL = """
import numba
numba.config.reload_config()  # the process that was forked had read other variables

import numpy as np
from accous.core.kernels_rows import make_features

features = np.empty((1, 3))
n_long = make_features(np.full((1, 2), 6.0), np.zeros(2), np.ones(2), 9.0, 3.0, 0.0, 1.0, True, features, np.zeros(1))
print(n_long, features.round(3))
"""
# Files may not grow beyond a few bytes, as on a full disk.
ON_A_FULL_DISK = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
"""
ANSWER = "1 [[2.107 2.107 0.351]]"  # (6, 6, 1) brought to length 3


def copy_of_the_package(folder: Path) -> Path:
    """The package without any cache beside its files; returns the folder to import it from."""
    shutil.copytree(PACKAGE, folder / "accous", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """What a process prints that had loaded numba and nothing of the package, where every warning is an error."""
    common = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_"))}
    common["PYTHONDONTWRITEBYTECODE"] = "1"
    with ForkServer("import numpy, numba", environment=common) as server:

        def run_there(code: str, folder: Path, home: Path, **variables: str) -> str:
            environment = {**common, "HOME": str(home), **variables}
            found = server.run(code, kind="code", cwd=folder, env=environment)
            assert found.stderr == ""
            return found.stdout.strip()

        yield run_there


def cached(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.nbi"))


def test_the_cache_lies_beside_the_source(tmp_path: Path, run: Run) -> None:
    folder = copy_of_the_package(tmp_path / "library")
    assert run(USE_A_KERNEL, folder, tmp_path) == ANSWER
    (index,) = cached(folder)
    assert index.name.startswith("kernels_features.make_features")
    before = index.stat().st_mtime_ns
    assert run(USE_A_KERNEL, folder, tmp_path) == ANSWER
    assert index.stat().st_mtime_ns == before


def test_where_the_source_cannot_be_written_to_the_cache_is_the_users(tmp_path: Path, run: Run) -> None:
    folder, home = copy_of_the_package(tmp_path / "library"), tmp_path / "home"
    home.mkdir()
    (folder / "accous" / "core" / "fast" / "__pycache__").write_text("a file, so that nothing can be written into it")
    assert run(USE_A_KERNEL, folder, home) == ANSWER
    assert cached(folder) == []
    assert len(cached(home)) == 1


def test_where_nothing_can_be_written_the_loops_are_compiled_in_memory(tmp_path: Path, run: Run) -> None:
    folder, home = copy_of_the_package(tmp_path / "library"), tmp_path / "home"
    home.write_text("a file, so that nothing can be written below it")
    (folder / "accous" / "core" / "fast" / "__pycache__").write_text("likewise")
    assert run(USE_A_KERNEL, folder, home, NUMBA_CACHE_DIR=str(home / "cache")) == ANSWER
    assert cached(tmp_path) == []


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits on file sizes: run the tests on Linux or macOS")
def test_a_full_disk_is_no_obstacle(tmp_path: Path, run: Run) -> None:
    folder = copy_of_the_package(tmp_path / "library")
    assert run(ON_A_FULL_DISK + USE_A_KERNEL, folder, tmp_path) == ANSWER


def test_compiling_twice_is_loading_once(forks: ForkServer) -> None:
    """In a process that has loaded every kernel already."""
    code = """
from accous.core.compiled import compile_all
from accous.core.kernels_rows import make_features
before = make_features._call
compile_all()
print(make_features._call is before != make_features._compile_and_call)
"""
    assert forks.run(code, kind="code").stdout == "True\n"
