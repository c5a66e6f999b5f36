"""Where the inner loops are kept: in a cache where one can be written, in memory elsewhere, and never a complaint."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import accous
from accous.core.fast.compiled import compile_all
from accous.core.fast.kernels_features import make_features

PACKAGE = Path(accous.__file__).parent

USE_A_KERNEL = """
import numpy as np
from accous.core.fast.kernels_features import make_features

features = np.empty((1, 3))
n_long = make_features(np.full((1, 2), 6.0), np.zeros(2), np.ones(2), 9.0, 3.0, 0.0, 1.0, True, features)
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


def run(code: str, folder: Path, home: Path, **variables: str) -> str:
    """What a fresh interpreter prints, where every warning is an error."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_"))}
    environment |= {"PYTHONPATH": str(folder), "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"} | variables
    command = [sys.executable, "-W", "error", "-c", code]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=folder)
    assert found.stderr == ""
    assert found.returncode == 0
    return found.stdout.strip()


def cached(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.nbi"))


def test_the_cache_lies_beside_the_source(tmp_path: Path) -> None:
    folder = copy_of_the_package(tmp_path / "library")
    assert run(USE_A_KERNEL, folder, tmp_path) == ANSWER
    (index,) = cached(folder)
    assert index.name.startswith("kernels_features.make_features")
    before = index.stat().st_mtime_ns
    assert run(USE_A_KERNEL, folder, tmp_path) == ANSWER
    assert index.stat().st_mtime_ns == before


def test_where_the_source_cannot_be_written_to_the_cache_is_the_users(tmp_path: Path) -> None:
    folder, home = copy_of_the_package(tmp_path / "library"), tmp_path / "home"
    home.mkdir()
    (folder / "accous" / "core" / "fast" / "__pycache__").write_text("a file, so that nothing can be written into it")
    assert run(USE_A_KERNEL, folder, home) == ANSWER
    assert cached(folder) == []
    assert len(cached(home)) == 1


def test_where_nothing_can_be_written_the_loops_are_compiled_in_memory(tmp_path: Path) -> None:
    folder, home = copy_of_the_package(tmp_path / "library"), tmp_path / "home"
    home.write_text("a file, so that nothing can be written below it")
    (folder / "accous" / "core" / "fast" / "__pycache__").write_text("likewise")
    assert run(USE_A_KERNEL, folder, home, NUMBA_CACHE_DIR=str(home / "cache")) == ANSWER
    assert cached(tmp_path) == []


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits on file sizes: run the tests on Linux or macOS")
def test_a_full_disk_is_no_obstacle(tmp_path: Path) -> None:
    folder = copy_of_the_package(tmp_path / "library")
    assert run(ON_A_FULL_DISK + USE_A_KERNEL, folder, tmp_path) == ANSWER


def test_compiling_twice_is_loading_once() -> None:
    compile_all()
    before = make_features._call
    compile_all()
    assert make_features._call is before
