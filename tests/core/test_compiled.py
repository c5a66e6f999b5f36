"""Where compiled loops are kept: in a cache where one can be written, in memory elsewhere, with the same bits."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
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
from accous.core.kernels_weights import make_features

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
HASH_OF_A_RUN = """
import hashlib
import numpy as np
from accous import AdaptiveClassifier

rng = np.random.default_rng(0)
digest = hashlib.sha256()
for n_rows, n_columns in ((80, 3), (200, 5)):
    X = rng.normal(size=(n_rows, n_columns))
    model = AdaptiveClassifier(refit="always").fit(X, X[:, 0] + rng.normal(size=n_rows) > 0)
    for n_batch in (1, 3, 40) * 5:
        model.adapt(rng.normal(0.5, size=(n_batch, n_columns)))
    for array in (model.ratio_.coef_, model.reference_weight_, model.estimator_.coef_, model.estimator_.intercept_):
        digest.update(array.tobytes())
print(digest.hexdigest())
"""


def copy_of_the_package(folder):
    """The package without any cache beside its files; returns the folder to import it from."""
    shutil.copytree(PACKAGE, folder / "accous", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture(scope="module")
def run():
    """What a process prints that had loaded numba and nothing of the package, where every warning is an error."""
    common = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_"))}
    common["PYTHONDONTWRITEBYTECODE"] = "1"
    with ForkServer("import numpy, numba", environment=common) as server:

        def run_there(code, folder, home, **variables: str):
            environment = {**common, "HOME": str(home), **variables}
            found = server.run(code, kind="code", cwd=folder, env=environment)
            assert found.stderr == ""
            return found.stdout.strip()

        yield run_there


def cached(folder):
    return sorted(folder.rglob("*.nbi"))


def test_the_cache_lies_beside_the_source(tmp_path, run):
    folder = copy_of_the_package(tmp_path / "library")
    assert run(USE_A_KERNEL, folder, tmp_path) == ANSWER
    (index,) = cached(folder)
    assert index.name.startswith("kernels_weights.make_features")
    before = index.stat().st_mtime_ns
    assert run(USE_A_KERNEL, folder, tmp_path) == ANSWER
    assert index.stat().st_mtime_ns == before


@pytest.mark.parametrize("has_home", [True, False])
def test_where_the_source_cannot_be_written_to_the_cache_is_the_users_or_in_memory(has_home, tmp_path, run):
    folder, home = copy_of_the_package(tmp_path / "library"), tmp_path / "home"
    (folder / "accous" / "core" / "__pycache__").write_text("a file, so that nothing can be written into it")
    if has_home:
        home.mkdir()
        assert run(USE_A_KERNEL, folder, home) == ANSWER
    else:
        home.write_text("likewise")
        assert run(USE_A_KERNEL, folder, home, NUMBA_CACHE_DIR=str(home / "cache")) == ANSWER
    assert cached(folder) == []
    assert len(cached(tmp_path)) == has_home


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits on file sizes: run the tests on Linux or macOS")
def test_a_full_disk_is_no_obstacle(tmp_path, run):
    folder = copy_of_the_package(tmp_path / "library")
    assert run(ON_A_FULL_DISK + USE_A_KERNEL, folder, tmp_path) == ANSWER


def test_compiling_twice_is_loading_once(forks):
    """In a process that has loaded every kernel already."""
    code = """
from accous.core.compiled import compile_all
from accous.core.kernels_weights import make_features
before = make_features._call
compile_all()
print(make_features._call is before != make_features._compile_and_call)
"""
    assert forks.run(code, kind="code").stdout == "True\n"


def run_with_cache(cache):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), "NUMBA_DISABLE_JIT": "0"}
    return subprocess.check_output([sys.executable, "-c", HASH_OF_A_RUN], env=environment, text=True)


@pytest.mark.slow
def test_a_kernel_from_the_cache_gives_the_bits_of_one_compiled_now(tmp_path):
    compiled = run_with_cache(tmp_path)
    assert list(tmp_path.rglob("*.nbc"))
    assert run_with_cache(tmp_path) == compiled
