"""Send rows through a frozen network in mini-batches, on several threads, with a lookup in the cache first."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray

from accous.arrays import IntArray
from accous.deep.backbones import Backbone
from accous.deep.cache import EmbeddingCache, key_of
from accous.deep.progress import LateBar
from accous.deep.rows import Rows
from accous.exceptions import DataError

__all__ = ["Embeddings", "count_workers", "embed", "one_torch_thread"]

Embeddings = NDArray[np.float32]


def embed(
    backbone: Backbone,
    rows: Rows,
    *,
    indices: IntArray,
    batch_size: int,
    n_workers: int,
    cache: EmbeddingCache | None,
    bar: LateBar,
) -> Embeddings:
    """Return the backbone's features of the rows at these places, shape (n, d).

    Mini-batches are cut in the order of the rows, so the number of workers does not change the result.

    Raises
    ------
    DataError
        If features are not finite.
    """
    cache, identity = _usable(cache, backbone)
    pieces = np.split(indices, np.arange(batch_size, len(indices), batch_size))

    def work(piece: IntArray) -> Embeddings:
        return _embed_piece(backbone, rows, piece, cache, identity)

    found: list[Embeddings] = []
    with one_torch_thread(), ThreadPoolExecutor(n_workers, initializer=_set_for_this_thread, initargs=(1,)) as pool:
        try:
            for embeddings in pool.map(work, pieces):
                found.append(embeddings)
                bar.advance(len(embeddings))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # an interrupted run finishes the mini-batches it is in
            raise
    if len({embeddings.shape[1] for embeddings in found}) > 1:
        raise DataError("The backbone's output has a different width for different rows; it must not depend on them.")
    return np.concatenate(found)


def count_workers(n_jobs: int | None) -> int:
    """Return the number of threads; None and -1 mean all cores that this process may use."""
    if n_jobs is None or n_jobs == -1:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return n_jobs


def _usable(cache: EmbeddingCache | None, backbone: Backbone) -> tuple[EmbeddingCache | None, str]:
    """Return the cache and the backbone's identity in it; no cache if the backbone cannot be identified."""
    identity = None if cache is None else backbone.identity
    if cache is not None and identity is None:
        message = (
            "The embeddings are not cached: the source code of the backbone's classes cannot be read, so another "
            "backbone could be mistaken for this one. Define the classes in a file."
        )
        warnings.warn(message, RuntimeWarning, stacklevel=2)
    return (None, "") if identity is None else (cache, identity)


def _embed_piece(
    backbone: Backbone, rows: Rows, indices: IntArray, cache: EmbeddingCache | None, identity: str
) -> Embeddings:
    piece = rows.take(indices)
    key = "" if cache is None else key_of(identity, piece)
    embeddings = None if cache is None else cache.read(key, len(indices))
    if embeddings is None:
        with torch.inference_mode():
            output = backbone(backbone.preparation.prepare(piece))
        embeddings = np.ascontiguousarray(output.float().cpu().numpy())
        _require_finite(embeddings, indices)
        if cache is not None:
            cache.write(key, embeddings)
    return embeddings


def _require_finite(embeddings: Embeddings, indices: IntArray) -> None:
    is_bad = ~np.isfinite(embeddings).all(axis=1)
    if is_bad.any():
        row = int(indices[is_bad.argmax()])
        raise DataError(
            f"The backbone's features of row {row} are not finite: look for NaN or very large values in that row."
        )


_lock = threading.Lock()


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Compute on one torch thread, so that bits do not depend on the number of cores; restore torch afterwards."""
    before = _set_for_this_thread(1)
    try:
        yield
    finally:
        _set_for_this_thread(before)


def _set_for_this_thread(count: int) -> int:
    """Set how many threads torch uses for the work of this thread, and return the previous number.

    On its first use of torch, each thread takes the number that any thread has set last, and keeps it. A new thread
    reads that number and puts it back; otherwise threads that start in the meantime would use the number set here.
    """
    with _lock, ThreadPoolExecutor(1) as new_thread:
        for_new_threads = new_thread.submit(torch.get_num_threads).result()
        before = torch.get_num_threads()  # a first use; without it, the number set next would not last
        torch.set_num_threads(count)
        new_thread.submit(torch.set_num_threads, for_new_threads).result()
        if torch.get_num_threads() != count:  # a torch without OpenMP has one number for all
            torch.set_num_threads(count)
    return before
