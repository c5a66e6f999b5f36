"""The image sets of the benchmark: pools, pairs to mix, portraits by year; found in ``ACCOUS_DATA`` or downloaded.

Nothing is unpickled. Only reading PNG files needs Pillow.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accous.datasets.loaders import Arrays, cache_folder, data_folders, keep_npz, read_npz
from accous.exceptions import DataError, MissingExtraError, ParameterError
from accous.text import has_package, import_extra

__all__ = [
    "ImagePair", "ImagePool", "ImageYears", "has_stand_ins", "load_cifar_cinic", "load_mnist_svhn", "load_yearbook",
]  # fmt: skip

# --- loaded images ---

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
    note : str
        What you need to know to read results on them.
    stand_in_for : str or None
        What the images stand in for; None if they are the real data.
    """

    title: str
    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    note: str = ""
    stand_in_for: str | None = None

    def __repr__(self) -> str:
        more = f", standing in for {self.stand_in_for}" if self.stand_in_for else ""
        return f"ImagePool({self.title}: {len(self.labels)} images, {len(np.unique(self.labels))} classes{more})"


class ImagePair(NamedTuple):
    """Two pools with the same classes, to be mixed in changing shares."""

    first: ImagePool
    second: ImagePool


@dataclass(frozen=True, eq=False)
class ImageYears:
    """Labelled images of shape (n_images, 32, 32, 3) in the order of their years, and what to know about them."""

    images: NDArray[np.uint8] = field(repr=False)
    labels: NDArray[np.int64] = field(repr=False)
    years: NDArray[np.int64] = field(repr=False)
    note: str = ""


