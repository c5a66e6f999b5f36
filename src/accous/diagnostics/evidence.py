"""What a replay of labelled history says: what adaptation did."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.diagnostics.losses import ERRORS, LossScale
from accous.exceptions import DataError, MissingExtraError


@dataclass(frozen=True, kw_only=True)
class Look:
    """One comparison of the adapted and the fixed predictor, on a block of replayed rows.

    Attributes
    ----------
    n_reference : int
        Rows that served as the reference.
    start, stop : int
        The block of rows, counted in order of time.
    error_fixed, error_adapted : float
        Measured errors on the block; mean losses if numbers are predicted.
    drift : float
        Strength of the drift, from 0 to 1: ``max(0, 2 AUC - 1)`` of a classifier that tells recent rows from the
        reference. NaN after fewer than 50 rows.
    """

    n_reference: int
    start: int
    stop: int
    error_fixed: float
    error_adapted: float
    drift: float


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a backtest showed.

    Attributes
    ----------
    n_looks : int
        Blocks whose rows count.
    drift : float
        Mean strength of the drift inside the reference, over the looks that have enough rows to measure it; 0 if none
        has.
    gain : float
        Mean error of the adapted minus that of the fixed predictor, in shares of the loss that counts as 1; below 0,
        adaptation helped.
    """

    n_looks: int
    drift: float
    gain: float


def measure_evidence(looks: Sequence[Look], scale: LossScale = ERRORS) -> Evidence | None:
    """Summarise the looks of a backtest; None if there are none with an error."""
    gains = np.array([look.error_adapted - look.error_fixed for look in looks])
    is_known, drifts = np.isfinite(gains), [look.drift for look in looks if math.isfinite(look.drift)]
    if not is_known.any():
        return None
    return Evidence(
        n_looks=int(is_known.sum()),
        drift=float(np.mean(drifts)) if drifts else 0.0,
        gain=float(gains[is_known].mean()) / scale.one,
    )


# --- The plot of a replay; it needs matplotlib (extra plot)


# Okabe and Ito's colours are distinguishable with any kind of colour vision.
_ADAPTED, _FIXED, _REFERENCE = "#0072B2", "#D55E00", "#999999"


def plot_backtest(looks: Sequence[Look], scale: LossScale = ERRORS) -> Any:
    """Draw the errors of the fixed and of the adapted model in a backtest.

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
        axes.plot(rows, _drawn([look.error_fixed for look in part], scale), "o-", color=_FIXED, label="fixed")
        axes.plot(rows, _drawn([look.error_adapted for look in part], scale), "s--", color=_ADAPTED, label="adapted")
        axes.axvspan(0, n_reference, color=_REFERENCE, alpha=0.15, linewidth=0.0)
        axes.set_title(f"reference: the first {n_reference:,} rows", loc="left", fontsize="small")
        axes.spines[["top", "right"]].set_visible(False)
    all_axes[0].legend(frameon=False, ncols=2, loc="upper left")
    all_axes[-1].set_xlabel("labelled rows, in order of time")
    unit = " (%)" if scale.is_share else ""
    figure.supylabel(f"{scale.name}{unit}", fontsize="medium")
    return figure


def _drawn(losses: Sequence[float], scale: LossScale) -> NDArray[np.float64]:
    """Return mean losses as they are drawn: of classes in %, of numbers in the unit of the target."""
    return np.array([100.0 * loss if scale.is_share else scale.in_unit(loss) for loss in losses])
