"""Which predictor ``--estimator auto`` takes: linear or boosting, by what the labelled reference shows.

If the reference has an order in time, each of four blocks of rows is predicted by fits on the rows before it, and the
reference is replayed with adaptation. The one with fewer errors is taken, but linear only if its lead is more than 1.5
standard errors of the differences between blocks. The reason is what an error costs: where inputs leave the range of
the reference, a line goes on rising and a tree does not, so a linear predictor that was taken by chance falls behind by
up to 78 points on real streams, and boosted trees by up to 12. One block that differs is a lead of one standard error,
however large it is. Without an order, both are cross-validated on random folds, and linear is taken unless boosting is
better by more than a standard error (docs/defaults.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from accous.arrays import FloatArray
from accous.model.backtest import Backtest
from accous.model.safeguards import LENIENT, choose_guard
from accous.tabular.named_estimators import BOOSTING, LINEAR

__all__ = ["AUTO", "CANDIDATES", "Choice", "Trial", "choose", "is_worth_comparing", "n_rows_to_compare"]

AUTO = "auto"
CANDIDATES = (LINEAR, BOOSTING)
FEWEST_ROWS = 500
_N_BLOCKS = 4
_CLEAR_LEAD = 1.5  # standard errors
# Rows times features times classes: with more, fitting both a dozen times takes too long, and a part has to do.
MOST_NUMBERS, ENOUGH_NUMBERS = 5_000_000, 1_000_000


@dataclass(frozen=True)
class Trial:
    """What a predictor did on the reference.

    Attributes
    ----------
    name : str
    losses : array of float, optional
        Of rows that it was not fitted on, the same rows for all: 1 where a class is wrong, or how far a number is off.
        None if there are too few.
    is_ordered : bool
        Whether these rows are in order of time.
    backtest : Backtest, optional
        Its replay; None without an order in time.
    """

    name: str
    losses: FloatArray | None
    is_ordered: bool
    backtest: Backtest | None

    @property
    def accuracy(self) -> float | None:
        """The cross-validated accuracy of classes."""
        return None if self.losses is None else float((1.0 - self.losses).mean())

    @property
    def error(self) -> float | None:
        """The cross-validated error, or mean absolute error."""
        return None if self.losses is None else float(self.losses.mean())

    @property
    def gain(self) -> float | None:
        """Error with adaptation minus error without, in the replays; None if nothing was replayed."""
        evidence = None if self.backtest is None else self.backtest.evidence
        return None if self.backtest is None or evidence is None else evidence.gain * self.backtest.scale.one

    @property
    def errors(self) -> tuple[float | None, float | None]:
        """Errors without and with adaptation."""
        if self.error is None:
            return None, None
        return self.error, None if self.gain is None else max(0.0, self.error + self.gain)

    @property
    def errors_of_blocks(self) -> list[float]:
        """Errors in blocks of time, less what adaptation saves if it is free to act.

        A strict guard lets little of the gain of a replay through, and none that can be counted on.
        """
        assert self.losses is not None
        saved = 0.0 if self.is_held_back else min(0.0, self.gain or 0.0)
        return [float(block.mean()) + saved for block in np.array_split(self.losses, _N_BLOCKS)]

    @property
    def is_held_back(self) -> bool:
        """Whether the replay asks for a guard that lets little of the gain of adaptation through."""
        evidence = None if self.backtest is None else self.backtest.evidence
        return self.backtest is not None and choose_guard(evidence, self.backtest.caution) is not LENIENT


@dataclass(frozen=True)
class Choice:
    """The predictor that was taken, and why.

    Attributes
    ----------
    name : str
    reason : str
        In one sentence.
    trials : tuple of Trial
        What was compared; empty if nothing was.
    """

    name: str
    reason: str
    trials: tuple[Trial, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the choice, ready for JSON."""
        compared = {trial.name: {"error": trial.error, "adapted_minus_fixed": trial.gain} for trial in self.trials}
        return {"reason": self.reason, "compared": compared}


def n_rows_to_compare(n_rows: int, n_features: int, n_classes: int) -> int:
    """Return on how many rows of a reference predictors are compared: on all, or on some thousands of a large one."""
    n_numbers = n_features * n_classes
    if n_rows * n_numbers <= MOST_NUMBERS:
        return n_rows
    return min(n_rows, max(FEWEST_ROWS, ENOUGH_NUMBERS // n_numbers))


def is_worth_comparing(n_rows: int, n_features: int, n_classes: int) -> str:
    """Return why a reference is too small or too wide to compare predictors on it; empty if it is not."""
    if n_rows < FEWEST_ROWS:
        return f"The reference has fewer than {FEWEST_ROWS} rows, too few to compare predictors."
    if FEWEST_ROWS * n_features * n_classes > MOST_NUMBERS:
        return "The reference has too many features and classes to compare predictors in reasonable time."
    return ""


def choose(linear: Trial, boosting: Trial) -> Choice:
    """Choose by what the trials showed."""
    trials = (linear, boosting)
    if linear.losses is None or boosting.losses is None:
        return Choice(LINEAR, "The reference has too few rows to compare predictors.", trials)
    if linear.is_ordered:
        name, reason = _choose_in_time(linear, boosting)
        return Choice(name, reason + _said_of_gains(trials, name), trials)
    gains = linear.losses - boosting.losses
    is_clear = gains.mean() > gains.std() / np.sqrt(len(gains))
    reason = "It is better by more than a standard error." if is_clear else "Boosting is not clearly better."
    return Choice(BOOSTING if is_clear else LINEAR, reason, trials)


def _choose_in_time(linear: Trial, boosting: Trial) -> tuple[str, str]:
    """Return the predictor to take for later rows, and why."""
    errors = np.array([linear.errors_of_blocks, boosting.errors_of_blocks])
    leads = errors[1] - errors[0]
    lead, noise = leads.mean(), leads.std(ddof=1) / np.sqrt(len(leads))
    if abs(lead) <= 1e-9 * errors.mean():
        return BOOSTING, "Neither is ahead on the reference, and boosting is the safer choice then."
    if lead < 0.0:
        return BOOSTING, "It is ahead on the reference."
    if lead > _CLEAR_LEAD * noise:
        return LINEAR, f"It is ahead, and by more than {_CLEAR_LEAD} standard errors between blocks of the reference."
    return BOOSTING, (
        f"Linear is ahead, but not by more than {_CLEAR_LEAD} standard errors between blocks of the reference: "
        "boosting is the safer choice then."
    )


def _said_of_gains(trials: tuple[Trial, ...], taken: str) -> str:
    """Say why a predictor was not taken although its error with adaptation is the smallest that is shown."""
    shown = {trial.name: min(error for error in trial.errors if error is not None) for trial in trials}
    smallest = min(shown, key=lambda name: (shown[name], name != taken))
    first = next(trial for trial in trials if trial.name == smallest)
    if smallest == taken or not first.is_held_back or (first.gain or 0.0) >= 0.0:
        return ""
    return f" What adaptation gained with {smallest} does not count: the guard would hold most of it back."
