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
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from accous.datasets.loaders import Arrays, Source, cache_folder, data_folders, keep_npz, read_npz
from accous.exceptions import DataError, MissingExtraError, ParameterError
from accous.text import has_package, import_extra

__all__ = [
    "ImagePair", "ImagePool", "ImageYears", "has_cifar_cinic", "load_cifar_cinic", "load_mnist_svhn", "load_yearbook",
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

_N_FEATURES = 32 * 32 * 3
_MNIST_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_MNIST_CITATION = "LeCun, Bottou, Bengio and Haffner, Gradient-based learning applied to document recognition, 1998"
_MNIST_SHA256 = "22d035aa82c491d30180fdbc875611e6211075567229130d8154d5d9eb114e0f"
_SVHN_URL = "http://ufldl.stanford.edu/housenumbers/"
_SVHN_CITATION = "Netzer and others, Reading digits in natural images with unsupervised feature learning, 2011"
_CIFAR_URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
_CIFAR_CITATION = "Krizhevsky, Learning multiple layers of features from tiny images, 2009"
_CINIC_URL = "https://datashare.ed.ac.uk/handle/10283/3192"
_CINIC_CITATION = "Darlow, Crowley, Antoniou and Storkey, CINIC-10 is not ImageNet or CIFAR-10, arXiv:1810.03505, 2018"
_TINY_CITATION = "Le and Yang, Tiny ImageNet visual recognition challenge, 2015"


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


MNIST_AT_HAND = PoolSource(
    Source(
        "mnist", "MNIST", _MNIST_URL, "CC BY-SA 3.0", _MNIST_CITATION,
        10_000, _N_FEATURES, 10, "mnist.npz", _MNIST_SHA256,
    ),
    _read_mnist,
)  # fmt: skip
MNIST = PoolSource(
    Source(
        "mnist", "MNIST", _MNIST_URL, "CC BY-SA 3.0", _MNIST_CITATION,
        10_000, _N_FEATURES, 10, "mnist_test_32.npz", _MNIST_SHA256,
    ),
    published=tuple(
        PublishedFile(name, (_MNIST_URL + name,), md5)
        for name, md5 in (
            ("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
            ("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"),
        )
    ),
    parse=parse_mnist,
)  # fmt: skip
SVHN_AT_HAND = PoolSource(
    Source(
        "svhn", "SVHN (10,000 crops, cut anew)", _SVHN_URL, "non-commercial use only", _SVHN_CITATION,
        10_000, _N_FEATURES, 10, "svhn_10k.npz",
        "818dfdadfda9bbfa59fc45ffbe750715e3f0e135bda412b755681d4a8863b644",
    ),
    _read_svhn,
)  # fmt: skip
SVHN = PoolSource(
    Source(
        "svhn", "SVHN (10,000 crops)", _SVHN_URL, "non-commercial use only", _SVHN_CITATION,
        10_000, _N_FEATURES, 10, "svhn_published_10k.npz",
    ),
    published=tuple(
        PublishedFile(name, (_SVHN_URL + name,), md5)
        for name, md5 in (
            ("train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373"),
            ("test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3"),
        )
    ),
    parse=parse_svhn,
)  # fmt: skip
CIFAR_JPEG = PoolSource(
    Source(
        "cifar10_jpeg", "CIFAR-10 (JPEG-compressed)", _CIFAR_URL, "not stated", _CIFAR_CITATION,
        10_000, _N_FEATURES, 10, "cifar10_10k_jpeg.npz",
        "4ce52c23570321ba31e46406806e2812250b20e1afa4a399e6379ad14fd47b4b",
    ),
    _read_arrays,
    stand_in_for="CIFAR-10's test set, lossless",
)  # fmt: skip
CIFAR = PoolSource(
    Source(
        "cifar10", "CIFAR-10", _CIFAR_URL, "not stated", _CIFAR_CITATION,
        10_000, _N_FEATURES, 10, "cifar10_test.npz",
    ),
    # The version in binary records, because the better known one holds pickles.
    published=(PublishedFile("cifar-10-binary.tar.gz", (_CIFAR_URL,), "c32a1d4ab5d03f1284b67883e8d87530"),),
    parse=parse_cifar,
)  # fmt: skip
TINY_IMAGENET = PoolSource(
    Source(
        "tiny_imagenet", "Tiny-ImageNet (CINIC-10's synsets)", "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
        "non-commercial research only", _TINY_CITATION,
        8250, _N_FEATURES, 8, "tinyimagenet_as_cinic.npz",
        "126a8315b601867d967d84ecb98c3a9ac7f0fc2c9a0f3230fa29345c6fbc2ceb",
    ),
    _read_arrays,
    stand_in_for="CINIC-10's images of ImageNet origin",
)  # fmt: skip
CINIC = PoolSource(
    Source(
        "cinic10", "CINIC-10 (ImageNet part, 10,000 images)", _CINIC_URL, "CC BY 4.0", _CINIC_CITATION,
        10_000, _N_FEATURES, 10, "cinic10_imagenet_10k.npz",
    ),
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
)  # fmt: skip


# --- pairs of pools ---

CifarCinicPart = Literal["stand-in", "full"]
_OF_PART = {
    "stand-in": (CIFAR_JPEG, TINY_IMAGENET),
    "full": (CIFAR, CINIC),
}
_NOTES = {
    "mnist": "MNIST's 10,000 test images, in the middle of black 32 x 32 images with three equal channels.",
    "svhn_10k.npz": (
        "5,000 crops of SVHN's training part and 5,000 of its test part, cropped again from the full images: "
        "they differ by a few grey levels at the edges."
    ),
    "svhn_published_10k.npz": "5,000 crops of SVHN's training part and 5,000 of its test part, chosen by a fixed seed.",
    "cifar10_jpeg": "CIFAR-10's test set was compressed as JPEG, with loss.",
    "tiny_imagenet": (
        "Tiny-ImageNet's images of CINIC-10's synsets, reduced to 32 x 32, stand in for CINIC-10's images from "
        "ImageNet. There are none of the classes 0 and 7, and every deer is a bison, as in CINIC-10's own map."
    ),
    "cifar10": "CIFAR-10's test set.",
    "cinic10": "1,000 images per class of CINIC-10's test part that come from ImageNet, chosen by a fixed seed.",
}


def load_mnist_svhn() -> ImagePair:
    """Load handwritten digits (MNIST's 10,000 test images) and house numbers (10,000 crops of SVHN), labels 0 to 9.

    Returns
    -------
    ImagePair
        If ``ACCOUS_DATA`` has ``svhn_10k.npz``, the second pool is the crops in that file. Otherwise it is 5,000
        crops from each of the published training and test files. The notes say which.
    """
    return _pair("mnist_svhn", (MNIST_AT_HAND, MNIST), (SVHN_AT_HAND, SVHN))


def load_cifar_cinic(part: CifarCinicPart = "stand-in") -> ImagePair:
    """Load CIFAR-10's test set and CINIC-10's images from ImageNet, or stand-ins for them.

    Parameters
    ----------
    part : {"stand-in", "full"}, default="stand-in"
        "stand-in": CIFAR-10 compressed as JPEG and Tiny-ImageNet's images of CINIC-10's synsets, both with the eight
        classes that the latter has (1 to 6, 8 and 9). These are files in ``ACCOUS_DATA`` that nobody publishes; without
        them, the full sets are loaded. "full": CIFAR-10's test set and 10,000 images of CINIC-10's test part, as
        published.

    Returns
    -------
    ImagePair
        The pools' titles, ``stand_in_for`` and the notes say what they are.
    """
    if part not in _OF_PART:
        raise ParameterError(f"part is {part!r}: name one of {', '.join(get_args(CifarCinicPart))}.")
    first, second = _OF_PART[part]
    # Never combine one of these with one of the full sets: lossy against lossless would tell the pools apart.
    if part != "full" and not has_cifar_cinic(part):
        first, second = _OF_PART["full"]
    return _pair("cifar_cinic", (first,), (second,))


def has_cifar_cinic(part: CifarCinicPart) -> bool:
    """Whether both files of a part are in ``ACCOUS_DATA``."""
    return all(find_at_hand(str(pool.source.file_name)) for pool in _OF_PART[part])


def _pair(name: str, first: tuple[PoolSource, ...], second: tuple[PoolSource, ...]) -> ImagePair:
    """Find both pools and keep the classes that both have."""
    (first_pool, first_source), (second_pool, second_source) = find_pool(*first), find_pool(*second)
    shared = np.intersect1d(first_pool.labels, second_pool.labels)
    sources = (first_source, second_source)
    notes = [_NOTES.get(str(source.file_name)) or _NOTES[source.name] for source in sources]
    if len(shared) < max(source.n_classes for source in sources):
        notes.append(f"Both pools have only the classes {', '.join(map(str, shared))}.")
    return ImagePair(name, first_pool.of_classes(shared), second_pool.of_classes(shared), sources, tuple(notes))


# --- portraits ---

_FOLDER = "faces_aligned_small_mirrored_co_aligned_cropped_cleaned"
# The address that papers on these portraits give; its authors publish no checksum.
_ARCHIVE = PublishedFile(
    f"{_FOLDER}.tar.gz", (f"https://www.dropbox.com/s/ubjjoo0b2wz4vgz/{_FOLDER}.tar.gz?dl=1",), None
)
_HDF5 = "yearbook.hdf5"
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

    ``ACCOUS_DATA`` may have ``yearbook.hdf5`` of the package ``wild-time-data`` (reading it needs h5py), the unpacked
    folder of Ginosar and others with PNG files such as ``F/1930_....png``, or their archive. Otherwise the archive is
    downloaded. The portraits are prepared like Wild-Time's first copy, which is a pickle and therefore not read: they
    are reduced to 32 x 32, and the few photos from before 1930 are left out. Within a year they are sorted by name.
    Reading the images needs Pillow (extra ``deep``). The result is kept in the cache.
    """
    names = (_HDF5, _FOLDER)
    given = next((path for folder in data_folders() for name in names if (path := folder / name).exists()), None)
    path = given or fetch_published(_ARCHIVE, YEARBOOK.title)
    cached = cache_folder() / f"yearbook_32_{_fingerprint(path)}.npz"
    if cached.is_file():
        images, labels, years = _read(cached)
    else:
        images, labels, years = _parse_hdf5(path) if path.suffix == ".hdf5" else parse_yearbook(path)
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
