"""Portraits from American high-school yearbooks with their years, from the authors' archive or folder."""

from __future__ import annotations

import hashlib
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from accous.datasets.dataset import Source
from accous.datasets.files import cache_folder, data_folders, keep_npz, read_npz
from accous.datasets.image_archives import reading
from accous.datasets.image_files import PublishedFile, fetch_published
from accous.datasets.image_pools import ImageYears, hash_images
from accous.datasets.png import read_png
from accous.exceptions import DataError

__all__ = ["YEARBOOK", "load_yearbook", "parse_yearbook"]

_FOLDER = "faces_aligned_small_mirrored_co_aligned_cropped_cleaned"
# The address that papers on these portraits give; its authors publish no checksum.
_ARCHIVE = PublishedFile(
    f"{_FOLDER}.tar.gz", (f"https://www.dropbox.com/s/ubjjoo0b2wz4vgz/{_FOLDER}.tar.gz?dl=1",), None
)
_FIRST_YEAR = 1930
_LABELS = {"M": 0, "F": 1}
_FILE_NAME = re.compile(r"(1[89]\d\d|20\d\d)_.+\.png")

YEARBOOK = Source(
    "yearbook", "Yearbook", "https://shiry.eecs.berkeley.edu/yearbooks", "not stated",
    "Ginosar and others, A century of portraits: a visual historical record of American high school yearbooks, 2015; "
    "prepared as in Yao and others, Wild-Time: a benchmark of in-the-wild distribution shift over time, NeurIPS 2022",
    37_189, 32 * 32 * 3, 2, _ARCHIVE.name,
)  # fmt: skip

Portraits = tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]


def load_yearbook() -> ImageYears:
    """Load portraits from 1930 to 2013 in time order, 32 x 32, grey in three equal channels; label 1 is "F".

    ``ACCOUS_DATA`` may have the archive of Ginosar and others, or the unpacked folder with PNG files such as
    ``F/1930_....png``. Otherwise the archive is downloaded. The portraits are prepared like Wild-Time's copy, which is
    a pickle and therefore not read: they are reduced to 32 x 32, and the few photos from before 1930 are left out.
    Within a year they are sorted by name. Reading the images needs Pillow (extra ``deep``). The result is kept in the
    cache.
    """
    given = next((path for folder in data_folders() if (path := folder / _FOLDER).is_dir()), None)
    path = given or fetch_published(_ARCHIVE, YEARBOOK.title)
    cached = cache_folder() / f"yearbook_32_{_fingerprint(path)}.npz"
    if cached.is_file():
        images, labels, years = _read(cached)
    else:
        images, labels, years = parse_yearbook(path)
        sha256 = np.array(hash_images(images, labels, years))
        keep_npz(cached, {"images": images, "labels": labels, "years": years, "sha256": sha256})
    notes = []
    if len(years) != YEARBOOK.n_rows:
        notes.append(
            f"{path.name} has {len(years)} portraits from {_FIRST_YEAR} on, not {YEARBOOK.n_rows} as published."
        )
    return ImageYears("yearbook", "Yearbook", images, labels, years, YEARBOOK, tuple(notes))


def _fingerprint(path: Path) -> str:
    """Return sixteen digits that change with the archive's bytes, or with a folder's file names, sizes and times."""
    if path.is_file():
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()[:16]
    digest = hashlib.sha256()
    for file in sorted(path.glob("[FM]/*")):
        status = file.stat()
        digest.update(f"{file.relative_to(path)} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def _read(path: Path) -> Portraits:
    arrays = read_npz(path, ("images", "labels", "years", "sha256"))
    images, labels, years = arrays["images"], arrays["labels"], arrays["years"]
    if hash_images(images, labels, years) != str(arrays["sha256"]):
        raise DataError(f"{path} is damaged: delete it, and accous creates it again.")
    return images, labels, years


def parse_yearbook(path: Path) -> Portraits:
    """Return images, labels and years from the archive or folder, sorted by year and name, from 1930 on."""
    portraits: list[tuple[int, str, int, NDArray[np.uint8]]] = []
    with reading(path):
        for name, content in _files_in(path):
            found = _FILE_NAME.fullmatch(PurePosixPath(name).name)
            if found is None:
                raise DataError(f"{path}: {name} does not start with a year, as in F/1930_....png, or is not PNG.")
            year = int(found.group(1))
            if year >= _FIRST_YEAR:
                image = read_png(content, f"{path}: {name}", "L", size=(32, 32))
                portraits.append((year, name, _LABELS[PurePosixPath(name).parts[-2]], image))
    if not portraits:
        raise DataError(f"{path} has no portraits from {_FIRST_YEAR} on: it needs PNG files in folders F and M.")
    portraits.sort(key=lambda portrait: portrait[:2])
    images = np.repeat(np.stack([image for *_, image in portraits])[..., None], 3, axis=3)
    labels, years = (np.array([portrait[i] for portrait in portraits], dtype=np.int64) for i in (2, 0))
    return images, labels, years


def _files_in(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of the files in folders F and M, without the copies that macOS puts beside them."""
    if path.is_dir():
        for file in sorted(path.glob("[FM]/*")):
            if file.is_file() and not file.name.startswith("."):
                yield str(file.relative_to(path)), file.read_bytes()
        return
    with tarfile.open(path, "r:gz") as archive:
        for member in archive:
            name = PurePosixPath(member.name)
            is_portrait = member.isfile() and name.parts[-2:-1] in (("F",), ("M",)) and not name.name.startswith(".")
            if is_portrait and (stream := archive.extractfile(member)) is not None:
                yield str(name), stream.read()