def hash_images(images: NDArray[np.uint8], labels: NDArray[np.int64]) -> str:
    """Return the SHA-256 of images and labels, independent of the file format."""
    digest = hashlib.sha256()
    for array in (images.astype("u1", copy=False), labels.astype("<i8")):
        digest.update(str(array.shape).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


# --- files: in ``ACCOUS_DATA``, then in the cache, then as published ---


@dataclass(frozen=True)
class PublishedFile:
    """A published file.

    Attributes
    ----------
    name : str
        Its name in ``ACCOUS_DATA`` and in the cache.
    urls : tuple of str
        Tried in turn.
    md5 : str
        The documented MD5 sum.
    """

    name: str
    urls: tuple[str, ...]
    md5: str

    @classmethod
    def at(cls, folder: str, name: str, md5: str) -> PublishedFile:
        """Return the file that has its own name in a folder of the web."""
        return cls(name, (folder + name,), md5)


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
    title, note : str
        As of its `ImagePool`.
    file_name : str
        ``ACCOUS_DATA`` and the cache are searched for it.
    n_images : int
    read : callable
        Returns images and labels from that file.
    published : tuple of PublishedFile
        The files to parse if that file is not found; empty if nothing is published.
    parse : callable or None
        Returns images and labels from the paths of the published files.
    arrays_sha256 : str or None
        `hash_images` of images and labels.
    stand_in_for : str or None
    """

    title: str
    note: str
    file_name: str
    n_images: int = 10_000
    read: Callable[[Path], Images] = read_cached
    published: tuple[PublishedFile, ...] = ()
    parse: Callable[..., Images] | None = None
    arrays_sha256: str | None = None
    stand_in_for: str | None = None

    def pool(self, found: Images, place: str) -> ImagePool:
        """Return the checked pool of images and labels that were found at this place."""
        images, labels = found
        expected = (self.n_images, *IMAGE_SHAPE)
        if images.shape != expected or images.dtype != np.uint8 or labels.shape != expected[:1]:
            raise DataError(
                f"{place} does not hold {self.title}: its images are {images.dtype} of shape {images.shape} with "
                f"{labels.size} labels, not uint8 of shape {expected}."
            )
        if self.arrays_sha256 is not None and (sha256 := hash_images(images, labels)) != self.arrays_sha256:
            raise DataError(
                f"{place} does not hold {self.title} as it was when accous was written: the hash of its arrays is "
                f"{sha256}, not {self.arrays_sha256}. Download the file again."
            )
        return ImagePool(self.title, images, labels, self.note, self.stand_in_for)


def find_at_hand(name: str) -> Path | None:
    """Return the path of a file or folder in ``ACCOUS_DATA`` or in the cache, or None."""
    paths = (folder / name for folder in data_folders())
    return next((path for path in paths if path.exists()), None)


def find_pool(*candidates: PoolSource) -> ImagePool:
    """Return the first pool that is on disk, or else download the last one; checked.

    Raises
    ------
    DataError
        If it cannot be found or downloaded, or is not what it should be.
    """
    for candidate in candidates:
        path = find_at_hand(candidate.file_name)
        if path is not None:
            return candidate.pool(candidate.read(path), str(path))
    last = candidates[-1]
    assert last.parse is not None
    images, labels = last.parse(*(fetch_published(file, last.title) for file in last.published))
    pool = last.pool((images, labels), ", ".join(file.name for file in last.published))
    arrays: Arrays = {"images": images, "labels": labels, "sha256": np.array(hash_images(images, labels))}
    keep_npz(cache_folder() / last.file_name, arrays)
    return pool


def fetch_published(file: PublishedFile, title: str) -> Path:
    """Return the path of a published file, which is downloaded to the cache if needed and checked by its MD5."""
    path = find_at_hand(file.name)
    if path is None:
        return _download(file, title)
    if (found := _md5(path)) != file.md5:
        raise DataError(
            f"{path} is not as published: its MD5 is {found}, not {file.md5}. Download it again, or delete it."
        )
    return path


def _md5(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _download(file: PublishedFile, title: str) -> Path:
    pooch = import_extra("pooch", f"Downloading {title}")
    reasons = []
    for url in file.urls:
        try:
            path = pooch.retrieve(
                url, known_hash=f"md5:{file.md5}", fname=file.name, path=cache_folder(), progressbar=has_package("tqdm")
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


# --- published formats ---

CIFAR_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_SVHN_SEED, _SVHN_PART = 0, 5000
_CINIC_SEED, _CINIC_PER_CLASS = 0, 1000


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn any error while reading a file into one sentence that names the file."""
    try:
        yield
    except (OSError, EOFError, ValueError, TypeError, KeyError, zlib.error, tarfile.TarError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} cannot be read ({error}): replace it with a complete copy, or delete it.") from error


def pad_digits(digits: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Put 28 x 28 grey images in the middle of black 32 x 32 images with three equal channels."""
    padded = np.pad(digits, ((0, 0), (2, 2), (2, 2)))
    return np.repeat(padded[..., None], 3, axis=3)


def parse_mnist(images_path: Path, labels_path: Path) -> Images:
    """Return digits and labels from two gzipped idx files."""
    digits, labels = _parse_idx(images_path, 3), _parse_idx(labels_path, 1)
    if digits.shape[1:] != (28, 28) or len(digits) != len(labels):
        raise DataError(
            f"{images_path} holds images of shape {digits.shape} and {labels_path.name} holds {len(labels)} labels: "
            "the files must have as many labels as 28 x 28 images."
        )
    return pad_digits(digits), labels.astype(np.int64)


def _parse_idx(path: Path, n_dimensions: int) -> NDArray[np.uint8]:
    """Read bytes 0, 0, 8 (uint8), the number of dimensions, each of them as a big-endian int32, and the values."""
    with reading(path):
        content = gzip.decompress(path.read_bytes())
    if content[:4] != bytes((0, 0, 8, n_dimensions)) or len(content) < 4 + 4 * n_dimensions:
        raise DataError(
            f"{path} is not an idx file with {n_dimensions} dimensions of bytes: it starts with {content[:4]!r}."
        )
    shape = tuple(np.frombuffer(content, ">i4", n_dimensions, offset=4).tolist())
    values = np.frombuffer(content, np.uint8, offset=4 + 4 * n_dimensions)
    if values.size != int(np.prod(shape)):
        raise DataError(f"{path} is truncated: it announces {shape} values and has {values.size}.")
    return values.reshape(shape)


def parse_svhn(*paths: Path, n_each: int = _SVHN_PART) -> Images:
    """Return ``n_each`` crops from each MATLAB file, chosen by a fixed seed. The files label the digit 0 as 10."""
    generator = np.random.default_rng(_SVHN_SEED)
    parts = []
    for path in paths:
        images, labels = _parse_mat(path)
        if len(labels) < n_each:
            raise DataError(f"{path} has {len(labels)} crops, but {n_each} are needed.")
        chosen = np.sort(generator.choice(len(labels), n_each, replace=False))
        parts.append((images[chosen], labels[chosen]))
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _parse_mat(path: Path) -> Images:
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    with reading(path):
        try:
            content: dict[str, Any] = loadmat(str(path), variable_names=("X", "y"))
        except (MatReadError, NotImplementedError) as error:
            raise ValueError(error) from error
        images, labels = content["X"], content["y"].ravel()
    if images.ndim != 4 or images.shape[:3] != IMAGE_SHAPE or images.shape[3] != len(labels):
        raise DataError(f"{path} has X of shape {images.shape} and {len(labels)} labels, not (32, 32, 3, n) and n.")
    return np.ascontiguousarray(images.transpose(3, 0, 1, 2)), labels.astype(np.int64) % 10


def parse_cifar(path: Path) -> Images:
    """Return the test images of the binary version: records of a label and 32 x 32 reds, greens and blues."""
    with reading(path), tarfile.open(path, "r:gz") as archive:
        member = archive.extractfile("cifar-10-batches-bin/test_batch.bin")
        content = member.read() if member is not None else b""
    n_bytes = 1 + int(np.prod(IMAGE_SHAPE))
    if not content or len(content) % n_bytes:
        raise DataError(f"{path} is truncated: its test batch has {len(content)} bytes, not a multiple of {n_bytes}.")
    records = np.frombuffer(content, np.uint8).reshape(-1, n_bytes)
    images = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), records[:, 0].astype(np.int64)


def parse_cinic(path: Path, *, n_per_class: int = _CINIC_PER_CLASS) -> Images:
    """Return ``n_per_class`` test images of each class that come from ImageNet, chosen by a fixed seed."""
    generator = np.random.default_rng(_CINIC_SEED)
    with reading(path), tarfile.open(path, "r:gz") as archive:
        members = _imagenet_members(archive)
        labels: dict[str, int] = {}
        for label, class_name in enumerate(CIFAR_CLASSES):
            names = sorted(name for name in members if PurePosixPath(name).parts[-2] == class_name)
            if len(names) < n_per_class:
                raise DataError(f"{path} has {len(names)} test images of ImageNet's {class_name}, not {n_per_class}.")
            labels.update((names[i], label) for i in generator.choice(len(names), n_per_class, replace=False))
        # In the order of the archive, because going back means unpacking it from the beginning.
        images = {name: _read_cinic(archive, members[name], path) for name in members if name in labels}
    chosen = sorted(labels)
    return np.stack([images[name] for name in chosen]), np.array([labels[name] for name in chosen], dtype=np.int64)


def _imagenet_members(archive: tarfile.TarFile) -> dict[str, tarfile.TarInfo]:
    """Return files such as ``test/cat/n02123045_1.png`` by name; those of CIFAR-10 start with ``cifar10-``."""
    found = {}
    for member in archive:
        path = PurePosixPath(member.name)
        is_png = member.isfile() and path.suffix == ".png"
        if is_png and path.parts[-3:-2] == ("test",) and not path.name.startswith("cifar10-"):
            found[str(path)] = member
    return found


def _read_cinic(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> NDArray[np.uint8]:
    file = archive.extractfile(member)
    assert file is not None
    image = read_png(file.read(), f"{path}: {member.name}", "RGB")
    if image.shape != IMAGE_SHAPE:
        raise DataError(f"{path}: {member.name} is an image of shape {image.shape}, not {IMAGE_SHAPE}.")
    return image


# --- what is published where, and what stands in for it ---

_MNIST_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_MNIST_NOTE = "MNIST's 10,000 test images, in the middle of black 32 x 32 images with three equal channels."
_MNIST_SHA256 = "22d035aa82c491d30180fdbc875611e6211075567229130d8154d5d9eb114e0f"
_SVHN_URL = "http://ufldl.stanford.edu/housenumbers/"


def _read_mnist(path: Path) -> Images:
    arrays = read_npz(path, ("X_test", "y_test"))
    return pad_digits(arrays["X_test"]), arrays["y_test"].astype(np.int64)


def _read_svhn(path: Path) -> Images:
    arrays = read_npz(path, ("X_train", "y_train", "X_test", "y_test"))
    images, labels = (np.concatenate([arrays[f"{name}_train"], arrays[f"{name}_test"]]) for name in "Xy")
    return images, labels.astype(np.int64)


def _read_arrays(path: Path) -> Images:
    arrays = read_npz(path, ("X", "y"))
    return arrays["X"], arrays["y"].astype(np.int64)


MNIST_AT_HAND = PoolSource("MNIST", _MNIST_NOTE, "mnist.npz", read=_read_mnist, arrays_sha256=_MNIST_SHA256)
MNIST = PoolSource(
    "MNIST",
    _MNIST_NOTE,
    "mnist_test_32.npz",
    published=(
        PublishedFile.at(_MNIST_URL, "t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
        PublishedFile.at(_MNIST_URL, "t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"),
    ),
    parse=parse_mnist,
    arrays_sha256=_MNIST_SHA256,
)
SVHN_AT_HAND = PoolSource(
    "SVHN (10,000 crops, cut anew)",
    "5,000 crops of SVHN's training part and 5,000 of its test part, cropped again from the full images: they differ "
    "by a few grey levels at the edges.",
    "svhn_10k.npz",
    read=_read_svhn,
    arrays_sha256="818dfdadfda9bbfa59fc45ffbe750715e3f0e135bda412b755681d4a8863b644",
)
SVHN = PoolSource(
    "SVHN (10,000 crops)",
    "5,000 crops of SVHN's training part and 5,000 of its test part, chosen by a fixed seed.",
    "svhn_published_10k.npz",
    published=(
        PublishedFile.at(_SVHN_URL, "train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373"),
        PublishedFile.at(_SVHN_URL, "test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3"),
    ),
    parse=parse_svhn,
)
CIFAR_JPEG = PoolSource(
    "CIFAR-10 (JPEG-compressed)",
    "CIFAR-10's test set was compressed as JPEG, with loss.",
    "cifar10_10k_jpeg.npz",
    read=_read_arrays,
    arrays_sha256="4ce52c23570321ba31e46406806e2812250b20e1afa4a399e6379ad14fd47b4b",
    stand_in_for="CIFAR-10's test set, lossless",
)
CIFAR = PoolSource(
    "CIFAR-10",
    "CIFAR-10's test set.",
    "cifar10_test.npz",
    # The version in binary records, because the better known one holds pickles.
    published=(
        PublishedFile.at(
            "https://www.cs.toronto.edu/~kriz/", "cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"
        ),
    ),
    parse=parse_cifar,
)
TINY_IMAGENET = PoolSource(
    "Tiny-ImageNet (CINIC-10's synsets)",
    "Tiny-ImageNet's images of CINIC-10's synsets, reduced to 32 x 32. There are none of the classes 0 and 7, and "
    "every deer is a bison, as in CINIC-10's own map.",
    "tinyimagenet_as_cinic.npz",
    n_images=8250,
    read=_read_arrays,
    arrays_sha256="126a8315b601867d967d84ecb98c3a9ac7f0fc2c9a0f3230fa29345c6fbc2ceb",
    stand_in_for="CINIC-10's images of ImageNet origin",
)
CINIC = PoolSource(
    "CINIC-10 (ImageNet part, 10,000 images)",
    "1,000 images per class of CINIC-10's test part that come from ImageNet, chosen by a fixed seed.",
    "cinic10_imagenet_10k.npz",
    published=(
        PublishedFile(
            "CINIC-10.tar.gz",
            (
                "https://datashare.ed.ac.uk/bitstream/handle/10283/3192/CINIC-10.tar.gz",
                "https://datashare.ed.ac.uk/bitstreams/e8e186cc-2688-48f1-aa5a-3fda1a43f8b6/download",
            ),
            "6ee4d0c996905fe93221de577967a372",
        ),
    ),
    parse=parse_cinic,
)


def load_mnist_svhn() -> ImagePair:
    """Load handwritten digits (MNIST's 10,000 test images) and house numbers (10,000 crops of SVHN), labels 0 to 9.

    If ``ACCOUS_DATA`` has ``svhn_10k.npz``, the second pool is the crops in that file. Otherwise it is 5,000 crops from
    each of the published training and test files. The pool's note says which.
    """
    return _with_shared_classes(find_pool(MNIST_AT_HAND, MNIST), find_pool(SVHN_AT_HAND, SVHN))


def load_cifar_cinic(part: Literal["stand-in", "full"] = "stand-in") -> ImagePair:
    """Load CIFAR-10's test set and CINIC-10's images from ImageNet, or stand-ins for them.

    Parameters
    ----------
    part : {"stand-in", "full"}, default="stand-in"
        "stand-in": CIFAR-10 compressed as JPEG and Tiny-ImageNet's images of CINIC-10's synsets, both with the eight
        classes that the latter has (1 to 6, 8 and 9). These are files in ``ACCOUS_DATA`` that nobody publishes.
        "full": CIFAR-10's test set and 10,000 images of CINIC-10's test part, as published.

    Raises
    ------
    DataError
        If the images cannot be had; others are never taken in their place.
    """
    if part == "full":
        return _with_shared_classes(find_pool(CIFAR), find_pool(CINIC))
    if part != "stand-in":
        raise ParameterError(f"part is {part!r}: name one of stand-in, full.")
    if not has_stand_ins():
        raise DataError(
            "The stand-ins for CIFAR10-CINIC10 are not in ACCOUS_DATA: run cifar_cinic_full or cifar_cinic_full_tuned "
            "instead, which download the published images."
        )
    return _with_shared_classes(find_pool(CIFAR_JPEG), find_pool(TINY_IMAGENET))


def has_stand_ins() -> bool:
    """Whether both stand-ins for CIFAR10-CINIC10 are in ``ACCOUS_DATA``."""
    return all(find_at_hand(pool.file_name) for pool in (CIFAR_JPEG, TINY_IMAGENET))


def _with_shared_classes(first: ImagePool, second: ImagePool) -> ImagePair:
    """Keep the classes that both pools have; the labels keep their numbers."""

    def reduced(pool: ImagePool, other: ImagePool) -> ImagePool:
        is_kept = np.isin(pool.labels, other.labels)
        return replace(pool, images=pool.images[is_kept], labels=pool.labels[is_kept])

    return ImagePair(reduced(first, second), reduced(second, first))


# --- portraits ---

_FOLDER = "faces_aligned_small_mirrored_co_aligned_cropped_cleaned"
_HDF5 = "yearbook.hdf5"
_FIRST_YEAR = 1930
_N_PORTRAITS = 37_189
_LABELS = {"M": 0, "F": 1}
_FILE_NAME = re.compile(r"(1[89]\d\d|20\d\d)_.+\.png")
Portraits = tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]


def load_yearbook() -> ImageYears:
    """Load portraits from 1930 to 2013 in time order, 32 x 32, grey in three equal channels; label 1 is "F".

    ``ACCOUS_DATA`` must have ``yearbook.hdf5`` of the package ``wild-time-data`` (reading it needs h5py), or the
    unpacked folder of Ginosar and others with PNG files such as ``F/1930_....png`` (reading them needs Pillow, extra
    ``deep``). The portraits are prepared like Wild-Time's first copy, which is a pickle and therefore not read: they
    are reduced to 32 x 32, and the few photos from before 1930 are left out. Within a year they are sorted by name.
    """
    path = find_at_hand(_HDF5) or find_at_hand(_FOLDER)
    if path is None:
        raise DataError(
            f"Yearbook cannot be downloaded: get its images from https://shiry.eecs.berkeley.edu/yearbooks and put the "
            f"folder {_FOLDER}, or {_HDF5} of wild-time-data, into a folder and set ACCOUS_DATA to it."
        )
    images, labels, years = _parse_hdf5(path) if path.suffix == ".hdf5" else parse_yearbook(path)
    is_whole = len(years) == _N_PORTRAITS
    note = f"{path.name} has {len(years)} portraits from {_FIRST_YEAR} on, not {_N_PORTRAITS} as published."
    return ImageYears(images, labels, years, "" if is_whole else note)


def _parse_hdf5(path: Path) -> Portraits:
    try:
        import h5py
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"Reading {path.name} needs h5py: pip install h5py.", name="h5py") from error
    with reading(path), h5py.File(path, "r") as groups:
        return portraits_from(groups)


def portraits_from(groups: Mapping[str, Any]) -> Portraits:
    """Return images, labels and years from groups by year, then ``train`` and ``test``, as wild-time-data has them."""
    years = sorted(groups, key=int)
    parts = [(int(year), groups[year][split]) for year in years for split in ("train", "test") if split in groups[year]]
    labels = [np.asarray(part["labels"][:], dtype=np.int64).ravel() for _, part in parts]
    grey = [
        np.asarray(part["images"][:]).reshape(len(own), 32, 32, -1)[..., :1]
        for (_, part), own in zip(parts, labels, strict=True)
    ]
    images = np.concatenate(grey)
    if images.dtype.kind == "f" and images.max() <= 1.0:
        images = np.round(255.0 * images)
    all_years = [np.full(len(own), year, dtype=np.int64) for (year, _), own in zip(parts, labels, strict=True)]
    return np.repeat(images.astype(np.uint8), 3, axis=3), np.concatenate(labels), np.concatenate(all_years)


def parse_yearbook(folder: Path) -> Portraits:
    """Return images, labels and years from the folders F and M, sorted by year and name, from 1930 on."""
    portraits: list[tuple[int, str, int, NDArray[np.uint8]]] = []
    for file in folder.glob("[FM]/*"):
        if file.name.startswith("."):  # the copies that macOS puts beside them
            continue
        name = str(file.relative_to(folder))
        found = _FILE_NAME.fullmatch(file.name)
        if found is None:
            raise DataError(f"{folder}: {name} does not start with a year, as in F/1930_....png, or is not PNG.")
        if (year := int(found[1])) >= _FIRST_YEAR:
            image = read_png(file.read_bytes(), f"{folder}: {name}", "L", size=(32, 32))
            portraits.append((year, name, _LABELS[file.parent.name], image))
    if not portraits:
        raise DataError(f"{folder} has no portraits from {_FIRST_YEAR} on: it needs PNG files in folders F and M.")
    portraits.sort(key=lambda portrait: portrait[:2])
    images = np.repeat(np.stack([image for *_, image in portraits])[..., None], 3, axis=3)
    labels, years = (np.array([portrait[i] for portrait in portraits], dtype=np.int64) for i in (2, 0))
    return images, labels, years
