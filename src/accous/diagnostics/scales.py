"""What mean losses are compared with: points of errors, or shares of a loss of numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

ERROR = "error"
_LOSSES_IN_ONE = 4.0
# Of the target's spread. A model may be perfect on the reference.
_SMALLEST_SHARE = 1e-6
# Of a constant target, whose spread is 0: shares of it can still be computed.
_SMALLEST = 1e-300
_HUGE = 1e7


@dataclass(frozen=True)
class LossScale:
    """What mean losses are compared with.

    Attributes
    ----------
    loss : str
        "error" for classes, or the name of a loss of numbers, such as "absolute".
    one : float
        The loss that counts as 1, that is, as 100 points.

    Examples
    --------
    >>> ERRORS.shown(0.125), ERRORS.difference(0.02)
    ('12.5%', '2.0 points')
    >>> minutes = LossScale("absolute", one=20.0)
    >>> minutes.name, minutes.shown(6.04), minutes.difference(1.0)
    ('mean absolute error', '6.04', '1')
    >>> minutes.shown(1087.4)
    '1,087'
    """

    loss: str = ERROR
    one: float = 1.0

    @property
    def is_of_classes(self) -> bool:
        """Whether the loss is the error of classes."""
        return self.loss == ERROR

    @property
    def largest(self) -> float:
        """The largest loss there is."""
        return 1.0 if self.is_of_classes else math.inf

    @property
    def name(self) -> str:
        """What the mean loss is called where it is shown."""
        names = {ERROR: ERROR, "absolute": "mean absolute error", "squared": "root mean squared error"}
        return names.get(self.loss, f"mean {self.loss} loss")

    def in_unit(self, loss: float) -> float:
        """Return a mean loss as it is shown: that of squares as its root, in the unit of the target."""
        return math.sqrt(max(0.0, loss)) if self.loss == "squared" else loss

    def shown(self, loss: float) -> str:
        """Return a mean loss in words."""
        return f"{loss:.1%}" if self.is_of_classes else _three_digits(self.in_unit(loss))

    def difference(self, losses: float, digits: int = 1) -> str:
        """Return the size of a difference of mean losses in words; of squared losses, as a share of the reference's."""
        if self.is_of_classes:
            return f"{100.0 * losses:.{digits}f} points"
        if self.loss == "squared":
            return f"{losses * _LOSSES_IN_ONE / self.one:.0%} of the mean squared error on the reference"
        return _three_digits(losses)

    def variance(self, loss: float, squared_losses: float) -> float:
        """Return the variance of the loss of one row, given the means of the losses and of their squares."""
        if self.is_of_classes:
            return loss * (1.0 - loss)
        return max(0.0, squared_losses - loss**2)


def _three_digits(number: float) -> str:
    """Return a number with three digits at least, and without an exponent if it is neither tiny nor huge."""
    return f"{number:,.0f}" if 999.5 <= abs(number) < _HUGE else f"{number:.3g}"


ERRORS = LossScale()


def scale_of_numbers(loss: str, of_reference: float, of_constant: float) -> LossScale:
    """Return the scale of a loss of numbers.

    Parameters
    ----------
    loss : str
    of_reference : float
        Mean loss of the fixed model on the reference, from fits without the row; NaN if it is not known.
    of_constant : float
        Mean loss of the best constant there, which is the spread of the target.
    """
    smallest = max(_SMALLEST_SHARE * of_constant, _SMALLEST)
    known = of_constant if math.isnan(of_reference) else of_reference
    return LossScale(loss, _LOSSES_IN_ONE * max(known, smallest))
