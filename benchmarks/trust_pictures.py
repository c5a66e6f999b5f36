"""The pictures of docs/trust.md. First run ``python -m benchmarks.trust harm``, then this module."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from accous import AdaptiveClassifier
from accous.diagnostics.plots import plot_attribution, plot_history, plot_risk
from accous.streams import GaussianStream, SquareShift
from benchmarks.record import FOLDER

IMAGES = Path(__file__).parents[1] / "docs" / "images"
PERIOD, N_ROUNDS = 300, 1200
NAMES = ("age", "income", "distance", "visits", "basket", "hour")


def main() -> None:
    """Draw all pictures."""
    draw_stream()
    draw_columns()
    draw_harm()


def draw_stream() -> None:
    """Draw risk and history on a stream that jumps."""
    stream = GaussianStream(SquareShift(period=PERIOD), n_rounds=N_ROUNDS, batch_size=2)
    model = AdaptiveClassifier(standardize=False).fit(*stream.reference())
    fixed = model.estimator_
    rounds, risks, adapted_true, fixed_true, history = [], [], [], [], []
    for batch in stream:
        if batch.round % 10 == 0:
            rounds.append(batch.round)
            risks.append(model.sampling_risk())
            adapted_true.append(stream.risk(model.estimator_, batch.alpha))
            fixed_true.append(stream.risk(fixed, batch.alpha))
            history.append(model.history_in_use_)
        model.adapt(batch.X)
    _save(plot_risk(rounds, risks, true_adapted=adapted_true, true_fixed=fixed_true), "trust_risk")
    _save(plot_history(rounds, history, model.drift_events_), "trust_history")


def draw_columns() -> None:
    """Draw the attribution over time: first one column moves, then another."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, len(NAMES)))
    y = (X[:, 0] + X[:, 1] + rng.normal(size=1000) > 0.0).astype(int)
    model = AdaptiveClassifier(standardize=False).fit(X, y)
    shares = []
    for number in range(1, 901):
        centre = np.zeros(len(NAMES))
        centre[1] = 1.5 * (300 < number <= 600)
        centre[4] = 1.5 * (number > 600)
        model.adapt(rng.normal(centre, size=(2, len(NAMES))))
        if number % 10 == 0:
            shares.append(model.drift_attribution_)
    figure = plot_attribution(np.array(shares), NAMES)
    figure.axes[0].set_xlabel("time, in tens of rounds: income moves in 30 to 60, basket from 60 on")
    _save(figure, "trust_columns")


def draw_harm() -> None:
    """Draw the points above the fixed model, without and with the fallback."""
    rows = json.loads((FOLDER / "trust.json").read_text())["rows"]["harm"]
    figure = Figure(figsize=(8.0, 5.2), layout="constrained", dpi=120)
    axes = figure.subplots()
    places = np.arange(len(rows))
    for name, label, colour, offset in (
        ("none", "without the fallback", "#D55E00", -0.15),
        ("auto", "with it", "#0072B2", 0.15),
    ):
        means, errors = ([row[key] for row in rows] for key in (name, f"{name}_standard_error"))
        axes.errorbar(means, places + offset, xerr=errors, fmt="o", color=colour, label=label, markersize=4.0)
    axes.axvline(0.0, color="black", linewidth=0.8)
    axes.set_yticks(places, [_label(row) for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel("points above the error of the fixed model, ± standard error over splits")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    axes.set_title("Without and with the fallback", loc="left", fontweight="bold")
    _save(figure, "trust_harm")


def _label(row: dict[str, Any]) -> str:
    shift = "standing still" if row["shift"] == "none" else row["shift"]
    return f"Gaussian, {row['n_reference']} rows: {shift}" if row["data"] == "gauss" else f"{row['data']}: {shift}"


def _save(figure: Any, name: str) -> None:
    figure.savefig(IMAGES / f"{name}.png")


if __name__ == "__main__":
    main()
