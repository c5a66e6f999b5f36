"""Pairs of image pools: handwritten and photographed digits, objects of CIFAR-10 and of ImageNet."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from accous.datasets import image_sources as known
from accous.datasets.image_files import PoolSource, find_at_hand, find_pool
from accous.datasets.image_pools import ImagePair
from accous.exceptions import ParameterError

__all__ = ["CifarCinicPart", "has_cifar_cinic", "load_cifar_cinic", "load_mnist_svhn"]

CifarCinicPart = Literal["stand-in", "genuine", "full"]

_OF_PART = {
    "stand-in": (known.CIFAR_JPEG, known.TINY_IMAGENET),
    "genuine": (known.CIFAR_SAMPLE, known.CINIC_SAMPLE),
    "full": (known.CIFAR, known.CINIC),
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
    "cifar10_sample": "2,000 images of CIFAR-10, lossless.",
    "cinic10_sample": (
        "Those of 2,000 images of CINIC-10 that have a mean squared distance above 600 from every image of CIFAR-10 "
        "and therefore come from ImageNet."
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
    return _pair("mnist_svhn", (known.MNIST_AT_HAND, known.MNIST), (known.SVHN_AT_HAND, known.SVHN))


def load_cifar_cinic(part: CifarCinicPart = "stand-in") -> ImagePair:
    """Load CIFAR-10's test set and CINIC-10's images from ImageNet, or stand-ins for them.

    Parameters
    ----------
    part : {"stand-in", "genuine", "full"}, default="stand-in"
        "stand-in": CIFAR-10 compressed as JPEG and Tiny-ImageNet's images of CINIC-10's synsets, both with the eight
        classes that the latter has (1 to 6, 8 and 9). "genuine": lossless samples of the real sets, about 1,500 to
        2,000 images each. Both are files in ``ACCOUS_DATA`` that nobody publishes; without them, the full sets are
        loaded. "full": CIFAR-10's test set and 10,000 images of CINIC-10's test part, as published.

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
