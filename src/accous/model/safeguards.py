"""What limits harm: the veto of the fixed model, how strict it is, and shrunk weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray
from accous.core.kernels_weights import effective_rows
from accous.core.pool import Tempered, start_tempered
from accous.diagnostics.evidence import Evidence
from accous.diagnostics.losses import LossScale, effective_sample_size, loss_difference, mean_and_error
from accous.model.predictors import WeightedErm
from accous.model.tasks import Task
from accous.ratio.base import RatioEstimator
from accous.threads import one_blas_thread

# --- The guard: whether the adapted predictor may make the predictions, given a backtest


ADAPTATIONS = ("auto", "always", "never")
# Chosen on half of the streams in docs/trust.md and checked on the other half.
LARGEST_LOSS = 0.002
QUIET_DRIFT = 0.08
VETO_STANDARD_ERRORS = 1.5
GAIN_STANDARD_ERRORS = 2.0


@dataclass(frozen=True)
class Guard:
    """When the fixed predictor makes the predictions in place of the adapted one.

    Attributes
    ----------
    name : {"free", "lenient", "even", "strict", "off"}
    sentence : str
        Why, in one sentence.
    """

    name: str
    sentence: str

    def holds(self, excess: float, standard_error: float) -> bool:
        """Whether to hold the adapted predictor back after a comparison with the fixed one.

        Parameters
        ----------
        excess, standard_error : float
            Weighted, cross-fitted error of the adapted predictor minus that of the fixed one; NaN if unknown.
        """
        if self.name == "free":
            return False
        if self.name == "lenient":
            return excess > VETO_STANDARD_ERRORS * standard_error
        if self.name == "even":
            return not excess <= 0.0
        return self.name == "off" or not excess < -GAIN_STANDARD_ERRORS * standard_error

    @property
    def starts_held(self) -> bool:
        """Whether the fixed predictor makes the predictions until a comparison says otherwise."""
        return self.holds(float("nan"), float("nan"))


# Departs from the paper: it adapts in every round, without any safeguard. That is "free".
FREE = Guard("free", "Adaptation is not held back.")
LENIENT = Guard(
    "lenient",
    "The adapted model predicts unless it is clearly worse than the fixed model on the weighted reference.",
)
EVEN = Guard("even", "The adapted model predicts while it is no worse than the fixed model on the weighted reference.")
_STRICT = "so the adapted model predicts only while it is clearly better than the fixed one on the weighted reference."
STRICT = Guard("strict", f"Rows of the reference differ from those before them, {_STRICT}")
UNREPLAYED = Guard("strict", f"No replay of the reference could judge its gain, {_STRICT}")
OFF = Guard("off", "The fixed model predicts, because the backtest does not support adaptation.")
NEVER = Guard("off", "The fixed model predicts, because adaptation is off.")


def choose_guard(
    evidence: Evidence | None, adaptation: str, *, may_matter: bool = False, has_trees: bool = False
) -> Guard:
    """Choose the guard.

    With "auto" it depends on the backtest. It is lenient without one, or where the reference is quiet (drift below
    0.08); boosted trees have less to gain, and without a backtest it is even for them. Where the reference drifts, or
    may have an order that was not replayed, it is strict. It is off where the reference drifts and adaptation cost more
    than 0.2 points.

    Parameters
    ----------
    evidence : Evidence, optional
        None without a backtest.
    adaptation : {"auto", "always", "never"}
    may_matter : bool
        Whether the rows have an order in time, or nearly showed one, without evidence.
    has_trees : bool
        Whether boosted trees take part in the prediction.
    """
    if adaptation != "auto":
        return FREE if adaptation == "always" else NEVER
    if evidence is None:
        return UNREPLAYED if may_matter else EVEN if has_trees else LENIENT
    if evidence.drift < QUIET_DRIFT:
        return LENIENT
    return OFF if evidence.gain > LARGEST_LOSS else STRICT


# --- Shrinkage of the weights: the fewer effective rows the weights leave, the more the fit also counts the
#     others


STRENGTHS = (12.0, 48.0, 192.0)
FIRST_STRENGTH = STRENGTHS[0]
# With more effective rows the strength hardly matters.
_MOST_EFFECTIVE_ROWS = 400.0
# With fewer, weighting harms more often than it helps, and no comparison can tell.
_FEW_EFFECTIVE_ROWS = 60.0


class Fit(NamedTuple):
    """A predictor, the weights it was fitted with, and the round of that fit."""

    estimator: Any
    weights: FloatArray
    n_refits: int
    last_refit: int


def shrink(weights: FloatArray, base: FloatArray, strength: float, n_effective: float | None = None) -> FloatArray:
    """Return the weights moved towards the base weights.

    Examples
    --------
    >>> import numpy as np
    >>> from accous.model.safeguards import shrink
    >>> shrink(np.array([2.0, 0.0, 2.0, 0.0]), np.ones(4), 2.0).tolist()
    [1.5, 0.5, 1.5, 0.5]
    """
    n_effective = effective_rows(weights) if n_effective is None else n_effective
    share = n_effective / (n_effective + strength)
    return share * weights + (1.0 - share) * base


def is_choice_due(erm: WeightedErm, weights: FloatArray) -> bool:
    """Whether the strength matters and can be chosen at the price of a few rounds."""
    return erm.is_quick_to_cross_fit and effective_sample_size(weights) < _MOST_EFFECTIVE_ROWS


def choose_strength(
    erm: WeightedErm,
    task: Task,
    weights: FloatArray,
    base: FloatArray,
    fitted: tuple[float, Fit],
    this_round: int,
) -> tuple[float, Fit, NDArray[Any]] | None:
    """Return the strength to use, the fit with it, and its answers for rows left out; None with too few rows.

    Parameters
    ----------
    erm : WeightedErm
    task : Task
    weights, base : arrays of shape (n_reference,)
        Current importance weights, and base weights.
    fitted : tuple
        The strength in use, and the latest fit.
    this_round : int
    """
    current, latest = fitted
    fits, losses, n_effective = [], [], effective_rows(weights)
    for strength in STRENGTHS:
        is_fresh = strength == current and latest.last_refit == this_round
        fit = latest if is_fresh else _refit(erm, shrink(weights, base, strength, n_effective), latest, this_round)
        found = task.held_out(erm, fit.weights, fit.estimator)
        if found is None:
            return None
        fits.append((strength, fit, found[0]))
        losses.append(found[1])
    return fits[_choose(losses, weights, n_effective)]


def _choose(losses: list[FloatArray], weights: FloatArray, n_effective: float) -> int:
    """Return the number of the strength to use, given the losses of the rows with each."""
    if n_effective >= _FEW_EFFECTIVE_ROWS:
        chosen = 0
        for number in range(1, len(losses)):
            gain, standard_error = mean_and_error(losses[chosen] - losses[number], weights)
            chosen = number if gain > standard_error else chosen
        return chosen
    best = chosen = int(np.argmin([mean_and_error(each, weights)[0] for each in losses]))
    for number in range(best + 1, len(losses)):
        excess, standard_error = mean_and_error(losses[number] - losses[best], weights)
        chosen = number if excess <= standard_error else chosen
    return chosen


def _refit(erm: WeightedErm, weights: FloatArray, latest: Fit, this_round: int) -> Fit:
    # A round counts as one refit, however often it fits.
    n_refits = latest.n_refits + (latest.last_refit != this_round)
    return Fit(erm.fit(weights, latest.estimator), weights, n_refits, this_round)


# --- The safeguards: hold the adaptation back while past batches or the reference's labels are evidence against
#     it


class FixedModel:
    """The fixed predictor, which never adapts, and its cross-fitted errors; both are computed on first use."""

    def __init__(
        self,
        erm: WeightedErm,
        weights: FloatArray,
        task: Task,
        estimator: Any = None,
        errors: dict[str, NDArray[Any] | None] | None = None,
    ) -> None:
        self._erm, self._weights, self._task = erm, weights, task
        self._estimator = estimator
        self._errors: dict[str, NDArray[Any] | None] = dict(errors or {})

    @cached_property
    def estimator(self) -> Any:
        """The predictor itself."""
        if self._estimator is not None:
            return self._estimator
        with one_blas_thread():
            return self._erm.fit(self._weights, None)

    def errors(self, *, is_quick: bool = False) -> NDArray[Any] | None:
        """Error of each reference row by a fit without it; None if there are too few rows, or too few of a class."""
        name = "quick" if is_quick else "all"
        if name not in self._errors:
            answers = self._erm.cross_fitted(self._weights, self.estimator, is_quick=is_quick)
            self._errors[name] = None if answers is None else self._task.errors(answers)
        return self._errors[name]

    def scores(self) -> FloatArray | None:
        """Score of each reference row by a fit without it, for sets of classes; None as for the errors."""
        if "scores" not in self._errors:
            self._errors["scores"] = self._task.set_scores(self._erm, self._weights, self.estimator, is_quick=False)
        return self._errors["scores"]

    def prepare(self) -> None:
        """Compute now what reading needs, where it takes fits that are slow."""
        if self._erm.is_slow_to_cross_fit:
            self.errors()
            self.scores()

    @property
    def known_errors(self) -> dict[str, NDArray[Any] | None]:
        """The errors and scores that have been computed so far, for files."""
        return self._errors

    @cached_property
    def scale(self) -> LossScale:
        """The scale of the losses, by those of this predictor."""
        with one_blas_thread():
            errors = self.errors()
        return self._task.scale(None if errors is None else self._task.losses(errors), self._weights)


@dataclass(frozen=True, slots=True)
class Veto:
    """Result of the last comparison of the adapted and the fixed predictor.

    Attributes
    ----------
    is_held : bool
        Whether the fixed predictor makes the predictions.
    excess, standard_error : float
        Weighted loss of the adapted predictor minus that of the fixed one, and its standard error; NaN before the
        first comparison.
    n_rounds, n_refits : int
        Round and number of refits at that comparison.
    """

    is_held: bool
    excess: float
    standard_error: float
    n_rounds: int
    n_refits: int


@dataclass(frozen=True, slots=True)
class Check:
    """The last comparison of the adapted and the fixed predictor.

    Attributes
    ----------
    veto : Veto
        What follows from it.
    strength : float
        How far weights are shrunk for a fit; see `shrink`.
    weights : array of shape (n_reference,) or None
        Weights at that time; None before the first comparison, and since a round with nothing to adapt to.
    answers : array of shape (n_reference,), optional
        What the adapted predictor of that time answered for each row when fitted without it. Kept where such fits are
        slow, so that the risk can be read at once.
    scores : array of shape (n_reference,), optional
        Of those fits, for sets of classes.
    """

    veto: Veto
    strength: float
    weights: FloatArray | None
    answers: NDArray[Any] | None = None
    scores: FloatArray | None = None


@dataclass(frozen=True, slots=True)
class Safeguards:
    """The state of all safeguards.

    Attributes
    ----------
    tempered : Tempered
        Holds back a ratio that has no pool of its own.
    share : float
        How far the ratio counts; 0 means that there is nothing to adapt to.
    check : Check
    """

    tempered: Tempered
    share: float
    check: Check

    @property
    def veto(self) -> Veto:
        """Whether the fixed predictor makes the predictions, and why."""
        return self.check.veto


def start_safeguards(ratio: RatioEstimator, guard: Guard = LENIENT) -> Safeguards:
    """Return the state before the first round: the guard's first veto, and nothing to adapt to yet."""
    veto = Veto(guard.starts_held, float("nan"), float("nan"), 0, 0)
    share = 0.0 if ratio.keeps_record else 1.0
    return Safeguards(start_tempered(), share, Check(veto, FIRST_STRENGTH, None))


def compare(fixed: FixedModel, task: Task, weights: FloatArray, answers: NDArray[Any] | None) -> tuple[float, float]:
    """Return the weighted loss of the adapted minus the fixed predictor, and its standard error; NaN if unknown.

    Parameters
    ----------
    fixed : FixedModel
    task : Task
    weights : array of shape (n_reference,)
        Current importance weights.
    answers : array of shape (n_reference,) or None
        What the adapted predictor answers for each row when fitted without it, by quick fits; None if unknown.
    """
    errors = fixed.errors(is_quick=True)
    if answers is None or errors is None:
        return float("nan"), float("nan")
    return loss_difference(task.losses(task.errors(answers)), task.losses(errors), weights)


def next_veto(guard: Guard, excess: float, standard_error: float, n_rounds: int, n_refits: int) -> Veto:
    """Hold the adapted predictor back if the guard says so."""
    return Veto(guard.holds(excess, standard_error), excess, standard_error, n_rounds, n_refits)
