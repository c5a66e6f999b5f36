"""The ids that predictions carry: a label that arrives late brings back what was predicted, and when.

An id needs no memory on the server. It holds where the prediction was made, the round and the prediction itself, with a
checksum that catches a mistyped id and one of another model. It is not a secret.
"""

from __future__ import annotations

import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

__all__ = ["MadePrediction", "make_ids", "read_id"]


class MadePrediction(NamedTuple):
    """What was predicted, as text, and after how many rounds."""

    prediction: str
    round: int


def make_ids(origin: str, number: int, predictions: Sequence[Any], salt: int) -> list[str]:
    """Return an id for each prediction of a request.

    Parameters
    ----------
    origin : str
        What no other request has; letters, digits and minus only.
    number : int
        The round.
    predictions : sequence
    salt : int
        Of the model.

    Examples
    --------
    >>> ids = make_ids("s1", 7, ["yes", "no"], 0)
    >>> read_id(ids[1], 0)
    MadePrediction(prediction='no', round=7)
    >>> read_id(ids[1], 1) is None
    True
    """
    ids = []
    for row, prediction in enumerate(predictions):
        content = f"{origin}.{row}.{number}.{_encoded(str(prediction))}"
        ids.append(f"{content}.{zlib.crc32(content.encode(), salt):08x}")
    return ids


@lru_cache(maxsize=1024)
def _encoded(text: str) -> str:
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_id(text: str, salt: int) -> MadePrediction | None:
    """Return what an id says; None if it is not an id of this model."""
    content, _, check = text.rpartition(".")
    if f"{zlib.crc32(content.encode('utf-8', 'replace'), salt):08x}" != check:
        return None
    try:
        _, _, number, encoded = content.split(".")
        prediction = urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
        return MadePrediction(prediction, int(number))
    except (ValueError, msgspec.DecodeError):
        return None
