"""One digest of what a network's features depend on; the cache stores the features under this name."""

from __future__ import annotations

import hashlib
import inspect
from numbers import Number
from types import FunctionType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

__all__ = ["identity_of"]

_FOREIGN = ("torch", "builtins", "typing", "abc")  # packages whose code is not hashed
_OF_ANY_MODULE = frozenset(vars(nn.Module()))


def identity_of(module: nn.Module, preparation: object) -> str | None:
    """Return the SHA-256 of weights, buffers, structure, plain attributes, code and preparation.

    It is None if the code cannot be read. The code is that of the classes of all submodules and of their base classes,
    except torch's.
    """
    digest = hashlib.sha256(f"{preparation}\n{module!r}".encode())
    kinds = {kind for part in module.modules() for kind in type(part).__mro__}
    for kind in sorted(kinds, key=_full_name):
        source = _source_of(kind)
        if source is None:
            return None
        digest.update(f"\n{_full_name(kind)}\n{source}".encode())
    for name, part in module.named_modules():
        for attribute, value in sorted(vars(part).items()):
            if attribute not in _OF_ANY_MODULE:
                digest.update(f"\n{name}.{attribute} ".encode() + _bytes_of(value))
    # Not all buffers are part of the state, and a module may add to its state what is neither buffer nor parameter.
    for name, value in {**dict(module.named_buffers()), **module.state_dict()}.items():
        digest.update(f"\n{name} ".encode() + _bytes_of(value, or_else=repr(value)))
    return digest.hexdigest()


def _full_name(kind: Any) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _source_of(kind: type) -> str | None:
    """Return the code of a class, as an edited `forward` is another backbone; empty for torch, None if unreadable."""
    if kind.__module__.startswith("torch.jit"):  # compiled from code other than that of the class
        return None
    if kind.__module__.split(".")[0] in _FOREIGN:
        return ""
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):
        return None


def _bytes_of(value: Any, *, or_else: str = "") -> bytes:
    """Return the content of numbers, strings, tensors, arrays, functions and collections of these, else ``or_else``."""
    if value is None or isinstance(value, str | bytes | Number | torch.dtype | torch.device):
        return f"{value!r};".encode()
    if isinstance(value, Tensor):
        tensor = value.detach().cpu().contiguous()
        content: bytes = tensor.reshape(-1).view(torch.uint8).numpy().tobytes()
        return f"{tensor.dtype} {tuple(tensor.shape)}\n".encode() + content
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        return f"{value.dtype.str} {value.shape}\n".encode() + value.tobytes()
    if isinstance(value, FunctionType):
        code = value.__code__
        value = (_full_name(value), code.co_code, code.co_names, code.co_consts)
    if isinstance(value, dict):
        value = tuple(value.items())
    if isinstance(value, tuple | list):
        return b"[" + b"".join(map(_bytes_of, value)) + b"]"
    return or_else.encode()
