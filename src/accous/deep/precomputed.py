"""Embeddings for later: a frozen network's own features, to be kept, reduced and adapted without PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.deep.cache import open_cache
from accous.deep.missing import import_extra
from accous.deep.progress import LateBar
from accous.deep.rows import read_rows

__all__ = ["embeddings_of"]


def embeddings_of(
    X: Any,
    backbone: Any = "efficientnet_lite0",
    *,
    image_size: int | None = None,
    batch_size: int = 48,
    cache: Any = None,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> NDArray[np.float32]:
    """Return a frozen network's features as they are, of shape (n, d): neither reduced nor bounded.

    Save them with ``numpy.save``, and ``accous fit`` and ``accous adapt`` take them where there is no PyTorch.

    Parameters
    ----------
    X, backbone, image_size, batch_size, cache, n_jobs, verbose
        As in `BackboneFeatures`.

    Examples
    --------
    >>> import numpy as np
    >>> from accous.deep import embeddings_of  # doctest: +SKIP
    >>> embeddings_of(np.zeros((2, 32, 32), dtype=np.uint8)).shape  # doctest: +SKIP
    (2, 1280)
    """
    backbones = import_extra("accous.deep.backbones", "embeddings_of")
    embedding = import_extra("accous.deep.embedding", "embeddings_of")
    rows = read_rows(X)
    frozen = backbones.load_backbone(backbone, image_size, rows).frozen()
    with LateBar("embedding", len(rows), verbose=verbose) as bar:
        embeddings: NDArray[np.float32] = embedding.embed(
            frozen,
            rows,
            batch_size=batch_size,
            n_workers=embedding.count_workers(n_jobs),
            cache=open_cache(cache),
            bar=bar,
        )
    return embeddings
