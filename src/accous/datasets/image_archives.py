"""Parse images from their published files: one function for each format. Nothing is unpickled."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.datasets.image_pools import IMAGE_SHAPE, Images
from accous.datasets.png import read_png
from accous.exceptions import DataError

__all__ = ["CIFAR_CLASSES", "pad_digits", "parse_cifar", "parse_cinic", "parse_mnist", "parse_svhn", "reading"]

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
