"""Find images: in ``ACCOUS_DATA``, then in the cache, then in the published files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from accous.datasets.dataset import Source
from accous.datasets.files import cache_folder, data_folders, keep_npz, read_npz
from accous.datasets.image_pools import IMAGE_SHAPE, ImagePool, Images, hash_images
from accous.datasets.public import Arrays
from accous.exceptions import DataError
from accous.extras import has_package, import_extra

__all__ = ["PoolSource", "PublishedFile", "fetch_published", "find_at_hand", "find_pool", "read_cached"]


@dataclass(frozen=True)
class PublishedFile:
    """A published file.

    Attributes
    ----------
    name : str
        Its name in ``ACCOUS_DATA`` and in the cache.
    urls : tuple of str
        Tried in turn.
    md5 : str or None
        The documented MD5 sum; None if there is none.
    """

    name: str
    urls: tuple[str, ...]
    md5: str | None


def read_cached(path: Path) -> Images:
    """Read images that `find_pool` has put into the cache, and check their hash."""
    arrays = read_npz(path, ("images", "labels", "sha256"))
    images, labels = arrays["images"], arrays["labels"].astype(np.int64)
    if hash_images(images, labels) != str(arrays["sha256"]):
        raise DataError(f"{path} is damaged: delete it, and accous creates it again.")
    return images, labels


@dataclass(frozen=True)
class PoolSource:
    """A pool of images and how to get it.

    Attributes
    ----------
    source : Source
        ``ACCOUS_DATA`` and the cache are searched for its ``file_name``.
    read : callable
        Returns images and labels from that file.
    published : tuple of PublishedFile
        The files to parse if that file is not found; empty if nothing is published.
    parse : callable or None
        Returns images and labels from the paths of the published files.
    stand_in_for : str or None
    """

    source: Source
    read: Callable[[Path], Images] = read_cached
    published: tuple[PublishedFile, ...] = ()
    parse: Callable[..., Images] | None = None
    stand_in_for: str | None = None


def find_at_hand(name: str) -> Path | None:
    """Return the path of a file in ``ACCOUS_DATA`` or in the cache, or None."""
    paths = (folder / name for folder in data_folders())
    return next((path for path in paths if path.is_file()), None)


def find_pool(*candidates: PoolSource) -> tuple[ImagePool, Source]:
    """Return the first pool that is on disk, or else download the last one; checked, with its source.

    Raises
    ------
    DataError
        If it cannot be found or downloaded, or is not what it should be.
    """
    for folder in data_folders():
        for candidate in candidates:
            assert candidate.source.file_name is not None
            path = folder / candidate.source.file_name
            if path.is_file():
                return _pool(candidate, candidate.read(path), str(path))
    last = candidates[-1]
    assert last.parse is not None
    assert last.source.file_name is not None
    images, labels = last.parse(*(fetch_published(file, last.source.title) for file in last.published))
    pool = _pool(last, (images, labels), ", ".join(file.name for file in last.published))
    arrays: Arrays = {"images": images, "labels": labels, "sha256": np.array(hash_images(images, labels))}
    keep_npz(cache_folder() / last.source.file_name, arrays)
    return pool


def _pool(candidate: PoolSource, images_and_labels: Images, place: str) -> tuple[ImagePool, Source]:
    images, labels = images_and_labels
    source = candidate.source
    if images.shape != (source.n_rows, *IMAGE_SHAPE) or images.dtype != np.uint8 or labels.shape != (source.n_rows,):
        raise DataError(
            f"{place} does not hold {source.title}: its images are {images.dtype} of shape {images.shape} with "
            f"{labels.size} labels, not uint8 of shape {(source.n_rows, *IMAGE_SHAPE)}."
        )
    if source.arrays_sha256 is not None and (found := hash_images(images, labels)) != source.arrays_sha256:
        raise DataError(
            f"{place} does not hold {source.title} as it was when accous was written: the hash of its arrays is "
            f"{found}, not {source.arrays_sha256}. Download the file again."
        )
    return ImagePool(source.title, images, labels, candidate.stand_in_for), source


def fetch_published(file: PublishedFile, title: str) -> Path:
    """Return the path of a published file, which is downloaded to the cache if needed and checked by its MD5."""
    path = find_at_hand(file.name)
    if path is None:
        return _download(file, title)
    if file.md5 is not None and (found := _md5(path)) != file.md5:
        raise DataError(
            f"{path} is not as published: its MD5 is {found}, not {file.md5}. Download it again, or delete it."
        )
    return path


def _md5(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _download(file: PublishedFile, title: str) -> Path:
    pooch = import_extra("pooch", f"Downloading {title}")
    known = None if file.md5 is None else f"md5:{file.md5}"
    reasons = []
    for url in file.urls:
        try:
            path = pooch.retrieve(
                url, known_hash=known, fname=file.name, path=cache_folder(), progressbar=has_package("tqdm")
            )
        except Exception as error:  # from the network or the disk, or a wrong checksum
            reason = " ".join(str(error).split())
            reasons.append(f"from {url} failed ({type(error).__name__}: {reason})")
        else:
            return Path(path)
    raise DataError(
        f"{title} is neither in ACCOUS_DATA nor in the cache {cache_folder()}, and downloading it "
        f"{', '.join(reasons)}: go online once, or put {file.name} into a folder and set ACCOUS_DATA to it."
    )
