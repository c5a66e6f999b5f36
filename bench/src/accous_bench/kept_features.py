"""Features of trained backbones on disk, so that no network is trained twice.

A run that is interrupted, another contender and another process then start with the features of an earlier one.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous import deep
from accous.arrays import IntArray
from accous.deep.cache import EmbeddingCache, open_cache
from accous.deep.features import BackboneFeatures
from accous_bench.provenance import versions

__all__ = ["features_cache", "key_of_training"]

_NO_MATTER = ("cache", "n_jobs", "verbose")


def features_cache() -> EmbeddingCache:
    """Return the folder of features: a part of the user's cache folder, or of ``ACCOUS_CACHE``."""
    embeddings = open_cache(True)
    assert embeddings is not None
    cache = open_cache(embeddings.folder.parent / "trained")
    assert cache is not None
    return cache


def key_of_training(
    backbone: BackboneFeatures, images: NDArray[Any], labelled: IntArray, labels: IntArray
) -> str | None:
    """Return a digest of what the features of all images depend on; None if they are not kept.

    These are the parameters, the images, which of them are labelled and how, the versions of PyTorch and numpy, and the
    code of `accous.deep`. A network of the user's has no name to keep it under, and a hold-out leaves a reference that
    only the training knows.
    """
    if not isinstance(backbone.backbone, str) or backbone.cross_fit == "hold_out":
        return None
    parameters = {name: value for name, value in sorted(backbone.get_params().items()) if name not in _NO_MATTER}
    known = versions()
    digest = hashlib.sha256(repr([parameters, known["torch"], known["numpy"]]).encode())
    assert deep.__file__ is not None
    for file in sorted(Path(deep.__file__).parent.glob("*.py")):
        digest.update(file.name.encode() + file.read_bytes())
    for array in (images, labelled, labels):
        digest.update(f"\n{array.shape} {array.dtype.str}\n".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
