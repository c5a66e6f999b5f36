"""Compiles the inner loops: once per machine if a cache can be written, otherwise once per process.

Every kernel has exactly one signature, whose inputs are read-only arrays. A read-only array from the user therefore
triggers no new compilation, and no kernel can modify an input by mistake.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable
from functools import wraps
from operator import attrgetter
from typing import Any

import numpy as np
from numba import float32, float64, int64, njit, types
from numba.extending import is_jitted, register_jitable
from numpy.typing import NDArray

from accous.arrays import FloatArray

Function = Callable[..., Any]

# Array types: float64, C order, by number of dimensions; input arrays are read-only.
IN1, IN2, IN3 = (types.Array(float64, n, "C", readonly=True) for n in (1, 2, 3))
OUT1, OUT2, OUT3, OUT4 = (types.Array(float64, n, "C") for n in (1, 2, 3, 4))
# For many models: places of models or rows, counts, and arrays in single precision; and the classes of rows in blocks.
KEYS = types.Array(int64, 1, "C", readonly=True)
LABELS = types.Array(int64, 2, "C", readonly=True)
COUNTS = types.Array(int64, 1, "C")
SINGLE2, SINGLE3 = (types.Array(float32, n, "C") for n in (2, 3))
SingleArray = NDArray[np.float32]
AnyFloats = NDArray[Any]
"""Of a kernel that is compiled twice, for one model in double precision and for many keys in single precision."""

# error_model="numpy": a division that may raise cannot be vectorised. Every function may contract a product and a sum
# into one instruction. Only functions marked as such may reorder sums, and the order is fixed at compile time: the same
# machine gives the same bits.
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": {"contract"}}
# Always inline into the kernel. Otherwise a function would exist twice, compiled alone and within the kernel, with sums
# in different orders, and which of the two is called would depend on whether the kernel comes from the cache.
_INLINED = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "forceinline": True}
_OF_LINE = 8  # numbers of a cache line
_REASSOCIATED = {"contract", "reassoc", "nsz"}


def inlined(function: Function) -> Function:
    """Make a function that kernels can call; it is compiled into each of them."""
    return njit(**_OPTIONS | _INLINED)(function)


def merged(function: Function) -> Function:
    """Make a function that one place of a kernel calls: merged first, it is not compiled alone, which takes as long."""
    return njit(inline="always", **_OPTIONS)(function)


def inlined_sums(function: Function) -> Function:
    """Make a function that kernels can call and whose sums may be split into several partial sums."""
    return njit(**_OPTIONS | _INLINED | {"fastmath": _REASSOCIATED})(function)


def inlined_exactly(function: Function) -> Function:
    """Make a function that kernels can call and that rounds every product and sum, as numpy does."""
    return njit(**_OPTIONS | _INLINED | {"fastmath": False})(function)


def shared(function: Function) -> Function:
    """Make a function of a few numbers that kernels can call, and Python too, where it is not compiled."""
    return register_jitable(**_OPTIONS, forceinline=True)(function)


def empty_aligned(*shape: int) -> FloatArray:
    """Return an array that begins with a cache line: loops over it load vectors that lie in one line, not in two."""
    size = math.prod(shape)
    room = np.empty(size + _OF_LINE - 1)
    start = -room.__array_interface__["data"][0] // room.itemsize % _OF_LINE
    return room[start : start + size].reshape(shape)


class Workspaces(list[Any]):
    """Arrays that kernels write into: each call takes some, so that threads may share them; no pickle has them."""

    def take(self, make: Callable[[], Any]) -> Any:
        """Return arrays that nobody uses, which are made if there are none; append them again after the call."""
        try:
            return self.pop()
        except IndexError:
            return make()

    def __reduce__(self) -> tuple[Any, ...]:
        return Workspaces, ()


class Kernel:
    """A function that is compiled, or loaded from the cache, on its first call.

    Attributes
    ----------
    plain : callable
        The function before compilation.
    is_long : bool
        Whether other threads of Python may run meanwhile, such as the one that answers requests while a model learns.
        Short kernels keep Python's lock: to get it back can take longer than they do.
    """

    def __init__(self, function: Function, signature: Any, *, is_long: bool = False) -> None:
        self.plain = function
        self.is_long = is_long
        self._signature = signature
        self._call: Function = self._compile_and_call

    # A call of the kernel calls the compiled function in `_call` directly, with no Python function in between.
    __call__ = property(attrgetter("_call"))

    def compile(self) -> None:
        """Compile the function, or load it from the cache, without calling it."""
        if self._call != self._compile_and_call:
            return
        dispatcher = _with_cache(self.plain, nogil=self.is_long)
        if not is_jitted(dispatcher):
            self._call = _as_written(self.plain)
            return
        is_collecting = gc.isenabled()
        gc.disable()  # the compiler makes millions of objects that stay: looking at them takes a tenth of its time
        try:
            dispatcher.compile(self._signature)
        except OSError:
            # The cache could be opened but not written, as on a full disk. The compiled function exists anyway.
            if not dispatcher.signatures:
                raise
        finally:
            if is_collecting:
                gc.enable()
        dispatcher.disable_compile()
        self._call = dispatcher

    def _compile_and_call(self, *arguments: Any) -> Any:
        self.compile()
        return self._call(*arguments)


_kernels: list[Kernel] = []


def kernel(result: Any, *arguments: Any, is_long: bool = False) -> Callable[[Function], Kernel]:
    """Decorate a function as a kernel with this one signature; other threads run during a long one."""

    def decorate(function: Function) -> Kernel:
        _kernels.append(Kernel(function, result(*arguments), is_long=is_long))
        return _kernels[-1]

    return decorate


def compile_all() -> None:
    """Compile, or load from the cache, every kernel of the modules imported so far."""
    for each in _kernels:
        each.compile()


def _as_written(function: Function) -> Function:
    """Return an uncompiled kernel for debuggers and coverage (NUMBA_DISABLE_JIT=1): slow, with the same results.

    As in compiled code, overflows and divisions by zero are not reported; the kernels check for them.
    """

    @wraps(function)
    def call(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*arguments)

    return call


def _with_cache(function: Function, *, nogil: bool) -> Any:
    try:
        return njit(cache=True, nogil=nogil, no_cfunc_wrapper=True, **_OPTIONS)(function)
    except RuntimeError as error:
        # Neither the source folder nor the user's cache folder is writable: compile in memory.
        if "no locator" not in str(error):
            raise
        return njit(nogil=nogil, **_OPTIONS)(function)
