"""Candidates that the user gives to the pool: ratio estimators that learn in every round, and functions of the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from accous.arrays import FloatArray
from accous.exceptions import CheckpointError, ParameterError
from accous.ratio.base import RatioEstimator
from accous.validation import count_rows

__all__ = ["Candidates", "check_candidates", "resume_candidates", "start_candidates"]

Member = RatioEstimator | Callable[[Any], Any]

_SMALLEST_MEAN = 1e-12


@dataclass(frozen=True, slots=True)
class Candidates:
    """The given candidates after a round; the next round makes others and does not change these.

    Attributes
    ----------
    members : tuple
        Fitted ratio estimators, and functions.
    max_ratio : float
        Larger ratios count as this value.
    means : array of shape (n_given,)
        Mean of each ratio over the reference.
    reference_ratios : array of shape (n_given, n_reference)
        The ratios of the reference, divided by these means.
    """

    members: tuple[Member, ...]
    max_ratio: float
    means: FloatArray
    reference_ratios: FloatArray

    def ratios(self, X: Any) -> FloatArray:
        """Return the ratios of some rows, (n_given, n_rows), with mean 1 over the reference."""
        found = np.empty((len(self.members), count_rows(X)))
        for number, (member, mean) in enumerate(zip(self.members, self.means.tolist(), strict=True)):
            found[number] = _scaled(_ratios_of(number, member, X, self.max_ratio), mean)
        return found

    def after_round(self, X: Any) -> Candidates:
        """Return the candidates after a round: the estimators have learned from the rows, functions stay."""
        members, means, ratios = list(self.members), self.means.copy(), self.reference_ratios.copy()
        for number, member in enumerate(self.members):
            if isinstance(member, RatioEstimator):
                # Estimators replace what they have learned and never modify it, so a shallow copy learns independently.
                members[number] = learned = copy(member)
                learned.play(learned.read(X))
                means[number], ratios[number] = _on_reference(number, learned, None, self.max_ratio)
        return Candidates(tuple(members), self.max_ratio, means, ratios)

    def on_reference(self, rows: Any) -> Candidates:
        """Return candidates that go on with another reference."""
        members = [each.on_reference(rows) if isinstance(each, RatioEstimator) else each for each in self.members]
        return _measured(members, rows, self.max_ratio)

    def state_to_plain(self) -> list[Any]:
        """Return what each candidate has learned; nothing for a function."""
        return [each.state_to_plain() if isinstance(each, RatioEstimator) else {} for each in self.members]


def check_candidates(candidates: Any) -> None:
    """Raise a ParameterError unless this is None or a list of ratio estimators and functions."""
    if candidates is not None and not isinstance(candidates, (list, tuple)):
        raise ParameterError(f"candidates must be a list of ratio estimators and functions, got {candidates!r}.")
    for number, each in enumerate(candidates or ()):
        if isinstance(each, type):
            raise ParameterError(f"candidates[{number}] is a class: pass an instance, {each.__name__}().")
        if not isinstance(each, RatioEstimator) and not callable(each):
            raise ParameterError(f"candidates[{number}] must be a ratio estimator or a function of rows, got {each!r}.")


def start_candidates(candidates: Iterable[Any] | None, rows: Any, max_ratio: float) -> Candidates:
    """Return the candidates before the first round: estimators are cloned and fitted on the reference."""
    members = [clone(each).fit(rows) if isinstance(each, RatioEstimator) else each for each in candidates or ()]
    return _measured(members, rows, max_ratio)


def resume_candidates(candidates: Iterable[Any] | None, plain: list[Any], rows: Any, max_ratio: float) -> Candidates:
    """Return the candidates whose ``state_to_plain`` this is, on the same reference."""
    members = [clone(each) if isinstance(each, RatioEstimator) else each for each in candidates or ()]
    if len(members) != len(plain):
        raise CheckpointError(
            f"The saved pool has {len(plain)} candidates but the parameter candidates has {len(members)}: it was set "
            "after fit. Set it back, and save the model again."
        )
    for member, state in zip(members, plain, strict=True):
        if isinstance(member, RatioEstimator):
            member.resume(state, rows)
    return _measured(members, rows, max_ratio)


def _measured(members: list[Member], rows: Any, max_ratio: float) -> Candidates:
    """Return candidates with their means and ratios over the reference."""
    found = [_on_reference(number, member, rows, max_ratio) for number, member in enumerate(members)]
    ratios = np.array([each for _, each in found]).reshape(len(found), count_rows(rows))
    return Candidates(tuple(members), max_ratio, np.array([mean for mean, _ in found]), ratios)


def _on_reference(number: int, member: Member, rows: Any, max_ratio: float) -> tuple[float, FloatArray]:
    if isinstance(member, RatioEstimator):
        ratios = _checked(number, member.reference_ratio_, len(member.reference_ratio_), max_ratio)
    else:
        ratios = _ratios_of(number, member, rows, max_ratio)
    mean = float(ratios.mean())
    return mean, _scaled(ratios, mean)


def _ratios_of(number: int, member: Member, X: Any, max_ratio: float) -> FloatArray:
    ratios = member.predict_ratio(X) if isinstance(member, RatioEstimator) else member(X)
    return _checked(number, ratios, count_rows(X), max_ratio)


def _checked(number: int, ratios: Any, n_rows: int, max_ratio: float) -> FloatArray:
    """Return ratios cut at ``max_ratio``, or raise an error that names the candidate."""
    found = np.asarray(ratios, dtype=np.float64)
    if found.shape != (n_rows,):
        raise ParameterError(
            f"candidates[{number}] returned the shape {found.shape} for {n_rows} rows: return one ratio a row."
        )
    is_bad = ~((found >= 0.0) & np.isfinite(found))
    if is_bad.any():
        row = int(np.argmax(is_bad))
        raise ParameterError(
            f"candidates[{number}] returned {found[row]} for row {row}: return a finite ratio that is not negative."
        )
    return np.minimum(found, max_ratio)


def _scaled(ratios: FloatArray, mean: float) -> FloatArray:
    """Return ratios divided by their mean over the reference; 1 where that is zero, which says nothing about rows."""
    return ratios / mean if mean > _SMALLEST_MEAN else np.ones(len(ratios))
