"""Turn rows into a network's input: three channels, one size, and the range of values that its weights expect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import interpolate

from accous.deep.rows import Pictures, Piece, Rows
from accous.exceptions import DataError

__all__ = ["Preparation", "find_float_range"]

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
