"""Reading one PNG file; Pillow is imported here only."""

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
    """Decode a PNG file's content to grey ("L") or colours, at another size if asked.

    Raises
    ------
    MissingExtraError
        Without Pillow.
    DataError
        Where it is no whole PNG file; names the place.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError(
            "Images are read with Pillow, which is not installed: pip install 'accous[deep]'."
        ) from error
    try:
        with Image.open(io.BytesIO(content), formats=("PNG",)) as image:
            # Known before the pixels are unpacked, which could fill the memory.
            if max(image.size) > _LARGEST_SIDE:
                raise DataError(f"{place} is an image of {image.size} pixels: at most {_LARGEST_SIDE} a side are read.")
            converted = image.convert(colours)
        if size is not None:
            converted = converted.resize(size, Image.Resampling.LANCZOS)
        return np.array(converted, dtype=np.uint8)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{place} is no readable PNG image ({error}): fetch its file again.") from error
