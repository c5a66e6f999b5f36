"""Loaded images: a pool, a pair of pools to mix, and portraits with their years."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.datasets.dataset import Source

__all__ = ["IMAGE_SHAPE", "ImagePair", "ImagePool", "ImageYears", "Images", "hash_images"]

IMAGE_SHAPE = (32, 32, 3)

# Images of shape (n_images, 32, 32, 3), uint8, and as many labels.
Images = tuple[NDArray[np.uint8], NDArray[np.int64]]


@dataclass(frozen=True, eq=False, repr=False)
class ImagePool:
    """Labelled images of one origin.

    Attributes
    ----------
    title : str
        What the images are, in a form for tables.
    images : array of shape (n_images, 32, 32, 3), uint8
    labels : array of shape (n_images,), int64
    stand_in_for : str or None
        What the images stand in for; None if they are the real data.
    """

    title: str
    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    stand_in_for: str | None = None

    def __repr__(self) -> str:
        n_classes = len(np.unique(self.labels))
        more = f", standing in for {self.stand_in_for}" if self.stand_in_for else ""
        return f"ImagePool({self.title}: {len(self.labels)} images, {n_classes} classes{more})"

    def of_classes(self, classes: NDArray[np.int64]) -> ImagePool:
        """Return the images of these classes. The labels keep their numbers."""
        is_kept = np.isin(self.labels, classes)
        return ImagePool(self.title, self.images[is_kept], self.labels[is_kept], self.stand_in_for)


@dataclass(frozen=True, eq=False, repr=False)
class ImagePair:
    """Two pools with the same classes, to be mixed in changing shares.

    Attributes
    ----------
    name : str
    first, second : ImagePool
    sources : tuple of Source
        Where the first and the second pool come from.
    notes : tuple of str
        Sentences that you need to know to read results on these pools.
    """

    name: str
    first: ImagePool
    second: ImagePool
    sources: tuple[Source, Source]
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Both titles, in a form for tables."""
        return f"{self.first.title} - {self.second.title}"

    @property
    def has_stand_in(self) -> bool:
        """Whether one of the pools is a stand-in."""
        return self.first.stand_in_for is not None or self.second.stand_in_for is not None

    def __repr__(self) -> str:
        return f"ImagePair({self.name}: {self.first!r}, {self.second!r})"


@dataclass(frozen=True, eq=False, repr=False)
class ImageYears:
    """Labelled images in the order of their years.

    Attributes
    ----------
    name, title : str
    images : array of shape (n_images, 32, 32, 3), uint8
    labels, years : array of shape (n_images,), int64
    source : Source
    notes : tuple of str
    """

    name: str
    title: str
    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    years: NDArray[np.int64]
    source: Source
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"ImageYears({self.name}: {len(self.years)} images, {self.years.min()} to {self.years.max()})"


def hash_images(images: NDArray[np.uint8], *columns: NDArray[Any]) -> str:
    """Return the SHA-256 of images, labels and years, independent of the file format."""
    digest = hashlib.sha256()
    for array in (images.astype("u1", copy=False), *(column.astype("<i8") for column in columns)):
        digest.update(str(array.shape).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
