"""What a replay of labelled history says: how far off estimates were, and what adaptation did."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray
from accous.diagnostics.losses import ERRORS, LEVEL, LossScale
from accous.exceptions import DataError, MissingExtraError

LARGEST_UNEXPLAINED = 0.04
_COMPARED = ("error_fixed", "error_adapted", "estimate_fixed", "half_width_fixed")
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
    estimate_fixed : float
        Label-free estimate after the block.
    half_width_fixed : float
        Half-width of its interval, which accounts for sampling alone.
    drift : float
        Strength of the drift, from 0 to 1: ``max(0, 2 AUC - 1)`` of a classifier that tells recent rows from the
        reference. NaN after fewer than 50 rows.
    n_effective : float
        Rows of the block that the measured errors rest on: fewer than it has if its rows have different base weights.
    square_fixed : float
        Mean of the squared losses of the fixed predictor on the block.
    """

    n_reference: int
    start: int
    stop: int
    error_fixed: float
    error_adapted: float
    estimate_fixed: float
    half_width_fixed: float
    drift: float
    n_effective: float
    square_fixed: float


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a backtest showed.

    Attributes
    ----------
    n_looks : int
    shift : float
        By how much the error of the fixed predictor exceeded its estimate on average, beyond what sampling explains,
        in shares of the loss that counts as 1, like all that follows.
    unexplained : float
        Root mean square of truth minus estimate beyond what sampling explains, of the blocks and of the estimate, by
        the lower end of one standard error: a few looks of a short reference are no proof.
    drift : float
        Mean strength of the drift inside the reference, over the looks that have enough rows to measure it; 0 if none
        has.
    gain : float
        Mean error of the adapted minus that of the fixed predictor; below 0, adaptation helped.
    """

    n_looks: int
    shift: float
    unexplained: float
    drift: float
    gain: float


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

    shift, unexplained = _residuals(
        truth=column("error_fixed") / scale.one,
        estimate=column("estimate_fixed") / scale.one,
        half_width=column("half_width_fixed") / scale.one,
        variance=_variances(column("error_fixed"), column("square_fixed"), scale),
        n_rows=column("n_effective"),
        n_reference=n_reference,
        largest=scale.largest,
    )
    drifts = [look.drift for look in known if math.isfinite(look.drift)]
    return Evidence(
        n_looks=len(known),
        shift=shift,
        unexplained=unexplained,
        drift=float(np.mean(drifts)) if drifts else 0.0,
        gain=float((column("error_adapted") - column("error_fixed")).mean()) / scale.one,
    )


def _variances(truth: FloatArray, squares: FloatArray, scale: LossScale) -> FloatArray:
    """Return the variance of the loss of one row in each look, in shares."""
    if scale.is_share:
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
) -> tuple[float, float]:
    """Return how far the truth lay above the estimates, and how far from them, beyond what sampling explains."""
    residual = truth - estimate
    noise = np.maximum(variance, 0.001) / n_rows
    # The looks of a backtest rest on at most 60 % of the rows as a stream, and on at least 40 % as a reference.
    error, expected = float(truth.mean()), float(np.clip(estimate.mean(), 0.0, largest))
    both = error * (1.0 - error) + expected * (1.0 - expected) if largest == 1.0 else 2.0 * float(variance.mean())
    sampling = math.sqrt(both / (0.6 * n_reference))
    shift = max(0.0, float(residual.mean()) - sampling)
    beyond = residual**2 - noise - (half_width / _Z) ** 2
    unexplained = float(beyond.mean() - beyond.std() / math.sqrt(len(beyond)))
    return shift, math.sqrt(max(0.0, unexplained))


# --- The plot of a replay; it needs matplotlib (extra plot)


# Okabe and Ito's colours are distinguishable with any kind of colour vision.
_ESTIMATED, _MEASURED, _REFERENCE = "#0072B2", "#D55E00", "#999999"


def plot_backtest(looks: Sequence[Look], scale: LossScale = ERRORS) -> Any:
    """Draw the errors that were estimated without labels in a backtest, and those that the labels measured.

    Parameters
    ----------
    looks : sequence of Look
        ``looks`` of a `Backtest`.
    scale : LossScale
        Its ``scale``: errors of classes are drawn in %, others in the unit of the target.
    """
    if not looks:
        raise DataError("The backtest has no looks to draw.")
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("Plots need matplotlib, which is not installed: pip install 'accous[plot]'.") from error
    replays = sorted({look.n_reference for look in looks})
    figure = Figure(figsize=(8.0, 1.2 + 1.7 * len(replays)), layout="constrained", dpi=120)
    all_axes = figure.subplots(len(replays), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for axes, n_reference in zip(all_axes, replays, strict=True):
        part = [look for look in looks if look.n_reference == n_reference]
        rows = [look.stop for look in part]
        estimates = _drawn([look.estimate_fixed for look in part], scale)
        low = _drawn([look.estimate_fixed - look.half_width_fixed for look in part], scale)
        high = _drawn([look.estimate_fixed + look.half_width_fixed for look in part], scale)
        widths = [estimates - low, high - estimates]
        axes.errorbar(rows, estimates, widths, color=_ESTIMATED, capsize=3, label="estimated without labels")
        axes.plot(rows, _drawn([look.error_fixed for look in part], scale), "o-", color=_MEASURED, label="measured")
        axes.axvspan(0, n_reference, color=_REFERENCE, alpha=0.15, linewidth=0.0)
        axes.set_title(f"reference: the first {n_reference:,} rows", loc="left", fontsize="small")
        axes.spines[["top", "right"]].set_visible(False)
    all_axes[0].legend(frameon=False, ncols=2, loc="upper left")
    all_axes[-1].set_xlabel("labelled rows, in order of time")
    unit = " (%)" if scale.is_share else ""
    figure.supylabel(f"{scale.name} of the fixed model{unit}", fontsize="medium")
    return figure


def _drawn(losses: Sequence[float], scale: LossScale) -> NDArray[np.float64]:
    """Return mean losses as they are drawn: of classes in %, of numbers in the unit of the target."""
    return np.array([100.0 * loss if scale.is_share else scale.in_unit(loss) for loss in losses])
