"""A frozen network's own features, to save and use later without PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.arrays import IntArray
from accous.deep.cache import open_cache
from accous.deep.progress import LateBar
from accous.deep.rows import Rows, read_rows
from accous.extras import import_extra
from accous.parameters import require_integer

__all__ = ["check_embedding_parameters", "embed_rows", "embeddings_of"]


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
    """Return a frozen network's own features, of shape (n, d), neither reduced nor bounded.

    If you save them with ``numpy.save``, ``accous fit`` and ``accous adapt`` can read them without PyTorch.

    Parameters
    ----------
    X, backbone, image_size, batch_size, cache, n_jobs, verbose
        As in `BackboneFeatures`.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from accous.deep import embeddings_of
    >>> embeddings_of(np.ones((2, 4)), torch.nn.Flatten()).shape
    (2, 4)
    """
    check_embedding_parameters(image_size, batch_size, n_jobs)
    backbones = import_extra("accous.deep.backbones", "embeddings_of")
    rows = read_rows(X)
    frozen = backbones.load_backbone(backbone, image_size, rows).frozen()
    return embed_rows(
        frozen, rows, batch_size=batch_size, cache=cache, n_jobs=n_jobs, verbose=verbose, user="embeddings_of"
    )


def embed_rows(
    frozen: Any,
    rows: Rows,
    *,
    indices: IntArray | None = None,
    batch_size: int,
    cache: Any,
    n_jobs: int | None,
    verbose: bool,
    user: str,
) -> NDArray[np.float32]:
    """Return a frozen backbone's features of all rows, or of those at some places, with a progress bar.

    Errors about PyTorch name ``user``.
    """
    embedding = import_extra("accous.deep.embedding", user)
    indices = np.arange(len(rows)) if indices is None else indices
    with LateBar("embedding", len(indices), verbose=bool(verbose)) as bar:
        embeddings: NDArray[np.float32] = embedding.embed(
            frozen,
            rows,
            indices=indices,
            batch_size=batch_size,
            n_workers=embedding.count_workers(n_jobs),
            cache=open_cache(cache),
            bar=bar,
        )
    return embeddings


def check_embedding_parameters(image_size: Any, batch_size: Any, n_jobs: Any) -> None:
    """Raise an error for invalid parameters of the embedding."""
    if image_size is not None:
        require_integer("image_size", image_size, at_least=1, or_else=" or None")
    require_integer("batch_size", batch_size, at_least=1)
    if n_jobs is not None and n_jobs != -1:
        require_integer("n_jobs", n_jobs, at_least=1, or_else=", -1 or None")
