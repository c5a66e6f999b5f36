"""What a replay of labelled history says: how far off estimates were, and what adaptation did."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from accous.arrays import FloatArray
from accous.diagnostics.losses import ERRORS, LEVEL, LossScale

LARGEST_UNEXPLAINED = 0.04
_COMPARED = ("error_fixed", "error_adapted", "estimate_fixed", "estimate_adapted")
_Z = NormalDist().inv_cdf(0.5 + LEVEL / 2.0)


@dataclass(frozen=True, kw_only=True)
class Look:
    """One comparison of estimates with the truth, after a block of replayed rows.

    Attributes
    ----------
    n_reference : int
        Rows that served as the reference.
    start, stop : int
        The block of rows, counted in order of time.
    error_fixed, error_adapted : float
        Measured errors on the block; mean losses if numbers are predicted.
    estimate_fixed, estimate_adapted : float
        Label-free estimates after the block.
    half_width_fixed, half_width_adapted : float
        Half-widths of their intervals, which account for sampling alone.
    drift : float
        Strength of the drift, from 0 to 1: ``max(0, 2 AUC - 1)`` of a classifier that tells recent rows from the
        reference. NaN after fewer than 50 rows.
    n_effective : float
        Rows of the block that the measured errors rest on: fewer than it has if its rows have different base weights.
        0 in looks that were saved before base weights counted.
    square_fixed, square_adapted : float
        Means of the squared losses on the block. NaN in looks that were saved without them.
    """

    n_reference: int
    start: int
    stop: int
    error_fixed: float
    error_adapted: float
    estimate_fixed: float
    estimate_adapted: float
    half_width_fixed: float
    half_width_adapted: float
    drift: float
    n_effective: float = 0.0
    square_fixed: float = float("nan")
    square_adapted: float = float("nan")


@dataclass(frozen=True, kw_only=True)
class Residuals:
    """How far the truth was from the estimates of one predictor, in shares of the loss that counts as 1.

    Attributes
    ----------
    mean : float
        Mean of truth minus estimate.
    shift : float
        By how much the truth exceeded the estimate on average, beyond what sampling explains.
    spread : float
        Root mean square of truth minus estimate around that shift, without the noise of the blocks.
    spread_down : float
        The same of negative residuals, where the estimate was too high.
    unexplained : float
        Root mean square of truth minus estimate beyond what sampling explains, of the blocks and of the estimate, by
        the lower end of one standard error: a few looks of a short reference are no proof.
    """

    mean: float
    shift: float
    spread: float
    spread_down: float
    unexplained: float


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a backtest showed.

    Attributes
    ----------
    n_looks : int
    fixed, adapted : Residuals
    drift : float
        Mean strength of the drift inside the reference, over the looks that have enough rows to measure it; 0 if none
        has.
    gain : float
        Mean error of the adapted minus that of the fixed predictor, in shares of the loss that counts as 1; below 0,
        adaptation helped.
    one : float, optional
        The loss that counts as 1. That of a model may differ: it is about another fit. None if it was not saved.
    """

    n_looks: int
    fixed: Residuals
    adapted: Residuals
    drift: float
    gain: float
    one: float | None = None


# Without a backtest nothing is known about drift of any strength: an interval grows with all the drift there is.
_NOTHING = Residuals(mean=0.0, shift=0.0, spread=0.0, spread_down=0.0, unexplained=0.0)
NO_EVIDENCE = Evidence(n_looks=0, fixed=_NOTHING, adapted=_NOTHING, drift=0.0, gain=0.0)


def measure_evidence(looks: Sequence[Look], n_reference: int, scale: LossScale = ERRORS) -> Evidence | None:
    """Summarise the looks of a backtest; None if no look has an estimate.

    Parameters
    ----------
    looks : sequence of Look
    n_reference : int
        Rows of the whole reference.
    scale : LossScale
    """
    known = [look for look in looks if all(math.isfinite(getattr(look, name)) for name in _COMPARED)]
    if not known:
        return None

    def column(name: str) -> FloatArray:
        return np.array([getattr(look, name) for look in known], dtype=np.float64)

    n_effective = column("n_effective")
    n_rows = np.where(n_effective > 0.0, n_effective, column("stop") - column("start"))
    fixed, adapted = (
        _residuals(
            truth=column(f"error_{name}") / scale.one,
            estimate=column(f"estimate_{name}") / scale.one,
            half_width=column(f"half_width_{name}") / scale.one,
            variance=_variances(column(f"error_{name}"), column(f"square_{name}"), scale),
            n_rows=n_rows,
            n_reference=n_reference,
            largest=scale.largest,
        )
        for name in ("fixed", "adapted")
    )
    drifts = [look.drift for look in known if math.isfinite(look.drift)]
    return Evidence(
        n_looks=len(known),
        fixed=fixed,
        adapted=adapted,
        drift=float(np.mean(drifts)) if drifts else 0.0,
        gain=float((column("error_adapted") - column("error_fixed")).mean()) / scale.one,
        one=scale.one,
    )


def _variances(truth: FloatArray, squares: FloatArray, scale: LossScale) -> FloatArray:
    """Return the variance of the loss of one row in each look, in shares."""
    if scale.is_of_classes:
        return np.asarray(truth * (1.0 - truth))
    # Divided twice: the square of a small unit would be 0.
    return np.maximum(squares - truth**2, 0.0) / scale.one / scale.one


def _residuals(
    *,
    truth: FloatArray,
    estimate: FloatArray,
    half_width: FloatArray,
    variance: FloatArray,
    n_rows: FloatArray,
    n_reference: int,
    largest: float,
) -> Residuals:
    residual = truth - estimate
    noise = np.maximum(variance, 0.001) / n_rows
    mean_square = max(0.0, float(np.mean(residual**2 - noise)))
    # The looks of a backtest rest on at most 60 % of the rows as a stream, and on at least 40 % as a reference.
    error, expected = float(truth.mean()), float(np.clip(estimate.mean(), 0.0, largest))
    both = error * (1.0 - error) + expected * (1.0 - expected) if largest == 1.0 else 2.0 * float(variance.mean())
    sampling = math.sqrt(both / (0.6 * n_reference))
    shift = max(0.0, float(residual.mean()) - sampling)
    beyond = residual**2 - noise - (half_width / _Z) ** 2
    return Residuals(
        mean=float(residual.mean()),
        shift=shift,
        spread=math.sqrt(max(0.0, mean_square - shift**2)),
        spread_down=_root_of_positive(float(np.mean(np.minimum(residual, 0.0) ** 2 - noise / 2.0))),
        unexplained=_root_of_positive(float(beyond.mean() - beyond.std() / math.sqrt(len(beyond)))),
    )


def _root_of_positive(value: float) -> float:
    return math.sqrt(max(0.0, value))
