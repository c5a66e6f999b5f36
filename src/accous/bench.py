"""The benchmark's former import path: plugins may import ``accous.bench.contenders`` and ``accous.bench.problems``.

The benchmark is now the package ``accous_bench``. The modules here are the same objects, so whatever a plugin registers
under one path is available under both.
"""

from __future__ import annotations

import sys
from importlib import import_module

__all__ = ["contenders", "problems"]

contenders = sys.modules["accous.bench.contenders"] = import_module("accous_bench.contenders")
problems = sys.modules["accous.bench.problems"] = import_module("accous_bench.problems")
