"""Streams of images: features of a frozen or tuned backbone, mixed from two pools or in order of time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from accous import datasets
from accous.arrays import FloatArray, IntArray
from accous.datasets import ImagePair, ImageYears
from accous.deep.features import BackboneFeatures
from accous.deep.precomputed import embeddings_of
from accous.deep.reduction import fit_reduction
from accous.exceptions import DataError
from accous.streams import MixtureStream, OrderedStream
from accous_bench.image_references import PartOfReference, tuned_features
from accous_bench.problem import ALPHA_0, MIXED, NATURAL, SHIFTS, TUNED, Problem, Setting

__all__ = ["IMAGE_PROBLEMS"]

N_REFERENCE = 2000
BACKBONE = "efficientnet_lite0"
N_COMPONENTS = 512  # the width of the paper's features
PATIENCE = "images are embedded, which takes minutes the first time"
TUNED_PATIENCE = (
    "the backbone is trained on the reference of every seed, once per fold, which takes many minutes the first time"
)
YEARBOOK_FROM = 1945  # the paper's reference is the photos before this year

_LOADERS: dict[str, Callable[[], Any]] = {
    "mnist_svhn": datasets.load_mnist_svhn,
    "cifar_cinic": lambda: _of_part("stand-in"),
    "cifar_cinic_genuine": lambda: _of_part("genuine"),
    "cifar_cinic_full": lambda: datasets.load_cifar_cinic("full"),
    "yearbook": datasets.load_yearbook,
}


def _of_part(part: Literal["stand-in", "genuine"]) -> ImagePair:
    """Load files that are not published anywhere; never substitute other images under the same title."""
    if not datasets.has_cifar_cinic(part):
        raise DataError(
            f"The images of CIFAR10-CINIC10 ({part}) are not in ACCOUS_DATA: run cifar_cinic_full or "
            "cifar_cinic_full_tuned instead, which download the published images."
        )
    return datasets.load_cifar_cinic(part)


@cache
def _images(name: str) -> ImagePair | ImageYears:
    images: ImagePair | ImageYears = _LOADERS[name]()
    return images


def _all_images(name: str) -> NDArray[np.uint8]:
    images = _images(name)
    if isinstance(images, ImageYears):
        return images.images
    return np.concatenate((images.first.images, images.second.images))


@cache
def _embeddings(name: str, backbone: str = BACKBONE) -> NDArray[np.float32]:
    """Return a frozen backbone's features of all images; they are computed once and then read from the cache."""
    return embeddings_of(_all_images(name), backbone, cache=True)


def _features(
    name: str, labelled: IntArray, labels: IntArray, seed: int, options: dict[str, Any]
) -> tuple[FloatArray, IntArray]:
    """Return features of all images, fitted on the labelled ones, and which of these are the reference.

    With ``fine_tune``, the backbone is trained on labelled images too.
    """
    n_components, network = options.get("n_components", N_COMPONENTS), options.get("backbone", BACKBONE)
    backbone = BackboneFeatures(network, n_components=n_components, random_state=seed)
    if options.get("fine_tune"):
        cross_fit = options.get("cross_fit", backbone.cross_fit)
        return tuned_features(
            backbone.set_params(fine_tune=True, cross_fit=cross_fit), _all_images(name), labelled, labels
        )
    embeddings = _embeddings(name, network)
    reduction = fit_reduction(embeddings[labelled], n_components, backbone.max_norm, seed)
    return reduction.transform(embeddings), np.arange(len(labelled))


@lru_cache(maxsize=2)  # the runs of a seed follow each other, whatever their shifts and contenders
def _mixed_features(
    name: str, n_reference: int, seed: int, options: tuple[tuple[str, Any], ...]
) -> tuple[FloatArray, IntArray]:
    places = np.arange(sum(map(len, _pool_labels(name))))[:, None]
    rows, labels = _mixture(name, places, "Lin", 1, 1, n_reference, seed).reference()
    return _features(name, rows[:, 0], labels, seed, dict(options))


def _pool_labels(name: str) -> tuple[IntArray, IntArray]:
    pair = _images(name)
    assert isinstance(pair, ImagePair)
    return pair.first.labels, pair.second.labels


