"""Which files pytest leaves out: those that cannot be imported, or have examples, that need an optional dependency."""

from importlib.util import find_spec

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
