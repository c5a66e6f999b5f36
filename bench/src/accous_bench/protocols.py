"""When a contender sees a batch and what it is scored on: the same for every contender of a run.

==================  ====================================================================================================
``predict_first``   predict the batch, then learn from it: what a deployed model does
``fresh_rows``      learn from the batch, then predict other rows of the same distribution, which nobody has seen
``batch_first``     learn from the batch, then predict that batch: for users who can wait for a whole batch
==================  ====================================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray
from accous.exceptions import DataError
from accous_bench.contenders import Contender

__all__ = ["BATCH_FIRST", "FRESH_ROWS", "PREDICT_FIRST", "PROTOCOLS", "fit_on", "rounds"]

PREDICT_FIRST, FRESH_ROWS, BATCH_FIRST = PROTOCOLS = ("predict_first", "fresh_rows", "batch_first")


def fit_on(stream: Any, contender: Contender, model: Any) -> None:
    """Fit the contender's model on the reference of the stream, after telling it what this contender may know."""
    if contender.knows_parts:
        model.know_parts(stream)
    model.fit(*stream.reference())


def rounds(
    contender: Contender,
    model: Any,
    stream: Any,
    protocol: str = PREDICT_FIRST,
    is_played: NDArray[np.bool_] | None = None,
) -> Iterator[Any]:
    """Yield, in each round, the rows to predict when it is time to predict them.

    The oracle is told the true ratio of the round before it predicts, under every protocol.

    Parameters
    ----------
    contender : Contender
    model : object
        A fitted model of the contender.
    stream : Stream
    protocol : str
    is_played : ndarray of bool, optional
        Which rounds to play; None plays all. Only for a contender that keeps nothing from one round to the next: it
        then learns only from the batches that the played rounds need.
    """
    is_played = np.ones(len(stream), dtype=bool) if is_played is None else is_played
    learns_before = protocol != PREDICT_FIRST
    needs_batch = is_played if learns_before else np.append(is_played[1:], not contender.forgets)
    fresh = _fresh_batches(stream) if protocol == FRESH_ROWS else None
    for batch in stream:
        scored, place = batch if fresh is None else next(fresh), batch.round - 1
        learns = needs_batch[place] and not contender.is_told_ratio
        if contender.is_told_ratio and is_played[place]:
            model.adapt_to(_true_ratio(stream, batch.alpha))
        if learns and learns_before:
            model.adapt(batch.X)
        if is_played[place]:
            yield scored
        if learns and not learns_before:
            model.adapt(batch.X)


def _fresh_batches(stream: Any) -> Iterator[Any]:
    if not hasattr(stream, "fresh_batches"):
        raise DataError(
            "Nobody can draw other rows of a round of this stream: use the protocol predict_first or batch_first."
        )
    return iter(stream.fresh_batches())


def _true_ratio(stream: Any, alpha: float) -> FloatArray:
    if not hasattr(stream, "reference_ratio") or np.isnan(alpha):
        raise DataError("The true ratio of this stream is not known: leave the oracle out.")
    ratio: FloatArray = stream.reference_ratio(alpha)
    return ratio
