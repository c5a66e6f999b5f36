"""Predictions as answers: the values that ``accous adapt`` writes, in JSON."""

from __future__ import annotations

from typing import Any

import numpy as np

from accous.exceptions import AccousError
from accous.service.batches import Batch
from accous.service.prediction_ids import make_ids
from accous.service.refusals import Refusal
from accous.table.kinds import ClassKind, LabelKind, NumberKind, kind_of
from accous.table.model import PlayedRound, TableModel

__all__ = ["plain_predictions", "prediction_content", "prediction_sets"]

_DECIMALS = 6


def plain_predictions(kind: LabelKind, played: PlayedRound) -> list[Any]:
    """Return the prediction of each row."""
    return list(kind.predictions(kind.answers(played.scores)).tolist()) if len(played.ratios) else []


def prediction_content(
    table_model: TableModel, played: PlayedRound, batch: Batch, *, origin: str, salt: int
) -> dict[str, Any]:
    """Return the answer to a request but for prediction sets, ready for JSON.

    Parameters
    ----------
    table_model : TableModel
    played : PlayedRound
    batch : Batch
        With the parts of the answer that the client wants.
    origin : str
        What the ids of this request begin with.
    salt : int
        Of the ids.
    """
    kind = table_model.kind
    predictions = plain_predictions(kind, played)
    content: dict[str, Any] = {"round": played.number, "predictions": predictions}
    if "ids" in batch.include:
        content["ids"] = make_ids(origin, played.number, predictions, salt)
    if "probabilities" in batch.include and isinstance(kind, ClassKind):
        shares = np.round(kind.probabilities(played.scores), _DECIMALS) if predictions else np.empty((0, 0))
        content["classes"], content["probabilities"] = kind.names, shares.tolist()
    if predictions and isinstance(kind, NumberKind):
        shown = kind.shown(played.scores)
        content["intervals"] = [list(ends) for ends in zip(shown["low"], shown["high"], strict=True)]
    if "ratio" in batch.include:
        content["ratio"] = np.round(played.ratios, _DECIMALS).tolist()
    return content


def prediction_sets(model: Any, batch: Batch) -> list[list[Any]] | None:
    """Return the classes of each row's prediction set; None if the client does not want them.

    Parameters
    ----------
    model : AdaptiveClassifier or AdaptiveRegressor
        A copy that stays in one round.
    batch : Batch
    """
    if "sets" not in batch.include:
        return None
    if not isinstance(kind_of(model), ClassKind):
        raise Refusal(422, "no_sets", "The model predicts numbers, which have no prediction sets.")
    try:
        found = model.predict_set(batch.X, alpha=batch.alpha)
    except AccousError as error:
        raise Refusal(422, "no_sets", str(error)) from None
    classes = model.classes_.tolist()
    return [[classes[number] for number in np.flatnonzero(row)] for row in found]
