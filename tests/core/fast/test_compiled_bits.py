"""Compiled just now or loaded from the cache: the same bits."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
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


def run(cache: Path) -> str:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), "NUMBA_DISABLE_JIT": "0"}
    return subprocess.run(
        [sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.slow
def test_a_kernel_from_the_cache_gives_the_bits_of_one_compiled_now(tmp_path: Path) -> None:
    compiled = run(tmp_path)
    assert list(tmp_path.rglob("*.nbc"))
    assert run(tmp_path) == compiled
