"""Fill numba's cache once, before several test processes would each compile the same kernels."""

import pkgutil
from functools import cache
from importlib import import_module

import accous.core
from accous.core.compiled import compile_all


@cache
def compile_kernels() -> None:
    """Compile every inner loop, or load it from the cache."""
    for module in pkgutil.walk_packages(accous.core.__path__, "accous.core."):
        if ".kernels_" in module.name:
            import_module(module.name)
    compile_all()


if __name__ == "__main__":
    compile_kernels()
