"""The cases of the gallery: real streams in order of time, as figures and pictures of ``docs/gallery``.

``python -m benchmarks.gallery`` writes the page and the pictures from what is kept; ``--run`` runs the streams of
``ACCOUS_DATA`` first, some minutes of processor time. Streams are thinned to 12,000 rows. The first 1,000 are the
reference; the others come in batches of 10, each predicted before it is learned from. Five models predict them: the
one that was fitted once, accous without labels, accous with 100 random labels of every 1,000 rows, which it gets
when the 1,000 rows have passed, boosted trees that are then refitted on all labels of the last 2,000 rows, and
what accous without labels would predict if it always used its weights.
"""

from __future__ import annotations

import argparse
import warnings
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from accous import AdaptiveClassifier
from accous.table.columns import Choices, ColumnEncoder
from accous.table.model import make_estimator
from accous.threads import one_blas_thread
from accous_bench.figures import new_figure, tidy
from benchmarks.data import BLOCKS, MOST_ROWS, read_blocks, read_stream, read_times
from benchmarks.labels import LAST, refit
from benchmarks.pages import Palette, fill, keep_part, kept, markdown, save_pair

NAME = "gallery"
N_REFERENCE, BATCH_SIZE, BLOCK, WINDOW, SHARE = 1_000, 10, 500, 1_000, 0.1
CASES = {
    "hotel_bookings": "Hotel bookings: will the guest cancel?",
    "arabic_digits": "Spoken digits, by women and men in turn",
    "chicago_taxi_tips": "Taxi trips: will the tip be large?",
    "noaa_weather": "Fifty years of weather: will it rain?",
}
MODELS = {
    "fixed": "never refitted",
    "weights": "accous, no labels",
    "labels": "accous, 100 labels per 1,000 rows",
    "refitted": "trees refitted on all labels",
    "always": "weights, used always",
}
Kept = dict[str, Any]

# --- run -------------------------------------------------------------------------------------------------------


def run_case(name: str, most_rows: int = MOST_ROWS) -> Kept:
    """Run a stream and return what the models did and what accous said about it."""
    rows, y = read_blocks(N_REFERENCE) if name == BLOCKS else read_stream(name, most_rows)
    frame = rows if isinstance(rows, pl.DataFrame) else pl.DataFrame(rows)
    n, encoder = N_REFERENCE, ColumnEncoder.learn(frame[:N_REFERENCE], Choices((), ()))
    X = np.ascontiguousarray(encoder.encode(frame).X)
    with warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore")
        models = {each: _fitted(encoder, X[:n], y[:n]) for each in ("weights", "labels")}
        predicted = {"fixed": models["weights"].predict_fixed(X), "refitted": _refitted(frame, y)}
        predicted |= {each: np.empty_like(y) for each in (*models, "always")}
        looks: list[Kept] = []
        for start in range(n, len(y), BATCH_SIZE):
            batch = slice(start, min(start + BATCH_SIZE, len(y)))
            predicted["always"][batch] = models["weights"].state_.estimator.predict(X[batch])
            for each, model in models.items():
                predicted[each][batch] = model.step(X[batch])
            if (batch.stop - n) % WINDOW == 0:
                _give_labels(models["labels"], X, y, predicted["labels"], batch.stop)
            if (batch.stop - n) % BLOCK == 0:
                block = slice(batch.stop - BLOCK, batch.stop)
                errors = {each: float(np.mean(found[block] != y[block])) for each, found in predicted.items()}
                said = {each: _said(models[each]) for each in ("weights", "labels")}
                looks.append({"row": batch.stop, "errors": errors, "said": said})
    return {
        "rows": len(y) - n,
        "errors": {each: float(np.mean(found[n:] != y[n:])) for each, found in predicted.items()},
        "looks": looks,
        "times": None if name == BLOCKS else read_times(name, most_rows, [look["row"] for look in looks]),
    }


def _fitted(encoder: ColumnEncoder, X: Any, y: Any) -> Any:
    """Return the model that ``accous fit`` makes of these columns."""
    estimator = make_estimator("auto", kind="classifier", seed=0, blocks=encoder.blocks)
    return AdaptiveClassifier(estimator, standardize=False, random_state=0).fit(X, y)


def _refitted(frame: pl.DataFrame, y: Any) -> Any:
    """Return what boosted trees predict for each thousand rows that were fitted on the latest rows before them."""
    parts = [y[:N_REFERENCE]]
    for first in range(N_REFERENCE, len(y), WINDOW):
        lately, window = slice(max(0, first - LAST), first), slice(first, first + WINDOW)
        parts.append(refit(frame[lately], y[lately], has_numbers=False)(frame[window]))
    return np.concatenate(parts)


