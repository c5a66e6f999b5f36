"""How the weight ``alpha_t`` of the second part ``D''`` moves over the rounds.

The four moving shifts are those of the paper's appendix "Omitted Details for Experiments", paragraph
"Continuous Covariate Shift Simulation". To add a shift, subclass `Shift` and write ``_alphas``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accous.exceptions import ParameterError
from accous.parameters import require_integer, require_number_in

Seed = int | np.random.SeedSequence | np.random.Generator | None


def _default_period(n_rounds: int) -> int:
    return max(1, round(math.sqrt(n_rounds)))


@dataclass(frozen=True)
class Shift(ABC):
    """Base of all shifts: a rule for the weight of ``D''`` in each round."""

    def alphas(self, n_rounds: int, random_state: Seed = None) -> NDArray[np.float64]:
        """Return ``alpha_1 .. alpha_T``, the weight of ``D''`` in each round.

        Parameters
        ----------
        n_rounds : int
            The number of rounds, T.
        random_state : None, int, SeedSequence or Generator, default=None
            The seed. Only random shifts use it. None gives different numbers in every call.

        Returns
        -------
        ndarray of shape (n_rounds,)
            Numbers in [0, 1]; entry ``t - 1`` belongs to round ``t``.
        """
        require_integer("n_rounds", n_rounds, at_least=1)
        try:
            generator = np.random.default_rng(random_state)
        except (TypeError, ValueError) as error:
            raise ParameterError(
                "random_state must be None, a non-negative integer, or a numpy SeedSequence or Generator, "
                f"got {random_state!r}."
            ) from error
        return self._alphas(np.arange(1, int(n_rounds) + 1), generator)

    @abstractmethod
    def _alphas(self, rounds: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.float64]:
        """Return alpha for ``rounds = 1 .. T``; the arguments have been checked."""


@dataclass(frozen=True)
class ConstantShift(Shift):
    """No drift: ``alpha_t = alpha`` in every round. For stationary streams; not in the paper.

    Parameters
    ----------
    alpha : float
        The weight of ``D''``, in [0, 1].

    Examples
    --------
    >>> ConstantShift(0.25).alphas(3)
    array([0.25, 0.25, 0.25])
    """

    alpha: float

    def __post_init__(self) -> None:
        require_number_in("alpha", self.alpha, 0, 1)

    def _alphas(self, rounds: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.float64]:
        return np.full(len(rounds), float(self.alpha))


@dataclass(frozen=True, kw_only=True)
class LinearShift(Shift):
    """A gradual move, the paper's ``Lin``: ``alpha_t = t / T``, or ``1 - t / T`` when reversed.

    The paper's appendix has t / T (the stream goes from ``D'`` to ``D''``), its main text 1 -> 0.

    Parameters
    ----------
    reverse : bool, default=False
        Go from ``D''`` to ``D'`` instead.

    Examples
    --------
    >>> LinearShift().alphas(4)
    array([0.25, 0.5 , 0.75, 1.  ])
    >>> LinearShift(reverse=True).alphas(4)
    array([0.75, 0.5 , 0.25, 0.  ])
    """

    reverse: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.reverse, bool | np.bool_):
            raise ParameterError(f"reverse must be True or False, got {self.reverse!r}.")

    def _alphas(self, rounds: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.float64]:
        # Departs from the paper: its text and appendix disagree on the direction, so you can choose it here.
        forward: NDArray[np.float64] = rounds / len(rounds)
        return 1.0 - forward if self.reverse else forward


@dataclass(frozen=True)
class SquareShift(Shift):
    """Sudden periodic switches, the paper's ``Squ``: ``alpha_t = 1 - (floor((t - 1) / M) mod 2)``.

    It starts at 1 and switches between 1 and 0 every M rounds. As in the paper's appendix, M is *half* the cycle
    of the wave, which repeats after 2 M rounds.

    Parameters
    ----------
    period : int, optional
        M, the rounds between two switches. None is ``max(1, round(sqrt(T)))``, one reading of the paper's
        ``Theta(sqrt(T))``.

    Examples
    --------
    >>> SquareShift(period=2).alphas(6)
    array([1., 1., 0., 0., 1., 1.])
    """

    period: int | None = None

    def __post_init__(self) -> None:
        if self.period is not None:
            require_integer("period", self.period, at_least=1)

    def _alphas(self, rounds: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.float64]:
        period = self.period or _default_period(len(rounds))
        n_switches = (rounds - 1) // period
        return (1 - n_switches % 2).astype(np.float64)


@dataclass(frozen=True)
class SineShift(Shift):
    """Smooth periodic waves, the paper's ``Sin``: ``alpha_t = sin(pi (t mod M) / M)``.

    The formula is that of the paper's appendix. The waves are half sines, so that alpha stays in [0, 1] and M
    is the whole cycle (in `SquareShift` it is half of one).

    Parameters
    ----------
    period : int, optional
        M, the rounds from one zero to the next. None is ``max(1, round(sqrt(T)))``, one reading of the
        paper's ``Theta(sqrt(T))``. With M = 1 alpha is always 0.

    Examples
    --------
    >>> SineShift(period=2).alphas(4)
    array([1., 0., 1., 0.])
    """

    period: int | None = None

    def __post_init__(self) -> None:
        if self.period is not None:
            require_integer("period", self.period, at_least=1)

    def _alphas(self, rounds: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.float64]:
        period = self.period or _default_period(len(rounds))
        waves: NDArray[np.float64] = np.sin(np.pi * (rounds % period) / period)
        return waves


@dataclass(frozen=True)
class BernoulliShift(Shift):
    """Sudden switches at random times, the paper's ``Ber``.

    ``alpha_1 = 1``; then, in each round, ``alpha_t = 1 - alpha_{t-1}`` with probability ``flip`` and
    ``alpha_t = alpha_{t-1}`` otherwise. A stretch lasts ``1 / flip`` rounds on average.

    Parameters
    ----------
    flip : float, optional
        The probability of a switch in each round, in [0, 1]. None is ``1 / sqrt(T)``.

    Notes
    -----
    The paper's appendix *keeps* alpha with probability ``Theta(1 / sqrt(T))``, which would switch in nearly
    every round. Its main text says that alpha *flips* with a certain probability. Here ``1 / sqrt(T)`` is the
    probability of a flip.

    Examples
    --------
    >>> BernoulliShift(flip=1.0).alphas(4)
    array([1., 0., 1., 0.])
    >>> BernoulliShift(flip=0.3).alphas(8, random_state=0)
    array([1., 0., 1., 0., 0., 0., 0., 0.])
    """

    flip: float | None = None

    def __post_init__(self) -> None:
        if self.flip is not None:
            require_number_in("flip", self.flip, 0, 1)

    def _alphas(self, rounds: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.float64]:
        # Departs from the paper: 1 / sqrt(T) is the probability of flipping, not of keeping; see the notes above.
        flip = 1 / math.sqrt(len(rounds)) if self.flip is None else self.flip
        is_flipped = generator.random(len(rounds)) < flip
        is_flipped[0] = False
        return (1 - np.cumsum(is_flipped) % 2).astype(np.float64)
