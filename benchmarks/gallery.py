"""The cases of the gallery: real streams in order of time, as figures and pictures of ``docs/gallery``.

``python -m benchmarks.gallery`` writes figures and pictures from what is kept in ``benchmarks/results/gallery``;
``--play`` plays the streams of ``ACCOUS_DATA`` first, a minute of processor time. Each is thinned to 12,000 rows. The
first 1,000 are the reference, known to be in order of time; the others come in batches of 10, each predicted before it
is learned from. Four models predict them: the fixed regression, the one that accous uses, the one that always adapts,
and boosted trees fitted once. Every 500 rows it notes what accous says without labels; the labels say later what was
true.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import Counter
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.ensemble import HistGradientBoostingClassifier

from accous import AdaptiveClassifier, backtest
from accous.threads import one_blas_thread
from benchmarks.data import prepare, read_stream, read_times
from benchmarks.pages import DOCS, RESULTS, Palette, filled, markdown, new_figure, origin, save_pair, tidy
from benchmarks.real_streams import MOST_ROWS, follow

FOLDER = RESULTS / "gallery"
N_REFERENCE, BATCH_SIZE, BLOCK, N_LATE = 1_000, 10, 500, 1_000
# What a case is called in the overview, and the title of its picture.
CASES = {
    "acs_employment": ("US census, employment", "US census: is a person employed?"),
    "weather_aus": ("rain in Australia", "Rain in Australia: will it rain tomorrow?"),
    "birdstrikes": ("bird strikes", "Bird strikes: was the aircraft damaged?"),
    "occupancy": ("a room's occupancy", "A room: is somebody in it?"),
    "bank_marketing": ("a bank's calls", "A bank's calls: will the customer say yes?"),
    "nsl_kdd": ("network traffic", "Network traffic: is it an attack?"),
}
MODELS = {"fixed": "fixed", "used": "accous", "always adapted": "always adapted", "boosted": "boosted trees, fixed"}
QUESTIONS = ("inputs", "adaptation", "predictions")
Kept = dict[str, Any]

# --- play -------------------------------------------------------------------------------------------------------


def play(name: str) -> Kept:
    """Play a stream and return what the models did and what accous said about it."""
    rows, y = read_stream(name, MOST_ROWS)
    n = N_REFERENCE
    with warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore")
        X = prepare(rows[:n])(rows)
        model = AdaptiveClassifier(standardize=False)  # the columns are encoded already
        replay = backtest(model, rows[:n], y[:n], prepare=prepare)
        model.fit(X[:n], y[:n], order=replay)
        predicted, looks = follow(model, X, n, BATCH_SIZE, _look)
        predicted["always adapted"] = predicted.pop("adapted")
        predicted["boosted"] = HistGradientBoostingClassifier(random_state=0).fit(X[:n], y[:n]).predict(X)
        said = {"without_labels": _said(model)}
        late = slice(max(n, len(y) - N_LATE), len(y))
        model.observe(X[late], y[late], predicted=predicted["used"][late])
        assert model.measured_ is not None
        said["with_late_labels"] = {**_said(model), "measured": model.measured_.sentence}
    is_wrong = {each: labels != y for each, labels in predicted.items()}
    for look in looks:
        block = slice(look["row"] - BLOCK, look["row"])
        look["errors"] = {each: float(wrong[block].mean()) for each, wrong in is_wrong.items()}
    return {
        "stream": name,
        "rows": len(y) - n,
        "columns": X.shape[1],
        "guard": model.rules_.guard.name,
        "backtest": list(replay.sentences),
        "errors": {each: float(wrong[n:].mean()) for each, wrong in is_wrong.items()},
        "said": said,
        "events": [event.round for event in model.drift_events_],
        "looks": looks,
        "times": read_times(name, MOST_ROWS, [look["row"] for look in looks]),
    }


def _look(model: Any) -> Kept:
    risk, coverage, trust = model.risk_, model.coverage_, model.trust_
    return {
        "estimate": risk.adapted,
        "low": risk.adapted_low,
        "high": risk.adapted_high,
        "effective_rows": float(model.effective_sample_size_),
        "outside": float(coverage.share_outside),
        "drift": float(coverage.drift_strength),
        **{question: getattr(trust, question).answer for question in QUESTIONS},
    }


def _said(model: Any) -> Kept:
    answers = {question: getattr(model.trust_, question) for question in QUESTIONS}
    return {"verdict": model.trust_.verdict, **{name: [each.answer, each.sentence] for name, each in answers.items()}}


def _rounded(found: Any) -> Any:
    if isinstance(found, dict):
        return {name: _rounded(value) for name, value in found.items()}
    if isinstance(found, list):
        return [_rounded(value) for value in found]
    if isinstance(found, float):
        return None if np.isnan(found) else round(found, 5)
    return found


def kept_case(name: str) -> Kept:
    """Return what was kept of a case."""
    found: Kept = json.loads((FOLDER / f"{name}.json").read_text())
    return found


# --- write ------------------------------------------------------------------------------------------------------


def figures(name: str) -> str | None:
    """Return the figures of a case, or of ``gallery all`` of them."""
    part, _, case = name.partition(" ")
    if part != "gallery":
        return None
    return _all_cases() if case == "all" else _one_case(kept_case(case))


def _errors(kept: Kept) -> list[str]:
    return [f"{100 * kept['errors'][model]:.1f}" for model in MODELS]


def _covered(kept: Kept) -> int:
    return sum(look["low"] <= look["errors"]["used"] <= look["high"] for look in kept["looks"])


def _all_cases() -> str:
    lines = []
    for name, (title, _) in CASES.items():
        kept = kept_case(name)
        link = f"[{title}]({name.replace('_', '-')}.md)"
        lines.append((link, *_errors(kept), f"{_covered(kept)} of {len(kept['looks'])}"))
    return markdown(("stream", *MODELS.values(), "looks in which the interval covered"), lines)


def _one_case(kept: Kept) -> str:
    said, later = kept["said"]["without_labels"], kept["said"]["with_late_labels"]
    counts = Counter(look["predictions"] for look in kept["looks"])
    answers = ", ".join(f'"{answer}" {counts[answer]} times' for answer in ("yes", "not known", "no") if counts[answer])
    parts = [
        f"Errors in % of {kept['rows']:,} rows:",
        markdown(tuple(MODELS.values()), [_errors(kept)], n_left=0).strip(),
        "**Before the stream**, from the replay of the reference:",
        "> {}\n>\n> {}".format(*kept["backtest"][:2]),
        f"**At the end of the stream**, without labels (verdict: {said['verdict']}):",
        "\n".join(f"- {question}: **{said[question][0]}**. {said[question][1]}" for question in QUESTIONS),
        f"**With the labels of the last 1,000 rows** (verdict: {later['verdict']}):",
        f"> {later['measured']}",
        f"The 90 % interval covered the measured error in {_covered(kept)} of {len(kept['looks'])} looks. Whether to "
        f"believe the estimate, accous answered {answers}.".replace(" 1 times", " once"),
    ]
    return "\n\n".join(parts)


# --- draw -------------------------------------------------------------------------------------------------------

LINES: dict[str, dict[str, Any]] = {
    "used": {"linestyle": "-", "linewidth": 3.6},
    "fixed": {"linestyle": (0, (3, 5)), "linewidth": 1.6},
    "always adapted": {"linestyle": (0, (1, 1)), "linewidth": 1.5},
    "boosted": {"linestyle": "-", "linewidth": 1.3},
}


def draw() -> None:
    """Draw one picture for each case."""
    for name in CASES:
        save_pair(partial(draw_case, kept_case(name)), f"gallery-{name.replace('_', '-')}")


def draw_case(kept: Kept, palette: Palette) -> Figure:
    """Draw errors over time above, what was said without labels below."""
    figure = new_figure(8.0, 5.2)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    looks = kept["looks"]
    if kept["times"] is None:
        times: list[Any] = [look["row"] - looks[0]["row"] + BLOCK for look in looks]
        below.set_xlabel("rows of the stream", loc="right")  # the legend is on the left
    else:
        times = [datetime.fromisoformat(text) for text in kept["times"]]
        below.xaxis_date()
        below.tick_params(axis="x", labelrotation=0)
    for name, style in LINES.items():
        colour = getattr(palette, name.removeprefix("always "))
        errors = [100 * look["errors"][name] for look in looks]
        above.plot(times, errors, label=MODELS[name], color=colour, **style)
    low, high, estimate = ([100 * look[name] for look in looks] for name in ("low", "high", "estimate"))
    below.fill_between(times, low, high, color=palette.used, alpha=0.25, linewidth=0, label="90 % interval")
    below.plot(times, estimate, color=palette.used, label="estimated")
    measured = [100 * look["errors"]["used"] for look in looks]
    below.plot(times, measured, "o", color=palette.ink, markersize=3.5, label="measured")
    above.set_title(CASES[kept["stream"]][1])
    below.set_title("The error of accous: estimated without labels, and measured later", fontsize=9)
    _finish(above, "errors in 500 rows, %", 4, -0.22)
    _finish(below, "error, %", 3, -0.42)
    return figure


def _finish(axes: Axes, label: str, n_columns: int, height: float) -> None:
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0)
    axes.legend(ncols=n_columns, loc="lower left", bbox_to_anchor=(0.0, height), fontsize=8.5)
    tidy(axes)


# --- main -------------------------------------------------------------------------------------------------------


def main() -> None:
    """Play the cases if wanted, write the pages and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--play", nargs="*", choices=list(CASES), help="play these cases, or all, before")
    options = parser.parse_args()
    for name in () if options.play is None else options.play or CASES:
        found = {"measured_with": origin(), **_rounded(play(name))}
        (FOLDER / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
        print(f"{name:22} {_errors(found)}  guard {found['guard']}", flush=True)
    for page in sorted((DOCS / "gallery").glob("*.md")):
        page.write_text(filled(page.read_text(encoding="utf-8"), figures), encoding="utf-8")
    draw()


if __name__ == "__main__":
    main()