def _mixture(
    name: str, rows: NDArray[Any], shift: str, batch_size: int, n_rounds: int, n_reference: int, seed: int
) -> MixtureStream:
    """Mix the rows of both pools; which rows are the reference depends only on the seed and the number of rows."""
    first, second = _pool_labels(name)
    return MixtureStream(
        (rows[: len(first)], first),
        (rows[len(first) :], second),
        SHIFTS[shift],
        n_rounds=n_rounds,
        batch_size=batch_size,
        n_reference=n_reference,
        alpha_0=ALPHA_0,
        random_state=seed,
    )


def _mixed(name: str, title: str, default_reference: int = N_REFERENCE) -> Problem:
    """Mix the two pools: 10 % of the reference from the first, 90 % from the second."""

    def make(setting: Setting) -> MixtureStream | PartOfReference:
        options = dict(setting.options)
        n_reference = options.pop("n_reference", default_reference)
        features, indices = _mixed_features(name, n_reference, setting.seed, tuple(sorted(options.items())))
        stream = _mixture(
            name, features, setting.shift, setting.batch_size, setting.n_rounds, n_reference, setting.seed
        )
        return stream if len(indices) == n_reference else PartOfReference(stream, indices)

    options = ("n_reference", "n_components", "backbone")
    return Problem(name, title, MIXED, make, options, lambda: _embeddings(name), PATIENCE)


def _tuned(frozen: Problem) -> Problem:
    """Make the same streams, with a backbone trained on each seed's labelled images first, as in the paper."""

    def make(setting: Setting) -> Any:
        return frozen.make(replace(setting, options={**setting.options, "fine_tune": True}))

    return replace(
        frozen,
        name=frozen.name + TUNED,
        title=f"{frozen.title}, tuned backbone",
        make=make,
        options=(*frozen.options, "cross_fit"),
        prepare=lambda: embeddings_of(_all_images(frozen.name)[:1]),  # report missing data before any run starts
        patience=TUNED_PATIENCE,
    )


def _make_yearbook(setting: Setting) -> OrderedStream:
    """Return portraits in order of year, shuffled within a year; each seed takes a different nine tenths of them."""
    options = {"share": 0.9, **setting.options}
    features, labels, n_first = _portraits(setting.seed, options.pop("share"), tuple(sorted(options.items())))
    end = n_first + setting.n_rounds * setting.batch_size
    return OrderedStream(features[:end], labels[:end], n_reference=n_first, batch_size=setting.batch_size)


@lru_cache(maxsize=2)
def _portraits(seed: int, share: float, options: tuple[tuple[str, Any], ...]) -> tuple[FloatArray, IntArray, int]:
    """Return features and labels of the portraits that a seed takes, and how many of them are the reference."""
    portraits = _images("yearbook")
    assert isinstance(portraits, ImageYears)
    generator = np.random.default_rng([seed, 4])
    order = generator.permutation(len(portraits.years))  # the files list one sex after the other
    order = order[np.argsort(portraits.years[order], kind="stable")]
    kept = order[generator.random(len(order)) < share]
    n_first = int(np.count_nonzero(portraits.years[kept] < YEARBOOK_FROM))
    if not 2 <= n_first < len(kept):
        raise DataError(f"Yearbook needs portraits before {YEARBOOK_FROM} as reference and later ones as stream.")
    labels = portraits.labels[kept]
    features, indices = _features("yearbook", kept[:n_first], labels[:n_first], seed, dict(options))
    used = np.concatenate((indices, np.arange(n_first, len(kept))))  # without portraits that only the backbone has seen
    return features[kept[used]], labels[used], len(indices)


_FROZEN = (
    _mixed("mnist_svhn", "MNIST-SVHN"),
    _mixed("cifar_cinic", "CIFAR10-CINIC10 (stand-ins)"),
    _mixed("cifar_cinic_genuine", "CIFAR10-CINIC10 (samples)", default_reference=1000),
    _mixed("cifar_cinic_full", "CIFAR10-CINIC10"),
    Problem(
        "yearbook", "Yearbook", (NATURAL,), _make_yearbook,
        ("share", "n_components", "backbone"), lambda: _embeddings("yearbook"), PATIENCE,
    ),
)  # fmt: skip
IMAGE_PROBLEMS = (*_FROZEN, *map(_tuned, _FROZEN))
