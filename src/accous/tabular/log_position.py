"""How much of a log of batches a model contains, saved with the model so that no batch counts twice."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LogPosition"]


@dataclass(frozen=True)
class LogPosition:
    """A place in a log.

    Attributes
    ----------
    log : str
        The log's own name, drawn at random: another model in the same folder has another log.
    n_records : int
        The records that the model has carried out, counted from the first one that the log ever had.
    """

    log: str
    n_records: int
