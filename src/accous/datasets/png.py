"""Read one PNG file. Only this module imports Pillow."""

from __future__ import annotations

import io
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from accous.exceptions import DataError, MissingExtraError

__all__ = ["read_png"]

_LARGEST_SIDE = 2048


def read_png(
    content: bytes, place: str, colours: Literal["L", "RGB"], size: tuple[int, int] | None = None
) -> NDArray[np.uint8]:
    """Decode the content of a PNG file to grey ("L") or colours, and resize it if ``size`` is given.

    Raises
    ------
    MissingExtraError
        If Pillow is not installed.
    DataError
        If it is not a complete PNG file; the message names ``place``.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError(
            "Images are read with Pillow, which is not installed: pip install 'accous[deep]'."
        ) from error
    try:
        with Image.open(io.BytesIO(content), formats=("PNG",)) as image:
            # The size is known before the pixels are unpacked, which could fill the memory.
            if max(image.size) > _LARGEST_SIDE:
                raise DataError(f"{place} is an image of {image.size} pixels: a side may have at most {_LARGEST_SIDE}.")
            converted = image.convert(colours)
        if size is not None:
            converted = converted.resize(size, Image.Resampling.LANCZOS)
        return np.array(converted, dtype=np.uint8)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{place} is not a readable PNG image ({error}): download its file again.") from error
