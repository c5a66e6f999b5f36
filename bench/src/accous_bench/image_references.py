"""The reference of a stream of images whose backbone was trained on labelled rows: all of these rows, or a part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray, IntArray
from accous.deep.features import BackboneFeatures
from accous.streams import Batch, MixtureStream
from accous_bench.kept_features import features_cache, key_of_training

__all__ = ["PartOfReference", "tuned_features"]


def tuned_features(
    backbone: BackboneFeatures, images: NDArray[Any], labelled: IntArray, labels: IntArray
) -> tuple[FloatArray, IntArray]:
    """Train a backbone on the labelled images; return features of all, and which labelled rows are the reference.

    With folds, an image of the reference gets the features of the network that has not seen it. The features of a
    named backbone are kept in the user's cache folder, except with a hold-out, and the next call only reads them.
    """
    key, cache = key_of_training(backbone, images, labelled, labels), features_cache()
    if key is None:
        return _trained_features(backbone, images, labelled, labels)
    features = cache.read(key, len(images), np.float64)
    if features is None:
        features, _ = _trained_features(backbone, images, labelled, labels)
        cache.write(key, features)
    return features, np.arange(len(labelled))


def _trained_features(
    backbone: BackboneFeatures, images: NDArray[Any], labelled: IntArray, labels: IntArray
) -> tuple[FloatArray, IntArray]:
    if backbone.cross_fit == "hold_out":
        features = backbone.fit(images[labelled], labels).transform(images)
    else:
        reference = backbone.fit_transform(images[labelled], labels)
        features = backbone.transform(images)
        features[labelled] = reference
    return features, backbone.reference_indices_


@dataclass(frozen=True)
class PartOfReference:
    """A mixture whose reference is only a part of its labelled rows: the backbone was trained on the others."""

    stream: MixtureStream
    indices: IntArray

    def __len__(self) -> int:
        return len(self.stream)

    def __iter__(self) -> Iterator[Batch]:
        return iter(self.stream)

    def reference(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the labelled rows that the backbone has not seen."""
        X, y = self.stream.reference()
        return X[self.indices], y[self.indices]

    def reference_ratio(self, alpha: float) -> FloatArray:
        """Return the true ratio of every row of the reference."""
        return self.stream.reference_ratio(alpha)[self.indices]

    def risk(self, model: Any, alpha: float) -> float:
        """Return the error rate of a fitted classifier under a mixture weight, over all rows that are not labelled."""
        return self.stream.risk(model, alpha)

    def fresh_batches(self) -> Iterator[Batch]:
        """Yield other draws from the pools for the same rounds, never of labelled rows."""
        return self.stream.fresh_batches()
