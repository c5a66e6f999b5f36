"""The default predictor against a linear model, boosted trees and their plain mean, none of which adapts.

``python -m benchmarks.predictors`` fits on the first 1,000, 2,500 and 4,000 rows of every real stream of
``ACCOUS_DATA`` and predicts the rest, without labels and in order of time, for classes and for numbers; then the spoken
digits in blocks of female and male speakers (``--digits`` alone). It prints tables in Markdown. The linear model reads
clipped numbers; the trees are scikit-learn's, of 100 iterations. Streams of many classes take most of the time.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from accous import AdaptiveClassifier, AdaptiveRegressor
from accous.model.heldout import Combination, answers_of
from accous.model.predictors import sharing_fits
from accous.ratio.online import NoShift
from accous.table.columns import Choices, ColumnEncoder
from accous.table.model import make_estimator
from accous.threads import one_blas_thread
from benchmarks.data import NUMBER_STREAMS, STREAMS, data_folder, read_stream

REFERENCES = (1_000, 2_500, 4_000)
MOST_ROWS, FEWEST_LATER = 8_000, 1_000
BATCH = 20
FIXED = {"linear": 0.0, "boosting": 1.0, "plain mean": 0.5}


def make_model(encoder: ColumnEncoder, *, has_numbers: bool) -> Any:
    """Return the model that ``accous fit`` makes for these columns."""
    kind = AdaptiveRegressor if has_numbers else AdaptiveClassifier
    name = "regressor" if has_numbers else "classifier"
    return kind(make_estimator("auto", kind=name, seed=0, blocks=encoder.blocks), standardize=False, random_state=0)


def play(name: str, n_reference: int, *, has_numbers: bool, is_ordered: bool = True) -> dict[str, float] | None:
    """Return the error of each predictor on the rows after the reference; None if the stream is too short."""
    frame, y = read_stream(name, MOST_ROWS, as_numbers=has_numbers)
    n = n_reference
    if len(y) < n + FEWEST_LATER or len(np.unique(y[:n])) < 2:
        return None
    if isinstance(frame, np.ndarray):
        frame = pl.DataFrame(frame, schema=[f"x{number}" for number in range(frame.shape[1])])
    encoder = ColumnEncoder.learn(frame[:n], Choices((), ()))
    X = np.ascontiguousarray(encoder.encode(frame).X)
    found: dict[str, float] = {}

    def error(predicted: Any) -> float:
        return float(np.mean(np.abs(y[n:] - predicted) if has_numbers else predicted != y[n:]))

    with sharing_fits():
        start = time.process_time()
        model = make_model(encoder, has_numbers=has_numbers).fit(X[:n], y[:n], order=is_ordered)
        found["seconds"] = time.process_time() - start
        both = make_model(encoder, has_numbers=has_numbers).set_params(ratio=NoShift())
        pair = both.fit_with(X[:n], y[:n], order=False, combination=Combination(0.5)).fixed_.estimator
    classes = None if has_numbers else both.classes_
    answers = [answers_of(part, X[n:], classes) for part in (pair.linear, pair.trees)]
    for each, share in FIXED.items():
        mixed = (1.0 - share) * answers[0] + share * answers[1]
        found[each] = error(mixed if classes is None else classes[mixed.argmax(axis=1)])
    found["default, fixed"] = error(model.predict_fixed(X[n:]))
    found["default"] = error(
        np.concatenate([model.step(X[start : start + BATCH]) for start in range(n, len(X), BATCH)])
    )
    found["weight of boosting"] = model.combination_.share
    return found


def play_digits(n_reference: int = 1_000, block: int = 750, share: float = 0.5) -> Iterator[tuple[str, float]]:
    """Yield errors on spoken digits, female and male speakers in turn, with the linear predictor and with auto."""
    folder = data_folder()
    assert folder is not None
    frame = pl.read_csv(folder / "streams" / "arabic_digits.csv.gz")
    sex, y = frame["speaker_sex"].to_numpy(), frame["digit"].to_numpy()
    X = frame.drop("speaker_sex", "digit").to_numpy().astype(np.float64)
    women, men = (np.flatnonzero(sex == each) for each in np.unique(sex))
    first = round(share * n_reference)
    reference = np.concatenate((women[:first], men[: n_reference - first]))
    rows = [np.array_split(each, len(each) // block) for each in (women[first:], men[n_reference - first :])]
    later = np.concatenate([part for pair in zip(*rows, strict=False) for part in pair])
    for name, estimator in (("linear", None), ("auto", "auto")):
        model = AdaptiveClassifier(estimator, random_state=0).fit(X[reference], y[reference], order=False)
        steps = [model.step(X[later[start : start + 10]]) for start in range(0, len(later), 10)]
        yield f"{name}, fixed", float(np.mean(model.predict_fixed(X[later]) != y[later]))
        yield name, float(np.mean(np.concatenate(steps) != y[later]))


# --- tables -----------------------------------------------------------------------------------------------------


def table(names: list[str], sizes: list[int], *, has_numbers: bool, is_ordered: bool) -> Iterator[str]:
    """Yield the lines of a table and of its summary."""
    unit, digits = (1.0, 4) if has_numbers else (100.0, 3)
    columns = [*FIXED, "default, fixed", "default"]
    yield f"| stream | rows | {' | '.join(columns)} | weight of boosting | CPU s of fit | above the best |"
    yield "|---" * (len(columns) + 5) + "|"
    above, harm = [], []
    for size in sizes:
        for name in names:
            found = play(name, size, has_numbers=has_numbers, is_ordered=is_ordered)
            if found is None:
                continue
            best = min(found[each] for each in FIXED)
            scale = 100.0 / best if has_numbers else 100.0
            above.append(scale * (found["default"] - best))
            harm.append(scale * (found["default"] - found["default, fixed"]))
            errors = " | ".join(f"{unit * found[each]:.{digits}g}" for each in columns)
            rest = f"{found['weight of boosting']:.2f} | {found['seconds']:.1f}"
            yield f"| {name} | {size:,} | {errors} | {rest} | {above[-1]:+.2f} |"
    what = "% of the loss" if has_numbers else "points"
    yield ""
    yield f"Above the best: mean {np.mean(above):.2f}, worst {np.max(above):.2f} {what}; {len(above)} runs."
    yield f"Adapted minus fixed: mean {np.mean(harm):+.2f}, worst {np.max(harm):+.2f} {what}."


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", nargs="*", default=list(STREAMS))
    parser.add_argument("--references", nargs="*", type=int, default=list(REFERENCES))
    parser.add_argument("--unordered", action="store_true", help="do not say that the reference is in order of time")
    parser.add_argument("--digits", action="store_true", help="the spoken digits alone")
    options = parser.parse_args()
    with warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore")
        for has_numbers in () if options.digits else (False, True):
            names = [name for name in options.streams if not has_numbers or name in NUMBER_STREAMS]
            print(f"\n{'Numbers: mean absolute errors' if has_numbers else 'Classes: errors, %'}\n")
            for line in table(names, options.references, has_numbers=has_numbers, is_ordered=not options.unordered):
                print(line, flush=True)
        for name, error in play_digits():
            print(f"Spoken digits in blocks, {name}: {100 * error:.1f} %", flush=True)


if __name__ == "__main__":
    main()