def _give_labels(model: Any, X: Any, y: Any, predicted: Any, stop: int) -> None:
    """Let the model learn from a random tenth of the last thousand rows."""
    chosen = np.random.default_rng(stop).choice(WINDOW, round(SHARE * WINDOW), replace=False)
    rows = np.sort(stop - WINDOW + chosen)
    model.observe(X[rows], y[rows], predicted=predicted[rows], probability=np.full(len(rows), SHARE))


def _said(model: Any) -> Kept:
    found, status = model.performance(), model.status_
    numbers = {each: round(float(getattr(found, each)), 5) for each in ("value", "low", "high")}
    return numbers | {"basis": found.basis, "state": status.state, "alarm": bool(status.alarm)}


# --- write and draw ---------------------------------------------------------------------------------------------


def tables() -> dict[str, str]:
    """Return the errors of all cases, alone and with how often each state was said."""
    lines: list[tuple[str, ...]] = []
    for name, title in CASES.items():
        case = kept(NAME)[name]
        errors = [f"{100 * case['errors'][each]:.1f}" for each in MODELS]
        states = [look["said"]["labels"]["state"] for look in case["looks"]]
        counts = [f"{states.count(each)}" for each in ("healthy", "degraded", "uncertain")]
        lines.append((title.partition(":")[0], *errors, *counts))
    headings = ("stream", *MODELS.values(), "healthy", "degraded", "uncertain")
    n_errors = len(MODELS)  # without the last one
    return {
        "gallery": markdown(headings, lines),
        "gallery errors": markdown(headings[:n_errors], [line[:n_errors] for line in lines]),
    }


STYLES: dict[str, tuple[str, dict[str, Any]]] = {
    "fixed": ("fixed", {"linestyle": (0, (3, 3)), "linewidth": 1.6, "zorder": 3}),
    "weights": ("boosted", {"linestyle": "-", "linewidth": 1.4}),
    "labels": ("used", {"linestyle": "-", "linewidth": 3.0}),
}
"""Colour and line of the models that are drawn."""


def draw() -> None:
    """Draw one picture for each case."""
    for name in CASES:
        save_pair(partial(draw_case, name), f"gallery-{name.replace('_', '-')}")


def draw_case(name: str, palette: Palette) -> Figure:
    """Draw the errors over time, and below what accous said with labels."""
    case = kept(NAME)[name]
    figure = new_figure(8.0, 5.0)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    looks, times = case["looks"], case["times"]
    places: list[Any] = [look["row"] - N_REFERENCE for look in looks]
    if times is not None:
        places = [datetime.fromisoformat(text) for text in times]
    for each, (colour, style) in STYLES.items():
        errors = [100 * look["errors"][each] for look in looks]
        above.plot(places, errors, label=MODELS[each], color=getattr(palette, colour), **style)
    said = [look["said"]["labels"] for look in looks]
    value, low, high = (np.array([100 * one[each] for one in said]) for each in ("value", "low", "high"))
    below.fill_between(places, low, high, color=palette.used, alpha=0.25, linewidth=0, label="90 % interval")
    below.plot(places, value, color=palette.used, label="what accous says")
    truth = [100 * look["errors"]["labels"] for look in looks]
    below.plot(places, truth, "o", color=palette.ink, markersize=3.5, label="the truth")
    is_bad = [one["state"] == "degraded" for one in said]
    if any(is_bad):
        marked = [place for place, bad in zip(places, is_bad, strict=True) if bad]
        below.plot(marked, [0.0] * len(marked), "s", color=palette.fixed, markersize=5, label="state: degraded")
    above.set_title(CASES[name])
    for axes, label in ((above, "errors in 500 rows, %"), (below, "error with labels, %")):
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
        axes.legend(ncols=4, loc="upper left", fontsize=8)
        axes.set_ylim(top=1.3 * axes.get_ylim()[1])
        tidy(axes)
    if times is None:
        below.set_xlabel("rows of the stream")
    return figure


def main() -> None:
    """Run the cases if wanted, write the page and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", nargs="*", choices=list(CASES), help="run these cases, or all, before")
    options = parser.parse_args()
    for name in () if options.run is None else options.run or CASES:
        keep_part(NAME, name, run_case(name))
        print(name, {each: round(100 * error, 1) for each, error in kept(NAME)[name]["errors"].items()}, flush=True)
    for page in ("gallery/index.md", "../README.md"):
        fill(page, tables())
    draw()


if __name__ == "__main__":
    main()
