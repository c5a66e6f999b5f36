"""Labelled rows: how the predictors did on them, and what is kept of them for the test of P(y | x)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from accous.arrays import BoolArray, FloatArray

__all__ = ["AuditRows", "JudgedRows"]


@dataclass(frozen=True, kw_only=True)
class JudgedRows:
    """Labelled rows and how the predictors did on them.

    Attributes
    ----------
    losses : array of shape (n_rows,)
        Of the predictor in use: 1 where it predicted the wrong class, or the loss of a predicted number.
    losses_fixed : array of shape (n_rows,), optional
        Of the fixed predictor; None if its predictions are not known.
    errors_fixed : array of shape (n_rows,), optional
        The errors that the losses of the fixed predictor come from: whether a class is wrong, or y minus a number.
    is_unseen : array of shape (n_rows,)
        Where the label is a class that the reference does not have; both predictors are wrong there.
    unseen_names : tuple of str
        The label of each of those rows.
    estimates : array of shape (n_rows, 3)
        Estimated error of the predictor in use, and its interval; NaN where it is not known.
    features : array of shape (n_rows, d), optional
        Features to audit the rows in; None if the rows themselves are not known.
    one : float
        The loss that counts as 1.
    is_inside : array of shape (n_rows,), optional
        Where a true number lay inside its prediction interval, 1 or 0; NaN where there was none.
    """

    losses: FloatArray
    losses_fixed: FloatArray | None
    errors_fixed: NDArray[Any] | None
    is_unseen: BoolArray
    unseen_names: tuple[str, ...]
    estimates: FloatArray
    features: FloatArray | None = None
    one: float = 1.0
    is_inside: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.losses)

    def part(self, is_in: BoolArray) -> JudgedRows:
        """Return some of the rows."""
        arrays = ("losses", "losses_fixed", "errors_fixed", "is_unseen", "estimates", "features", "is_inside")
        parts = {name: values[is_in] for name in arrays if (values := getattr(self, name)) is not None}
        named = zip(self.unseen_names, is_in[self.is_unseen].tolist(), strict=True)
        return replace(self, unseen_names=tuple(name for name, stays in named if stays), **parts)


@dataclass(frozen=True, kw_only=True)
class AuditRows:
    """Labelled rows that are kept for the test of P(y | x): their features, and the errors of the fixed predictor."""

    features: FloatArray
    errors_fixed: NDArray[Any]
    is_unseen: BoolArray

    def __len__(self) -> int:
        return len(self.features)

    def last(self, n_rows: int) -> AuditRows:
        """Return the last rows of these."""
        first = max(0, len(self) - n_rows)
        return AuditRows(
            features=self.features[first:], errors_fixed=self.errors_fixed[first:], is_unseen=self.is_unseen[first:]
        )
