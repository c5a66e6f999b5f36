"""One thread per test process, and which files pytest leaves out because an optional dependency is missing."""

import os
from importlib.util import find_spec

# Tests run in several processes, on small matrices. Where each process also starts a thread per core, threads that wait
# for each other take most of the time: on a busy machine a file of tests took twenty times as long. Tests of threads
# ask for as many as they need.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

_NEED_TORCH = [
    "src/accous_bench/adversarial.py",
    "src/accous/deep/backbones.py",
    "src/accous/deep/embedding.py",
    "src/accous/deep/fine_tuning.py",
    "src/accous/deep/pixels.py",
    "src/accous/deep/precomputed.py",
    "tests/deep/networks.py",
]
collect_ignore = [] if find_spec("torch") else _NEED_TORCH
