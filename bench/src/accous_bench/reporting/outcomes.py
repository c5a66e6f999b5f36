"""The numbers of a run that the report uses: one `Outcome` per row of the benchmark, without its curves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from accous.exceptions import DataError

__all__ = ["MEASURES", "MIXED_PROTOCOL", "CellKey", "Outcome", "cell_key", "latest_outcomes", "outcome_from_row"]

MIXED_PROTOCOL = "mixed"
"""Runs before there was a choice: one-step contenders learned from a batch before they predicted it, others after."""

# Number of digits to keep, so that a report from rows and one from a file of aggregates are the same.
MEASURES = {
    "error": 6,
    "risk": 6,
    "estimator_loss": 4,
    "ratio_error": 4,
    "effective_sample_size": 4,
    "ratio_regret": 6,
    "seconds": 3,
    "seconds_per_round": 3,
    "cpu_seconds": 3,
}


class CellKey(NamedTuple):
    """What all contenders of a cell have in common; contenders are compared within a cell."""

    dataset: str
    n_reference: int
    batch_size: int
    shift: str
    protocol: str


@dataclass(frozen=True)
class Outcome:
    """The result of one contender on one stream.

    Attributes
    ----------
    key : CellKey
    contender : str
    seed : int
    n_rounds : int
        Requested number of rounds; a table in order of time may have had fewer.
    n_played : int
        Number of rounds that the stream had; 0 if unknown.
    n_predicted : int
        Number of rounds that the contender played: fewer if it keeps nothing and played a sample of them.
    is_done : bool
    reason : str or None
        Why the run failed.
    error, risk, estimator_loss, ratio_error, effective_sample_size, ratio_regret, seconds, \
            seconds_per_round, cpu_seconds : float or None
        As in the benchmark's rows; None if unknown.
    spec : str
        The specification the run belongs to.
    finished : str
        Time of completion, as ISO 8601.
    """

    key: CellKey
    contender: str
    seed: int
    n_rounds: int
    n_played: int
    n_predicted: int
    is_done: bool
    reason: str | None
    error: float | None
    risk: float | None
    estimator_loss: float | None
    ratio_error: float | None
    effective_sample_size: float | None
    ratio_regret: float | None
    seconds: float | None
    seconds_per_round: float | None
    cpu_seconds: float | None
    spec: str
    finished: str


def cell_key(row: Mapping[str, Any]) -> CellKey:
    """The cell that a row of the benchmark belongs to."""
    return CellKey(
        dataset=str(row["dataset"]),
        n_reference=int(row.get("n_reference") or 0),
        batch_size=int(row["batch_size"]),
        shift=str(row["shift"]),
        protocol=str(row.get("protocol") or MIXED_PROTOCOL),
    )


def outcome_from_row(row: Mapping[str, Any]) -> Outcome:
    """Read a row of the benchmark; raise a DataError if it lacks the fields that identify a run."""
    try:
        key = cell_key(row)
        contender, seed = str(row["contender"]), int(row["seed"])
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"A benchmark row has no usable dataset, shift, batch_size, contender or seed: {error}."
        ) from None
    measures = {name: _number(row.get(name), n_digits) for name, n_digits in MEASURES.items()}
    is_done, n_rounds = row.get("status") == "done", int(row.get("n_rounds") or 0)
    n_played = int(row.get("n_played") or math.ceil((row.get("n_rows") or 0) / key.batch_size))
    return Outcome(
        key=key,
        contender=contender,
        seed=seed,
        n_rounds=n_rounds,
        n_played=n_played,
        n_predicted=int(row.get("n_predicted") or n_played),
        is_done=is_done,
        reason=None if is_done else str(row.get("reason") or "no reason given"),
        spec=str(row.get("spec") or ""),
        finished=str(row.get("finished") or ""),
        **measures,
    )


def _number(value: Any, n_digits: int) -> float | None:
    """Return a finite number rounded to this many digits, or None for NaN, infinity and null."""
    if value is None:
        return None
    number = float(value)
    return float(f"{number:.{n_digits}g}") if math.isfinite(number) else None


def latest_outcomes(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Keep one run of each contender, seed and length in a cell: a finished one if there is one, then the latest."""
    kept: dict[tuple[CellKey, str, int, int], Outcome] = {}
    for outcome in outcomes:
        place = (outcome.key, outcome.contender, outcome.seed, outcome.n_rounds)
        before = kept.get(place)
        if before is None or (outcome.is_done, outcome.finished) >= (before.is_done, before.finished):
            kept[place] = outcome
    return list(kept.values())
