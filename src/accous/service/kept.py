"""What the service keeps of the past: answers by idempotency key, and predictions by the client's own keys.

Both are bounded: the oldest leave first. They are saved with the model, and brought up to date from the log.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from pathlib import Path
from typing import Any

import msgspec

from accous.checkpoint.files import write_atomically
from accous.exceptions import CheckpointError
from accous.service.prediction_ids import MadePrediction

__all__ = ["Kept", "KeptAnswer", "load_kept"]

_MAGIC = b"accous kept answers 1\n"


class KeptAnswer(msgspec.Struct, array_like=True, frozen=True):
    """The first answer to a request.

    Attributes
    ----------
    digest : bytes
        Of the request.
    status : int
    body : bytes
    """

    digest: bytes
    status: int
    body: bytes


class _Content(msgspec.Struct, array_like=True):
    log: str
    answers: list[tuple[str, KeptAnswer]]
    predictions: list[tuple[str, str, int]]
    measured: list[list[float]] = []


class Kept:
    """Answers and predictions that are kept.

    Parameters
    ----------
    most_answers, most_bytes, most_predictions : int
        How many answers, how many bytes of them, and how many predictions are kept.

    Attributes
    ----------
    measured : list of (round, error, low, high)
        What late labels had measured by some rounds, for the page.
    """

    def __init__(
        self, most_answers: int = 100_000, most_bytes: int = 16 << 20, most_predictions: int = 200_000
    ) -> None:
        self._most_answers, self._most_bytes, self._most_predictions = most_answers, most_bytes, most_predictions
        self._answers: OrderedDict[str, KeptAnswer] = OrderedDict()
        self._predictions: OrderedDict[str, MadePrediction] = OrderedDict()
        self._n_bytes = 0
        self.measured: list[list[float]] = []

    def answer(self, key: str) -> KeptAnswer | None:
        """Return the first answer to the request with this key."""
        return self._answers.get(key)

    def prediction(self, key: str) -> MadePrediction | None:
        """Return the last prediction for the row that the client calls so."""
        return self._predictions.get(key)

    def keep_answer(self, key: str, answer: KeptAnswer) -> None:
        """Keep an answer, and drop the oldest if there are too many."""
        before = self._answers.pop(key, None)
        self._n_bytes += len(answer.body) - (len(before.body) if before is not None else 0)
        self._answers[key] = answer
        while len(self._answers) > self._most_answers or (self._n_bytes > self._most_bytes and len(self._answers) > 1):
            _, oldest = self._answers.popitem(last=False)
            self._n_bytes -= len(oldest.body)

    def keep_predictions(self, keys: list[str], predictions: list[Any], number: int) -> None:
        """Keep what was predicted for rows that the client has a key for."""
        for key, prediction in zip(keys, predictions, strict=True):
            self._predictions.pop(key, None)
            self._predictions[key] = MadePrediction(str(prediction), number)
        while len(self._predictions) > self._most_predictions:
            self._predictions.popitem(last=False)

    def save(self, path: Path, log: str) -> None:
        """Write everything to a file, in one step."""
        predictions = [(key, *each) for key, each in self._predictions.items()]
        content = msgspec.msgpack.encode(_Content(log, list(self._answers.items()), predictions, self.measured))
        head = _MAGIC + hashlib.sha256(content).digest()
        write_atomically(path.parent, lambda stream: (stream.write(head), stream.write(content)), name=path.name)


def load_kept(path: Path, log: str, **most: int) -> Kept:
    """Return what was saved; nothing, if there is no file or it belongs to another log.

    Raises
    ------
    CheckpointError
        If the file is damaged: without it, a repeated request could count twice.
    """
    kept = Kept(**most)
    if not path.is_file():
        return kept
    content = path.read_bytes()
    body = content[len(_MAGIC) + 32 :]
    if content[: len(_MAGIC) + 32] != _MAGIC + hashlib.sha256(body).digest():
        raise CheckpointError(f"{path} is damaged: restore the folder from a copy.")
    found = msgspec.msgpack.decode(body, type=_Content)
    if found.log == log:
        for key, answer in found.answers:
            kept.keep_answer(key, answer)
        for key, prediction, number in found.predictions:
            kept.keep_predictions([key], [prediction], number)
        kept.measured = found.measured
    return kept
