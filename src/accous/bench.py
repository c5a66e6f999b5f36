"""The benchmark's earlier address: plugins may import ``accous.bench.contenders`` and ``accous.bench.problems``.

The benchmark is the package ``accous_bench``. The modules here are the same objects, so what a plugin registers under
either address is known under both.
"""

from __future__ import annotations

import sys
from importlib import import_module

__all__ = ["contenders", "problems"]

contenders = sys.modules["accous.bench.contenders"] = import_module("accous_bench.contenders")
problems = sys.modules["accous.bench.problems"] = import_module("accous_bench.problems")
