"""What some tests need and not every machine has: each reason says how to get it, and the end of a run counts them."""

import os
import shutil
from importlib.util import find_spec

import pytest

DATA = (
    "needs real data: set ACCOUS_DATA to a folder, which may be empty; "
    "what it does not hold is downloaded from the public source (docs/datasets.md)"
)
STAND_INS = "needs images that nobody publishes: only those who have the files can run this (docs/datasets.md, Images)"
PYARROW = "needs pyarrow: pip install 'accous[dev]'"
RIVER = "needs river: pip install 'accous[river]'"
SPARK = "needs Java 17 and Spark: install openjdk-17-jre-headless, then pip install 'accous[spark]', or make test-spark"
TORCH = "needs PyTorch: pip install 'accous[deep]'"
TWO_BLAS_THREADS = "needs two BLAS threads: give the tests two cores and set no limit such as OPENBLAS_NUM_THREADS=1"

needs_compilation = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT", "0") != "0",
    reason="needs compiled kernels: unset the environment variable NUMBA_DISABLE_JIT",
)
needs_data = pytest.mark.skipif(not os.environ.get("ACCOUS_DATA"), reason=DATA)
needs_spark = pytest.mark.skipif(shutil.which("java") is None or find_spec("pyspark") is None, reason=SPARK)
