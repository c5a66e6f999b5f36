"""Compiling the inner loops: once per machine where a cache can be written, once per process elsewhere.

Every kernel has exactly one signature, whose inputs are read-only arrays: an array of the user's that happens to be
read-only compiles nothing anew, and no input can be written into by mistake.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from operator import attrgetter
from typing import Any

import numpy as np
from numba import float64, njit, types
from numba.extending import is_jitted

__all__ = ["IN1", "IN2", "IN3", "OUT1", "OUT2", "OUT3", "Kernel", "compile_all", "inlined", "inlined_sums", "kernel"]

Function = Callable[..., Any]

# Types of arrays: float64, C order, by number of dimensions; those that go in are not written into.
IN1, IN2, IN3 = (types.Array(float64, n, "C", readonly=True) for n in (1, 2, 3))
OUT1, OUT2, OUT3 = (types.Array(float64, n, "C") for n in (1, 2, 3))

# error_model="numpy": a division that may raise cannot be vectorised. Contracting a product and a sum into one
# instruction is the one liberty taken everywhere; what may be re-associated says so, and its order is then fixed at
# compile time: the same machine gives the same bits.
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": {"contract"}}
# Into every kernel, without exception: a function of its own would exist twice, compiled alone and within the kernel,
# with sums in different orders, and which of the two is called would depend on whether the kernel is from the cache.
_INLINED = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "forceinline": True}
_REASSOCIATED = {"contract", "reassoc", "nsz"}


def inlined(function: Function) -> Function:
    """Make a function that kernels call; it is compiled into each of them."""
    return njit(**_OPTIONS | _INLINED)(function)


def inlined_sums(function: Function) -> Function:
    """Make a function that kernels call and whose sums may be split into several running ones."""
    return njit(**_OPTIONS | _INLINED | {"fastmath": _REASSOCIATED})(function)


class Kernel:
    """A function that is compiled, or loaded from the cache, when it is first called.

    Attributes
    ----------
    plain : callable
        The function as it is written.
    """

    def __init__(self, function: Function, signature: Any) -> None:
        self.plain = function
        self._signature = signature
        self._call: Function = self._compile_and_call

    # Read by compiled code: a call of the kernel is a call of what `_call` holds, with no Python function between.
    __call__ = property(attrgetter("_call"))

    def compile(self) -> None:
        """Do so without a call; once is enough."""
        if self._call != self._compile_and_call:
            return
        dispatcher = _with_cache(self.plain)
        if not is_jitted(dispatcher):
            self._call = _as_written(self.plain)
            return
        try:
            dispatcher.compile(self._signature)
        except OSError:
            # The cache could be opened but not written to, as on a full disk. What was compiled is there already.
            if not dispatcher.signatures:
                raise
        dispatcher.disable_compile()
        self._call = dispatcher

    def _compile_and_call(self, *arguments: Any) -> Any:
        self.compile()
        return self._call(*arguments)


_kernels: list[Kernel] = []


def kernel(result: Any, *arguments: Any) -> Callable[[Function], Kernel]:
    """Decorate a function as a kernel with this one signature."""

    def decorate(function: Function) -> Kernel:
        _kernels.append(Kernel(function, result(*arguments)))
        return _kernels[-1]

    return decorate


def compile_all() -> None:
    """Compile, or load from the cache, every kernel of the modules imported so far."""
    for each in _kernels:
        each.compile()


def _as_written(function: Function) -> Function:
    """Return a kernel that is not compiled, for debuggers and for coverage (NUMBA_DISABLE_JIT=1): slow, same results.

    As in compiled code, overflows and divisions by zero are not reported; the kernels look for them themselves.
    """

    @wraps(function)
    def call(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*arguments)

    return call


def _with_cache(function: Function) -> Any:
    try:
        return njit(cache=True, **_OPTIONS)(function)
    except RuntimeError as error:
        # Neither beside the source nor in the user's folder may anything be written: compile in memory.
        if "no locator" not in str(error):
            raise
        return njit(**_OPTIONS)(function)
