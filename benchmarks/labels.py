"""What labels are worth: a model that learns from them against refits by hand.

``python -m benchmarks.labels --run`` fits on the first 1,000 and 2,500 rows of every real stream of ``ACCOUS_DATA``,
thinned to 6,000 rows, steps through the rest in order of time, and gives the model random labels of each thousand rows,
at once or 2,000 rows later. It keeps the error on all rows of the stream beside (a) the same model without labels, (b)
boosted trees refitted by hand on the reference and the same labels, and (c) boosted trees on all labels of the last
2,000 rows, and how many rows intervals at 90 % and sets of classes held. Cases that are kept are not run again.
``--long`` follows sets and intervals on up to 30,000 rows of each stream, around trees that are never refitted.
Without either it writes the tables of ``docs/explanation/labels.md`` and ``sets.md``.
"""

from __future__ import annotations

import argparse
import pickle
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import polars as pl

from accous.core.ensemble import ADAPT_ML_PROD, count_starting
from accous.diagnostics.losses import FEWEST_LATE, conformal_limits, with_feedback
from accous.exceptions import DataError
from accous.model.learning import spread_of
from accous.model.pair import make_trees
from accous.table.columns import Choices, ColumnEncoder, PlainColumns, places_of_categories
from accous.table.model import TableModel
from accous.threads import one_blas_thread
from benchmarks.data import NUMBER_STREAMS, STREAMS, read_stream
from benchmarks.pages import fill, keep, kept, markdown
from benchmarks.predictors import make_model

NAME, LONG_NAME = "labels", "long_run"
LONG_ROWS, LONG_LATER, MOST_CLASSES, N_DRAWS = 30_000, 8_000, 10, 6
LONG_CASES = tuple(product((25, 100), (0, 2_000)))
WINDOW, BATCH, FEWEST_LATER, LAST, MOST_ROWS, OUTSIDE, MOST_NATS = 1_000, 100, 2_000, 2_000, 6_000, 0.1, 4.0
SIZES, BUDGETS = (1_000, 2_500), (25, 50, 100, 200)
CASES = ((100, 0), (25, 0), (200, 0), (100, 2_000), (50, 0), (25, 2_000), (50, 2_000), (200, 2_000))
"""Labels of a thousand rows, and rows until they come."""


def refit(frame: pl.DataFrame, y: Any, *, has_numbers: bool) -> Callable[[pl.DataFrame], Any]:
    """Return what boosted trees predict for rows, with columns learned from the rows that they are fitted on."""
    if not has_numbers and len(np.unique(y)) < 2:
        return lambda later: np.full(later.height, y[0])
    encoder = ColumnEncoder.learn(frame, Choices((), ()))
    columns, categories = PlainColumns(encoder.blocks), places_of_categories(encoder.blocks)
    trees = make_trees("regressor" if has_numbers else "classifier", 0, categories or None)
    trees.fit(columns.transform(encoder.encode(frame).X), y)
    return lambda later: trees.predict(columns.transform(encoder.encode(later).X))


# --- Other rules by which the two experts could be weighted: from the sum of their losses in each batch of labels


def fixed_share(sums: Any) -> float:
    """Return the weight that Herbster and Warmuth give to the expert that learned."""
    weights = np.array([0.4, 0.6])
    for losses in sums:
        weights = weights * np.exp(0.1 * (losses.min() - losses))
        weights = 0.98 * weights / weights.sum() + 0.01
    return float(weights[1])


def adapt_ml_prod(sums: Any, counts: Any) -> float:
    """Return the weight that the paper's meta-learner gives to it: both start anew in each interval of its cover."""
    means, meta, weights = np.minimum(sums / counts[:, None] / MOST_NATS, 1.0), None, np.array([0.4, 0.6])
    for number, losses in enumerate([*means, np.zeros(2)], start=1):
        young = ADAPT_ML_PROD.start(2 * count_starting(number, 1), 2 * number)
        meta = young if meta is None else meta.since(len(young.rates)).after(young)
        weights = ADAPT_ML_PROD.weights(meta).reshape(-1, 2).sum(axis=0)
        meta = ADAPT_ML_PROD.step(meta, np.tile(weights @ losses - losses, len(meta.rates) // 2), 2 * number)
    return float(weights[1])


OURS, RULES = "accous", ("learned alone", "half each", "fixed share", "Adapt-ML-Prod")


def mix(model: Any, X: Any) -> dict[str, Any]:
    """Return what the rule in use predicts, and what others would."""
    mixture, learning = model.current().predictor, model.state_.learning
    if learning is None or learning.fitted is None:
        return dict.fromkeys(RULES, model.predict(X))
    losses = learning.losses(spread_of(model.task_), np.array([0.0, 1.0]))
    position = learning.kept.position[learning.kept.judges]
    _, groups, counts = np.unique((position - 1) // WINDOW, return_inverse=True, return_counts=True)
    sums = np.stack([np.bincount(groups, of_expert) for of_expert in losses.T], axis=1)
    weights = (1.0, 0.5, fixed_share(sums), adapt_ml_prod(sums, counts))
    return {rule: replace(mixture, weight=each).predict(X) for rule, each in zip(RULES, weights, strict=True)}


class Runner:
    """Runs all budgets and delays of one stream from copies of one fitted model.

    Adaptation is off: it is measured elsewhere, and most models have it off.
    """

    def __init__(self, name: str, n_reference: int) -> None:
        self.n, self.has_numbers = n_reference, name in NUMBER_STREAMS
        self.frame, self.y = read_frame(name)
        self._hands: dict[tuple[int, int], Any] = {}
        self._known: tuple[bytes, dict[str, Any]] | None = None

    @property
    def is_long_enough(self) -> bool:
        """Whether the stream goes on, and the reference has two classes."""
        return len(self.y) >= self.n + FEWEST_LATER and len(np.unique(self.y[: self.n])) >= 2

    def run(self, budget: int, delay: int) -> dict[str, float]:
        """Return the errors on the rows after the reference."""
        stored, without = self._start()
        model, encoder = pickle.loads(stored)
        table = TableModel(model=model, encoder=encoder, label="y", settings={})
        frame, y, random = self.frame, self.y, np.random.default_rng(7)
        pending, known = [], np.zeros(0, dtype=np.int64)
        predicted = {each: [] for each in (OURS, "b", *RULES)} | without
        inside: list[Any] = []
        for first in range(self.n, len(y), WINDOW):
            last = min(first + WINDOW, len(y))
            predicted["b"].append(self._by_hand(budget, known)(frame[first:last]))
            X = table.encoder.encode(frame[first:last]).X
            if len(known) >= FEWEST_LATE:
                inside.append(_inside(model, X, y[first:last], has_numbers=self.has_numbers))
            for each, found in ({OURS: model.predict(X)} | mix(model, X)).items():
                predicted[each].append(found)
            for row in range(0, len(X), BATCH):
                model.adapt(X[row : row + BATCH])
            pending.append(first + np.sort(random.choice(last - first, min(budget, last - first), replace=False)))
            while pending and pending[0][0] // WINDOW * WINDOW + WINDOW + delay <= last < len(y):
                rows = pending.pop(0)
                known = np.concatenate((known, rows))
                table.observe(frame[rows], y[rows], rows_since=delay)
        cover = {"cover": float(np.nanmean(np.concatenate(inside)))} if inside else {}
        return _errors(predicted, y[self.n :], has_numbers=self.has_numbers) | cover

    def _start(self) -> tuple[bytes, dict[str, Any]]:
        """Return the fitted model, and what is predicted without its labels: by itself, and on all labels."""
        if self._known is None:
            n, encoder = self.n, ColumnEncoder.learn(self.frame[: self.n], Choices((), ()))
            encoder = encoder.with_records(self.frame[:n])
            model = make_model(encoder, has_numbers=self.has_numbers).set_params(adaptation="never")
            model.fit(encoder.encode(self.frame[:n]).X, self.y[:n], order=True)
            without = {"a": [model.predict(encoder.encode(self.frame[n:]).X)], "c": []}
            for first in range(n, len(self.y), WINDOW):
                lately = slice(max(0, first - LAST), first)
                by_hand = refit(self.frame[lately], self.y[lately], has_numbers=self.has_numbers)
                without["c"].append(by_hand(self.frame[first : first + WINDOW]))
            self._known = pickle.dumps((model, encoder)), without
        return self._known

    def _by_hand(self, budget: int, known: Any) -> Callable[[pl.DataFrame], Any]:
        """Return trees refitted on reference and labels; a delay changes when, not what."""
        key = (budget if len(known) else 0, len(known))
        if key not in self._hands:
            rows = np.concatenate((np.arange(self.n), known))
            self._hands[key] = refit(self.frame[rows], self.y[rows], has_numbers=self.has_numbers)
        return self._hands[key]


def _errors(predicted: dict[str, list[Any]], y: Any, *, has_numbers: bool) -> dict[str, float]:
    found = {name: np.concatenate(parts) for name, parts in predicted.items() if parts}
    return {name: float(np.mean(np.abs(y - each) if has_numbers else y != each)) for name, each in found.items()}


def _inside(model: Any, X: Any, y: Any, *, has_numbers: bool) -> Any:
    """Return which true labels are inside the interval or the set; NaN where no interval is shown."""
    if has_numbers:
        try:
            low, high = model.predict_interval(X, OUTSIDE).T
        except DataError:
            return np.full(len(y), np.nan)
        return ((low <= y) & (y <= high)).astype(float)
    sets, classes = model.predict_set(X, OUTSIDE), model.classes_
    places = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    return (sets[np.arange(len(y)), places] & (classes[places] == y)).astype(float)


def follow(scores: Any, n_reference: int, budget: int, delay: int, seed: int) -> float:
    """Return how many rows sets or intervals hold, where nothing but their limit learns from labels."""
    random, inside = np.random.default_rng(seed), []
    pending: list[tuple[int, Any]] = []
    known, late, made_at, came = scores[:n_reference], np.zeros(0), *np.zeros((2, 0), dtype=np.int64)
    for first in range(n_reference, len(scores) - WINDOW + 1, WINDOW):
        while pending and pending[0][0] <= first:
            now, rows = pending.pop(0)
            late, made_at = np.append(late, scores[rows]), np.append(made_at, rows)
            came = np.append(came, [now] * budget)
        if len(late) >= FEWEST_LATE:
            joined, counts, level = with_feedback(known, np.ones(n_reference), late, made_at, came, first, OUTSIDE)
            limit = conformal_limits(joined, counts, np.zeros(1), level)[0]
            inside.append(np.mean(scores[first : first + WINDOW] <= limit))
        pending.append((first + WINDOW + delay, first + np.sort(random.choice(WINDOW, budget, replace=False))))
    return float(np.mean(inside))


def follow_all_labels(scores: Any, n_reference: int, delay: int) -> float:
    """Return how many rows are within the limit of the last 1,000 rows whose labels, all of them, had come by then."""
    firsts = range(n_reference + WINDOW + delay, len(scores) - WINDOW + 1, WINDOW)
    known = (scores[first - delay - WINDOW : first - delay] for first in firsts)
    limits = [np.quantile(each, 1.0 - OUTSIDE, method="higher") for each in known]
    inside = [scores[first : first + WINDOW] <= limit for first, limit in zip(firsts, limits, strict=True)]
    return float(np.mean(inside))


def long_scores(name: str, n_reference: int) -> Any:
    """Return how far trees that are never refitted are off; those of the reference are of fits without the row."""
    (frame, y), has_numbers = read_frame(name, LONG_ROWS), name in NUMBER_STREAMS
    if len(y) < n_reference + LONG_LATER or (not has_numbers and len(np.unique(y)) > MOST_CLASSES):
        return None
    encoder = ColumnEncoder.learn(frame[:n_reference], Choices((), ()))
    X = PlainColumns(encoder.blocks).transform(encoder.encode(frame).X)
    trees = make_trees("regressor" if has_numbers else "classifier", 0, places_of_categories(encoder.blocks) or None)
    rows, scores = np.arange(n_reference), np.zeros(len(y))
    for fitted, rest in ((rows[::2], rows[1::2]), (rows[1::2], rows[::2]), (rows, np.arange(n_reference, len(y)))):
        scores[rest] = _scores(trees.fit(X[fitted], y[fitted]), X[rest], y[rest], has_numbers=has_numbers)
    return scores


def _scores(predictor: Any, X: Any, y: Any, *, has_numbers: bool) -> Any:
    if has_numbers:
        return np.abs(predictor.predict(X) - y)
    places = np.minimum(np.searchsorted(predictor.classes_, y), len(predictor.classes_) - 1)
    shares = predictor.predict_proba(X)[np.arange(len(y)), places]
    return 1.0 - np.where(predictor.classes_[places] == y, shares, 0.0)


def follow_all(streams: Sequence[str]) -> None:
    """Follow all streams that are long enough."""
    rows = []
    for name in streams:
        scores = long_scores(name, SIZES[0])
        for budget, delay in () if scores is None else LONG_CASES:
            case = {"stream": name, "budget": budget, "delay": delay}
            covers = [follow(scores, SIZES[0], budget, delay, seed) for seed in range(N_DRAWS)]
            all_labels = follow_all_labels(scores, SIZES[0], delay)
            rows.append(case | {"cover": float(np.mean(covers)), "all_labels": all_labels})
            print(rows[-1], flush=True)
    keep(LONG_NAME, rows)


def long_table() -> str:
    """Return how many rows of long streams are inside; of all labels, as many would be without any rule."""
    lines = []
    for budget, delay in LONG_CASES:
        rows = [row for row in kept(LONG_NAME) if (row["budget"], row["delay"]) == (budget, delay)]
        lines.append((budget, f"{delay:,}", len(rows), *_covered([row["cover"] for row in rows])))
    for delay in dict.fromkeys(delay for _, delay in LONG_CASES):
        covers = {row["stream"]: row["all_labels"] for row in kept(LONG_NAME) if row["delay"] == delay}
        lines.append(("all of the last 1,000", f"{delay:,}", len(covers), *_covered([*covers.values()])))
    headings = ("labels of 1,000", "delay", "streams", "inside, %", "least", "within 2 points", "below 88 %")
    return markdown(headings, lines)


def _covered(covers: Sequence[float]) -> tuple[object, ...]:
    found = np.array(covers)
    counts = (int((np.abs(found - 1.0 + OUTSIDE) <= 0.02).sum()), int((found < 0.88).sum()))
    return f"{100.0 * found.mean():.1f}", f"{100.0 * found.min():.0f}", *counts


def read_frame(name: str, most_rows: int = MOST_ROWS) -> tuple[pl.DataFrame, Any]:
    """Return rows with named columns, and labels."""
    frame, y = read_stream(name, most_rows, as_numbers=name in NUMBER_STREAMS)
    if isinstance(frame, np.ndarray):
        frame = pl.DataFrame(frame, schema=[f"x{number}" for number in range(frame.shape[1])])
    return frame, y


def run_all(streams: Sequence[str]) -> None:
    """Run what is not kept yet."""
    known = {tuple(row[each] for each in ("stream", "reference", "budget", "delay")) for row in kept(NAME, [])}
    for size, name in product(SIZES, streams):
        cases = [case for case in CASES if (name, size, *case) not in known]
        runner = Runner(name, size) if cases else None
        if runner is None or not runner.is_long_enough:
            continue
        for budget, delay in cases:
            found = runner.run(budget, delay)
            case = {"stream": name, "reference": size, "budget": budget, "delay": delay}
            keep(NAME, [*kept(NAME, []), case | {each: round(value, 5) for each, value in found.items()}])
            print(case, found, flush=True)


def table() -> str:
    """Return by how much learning differs from (a), (b) and (c), and what intervals and sets held."""
    lines = []
    for budget, delay, has_numbers in product(BUDGETS, (0, 2_000), (False, True)):
        rows = _rows(delay, has_numbers=has_numbers, budgets=(budget,))
        if not rows:
            continue
        what = "numbers, %" if has_numbers else "classes, points"
        covers = [100.0 * row["cover"] for row in rows if "cover" in row]
        above = [_above(rows, OURS, other) for other in "abc"]
        lines.append((what, budget, f"{delay:,}", len(rows), *above, f"{np.mean(covers):.0f} ({min(covers):.0f})"))
    headings = ("predicted", "labels of 1,000", "delay", "runs", "(a) never", "(b) by hand", "(c) all labels")
    return markdown((*headings, "inside, %"), lines)


def rules_table() -> str:
    """Return by how much each rule for the weights of the two experts differs from never refitting."""
    groups = [_rows(delay, has_numbers=has_numbers) for has_numbers, delay in product((False, True), (0, 2_000))]
    lines = [(rule, *(_above(rows, rule, "a") for rows in groups)) for rule in (OURS, *RULES)]
    return markdown(("weights", "classes, at once", "classes, late", "numbers, at once", "numbers, late"), lines)


def _rows(delay: int, *, has_numbers: bool, budgets: Sequence[int] = BUDGETS) -> list[dict[str, Any]]:
    wanted = [row for row in kept(NAME) if row["delay"] == delay and row["budget"] in budgets]
    return [row for row in wanted if (row["stream"] in NUMBER_STREAMS) == has_numbers]


def _above(rows: list[dict[str, Any]], ours: str, other: str) -> str:
    """Return the mean difference to another way, and the worst: in points, or in % of numbers."""
    found = [
        (row[ours] - row[other]) * 100.0 / (row[other] if row["stream"] in NUMBER_STREAMS else 1.0) for row in rows
    ]
    return f"{np.mean(found):+.1f} ({max(found):+.1f})"


def main() -> None:
    """Run if wanted, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", nargs="*", choices=list(STREAMS), metavar="STREAM", help="run these streams, or all")
    parser.add_argument("--long", action="store_true", help="follow sets and intervals on long streams")
    options = parser.parse_args()
    if options.run is not None:
        with warnings.catch_warnings(), one_blas_thread():
            warnings.simplefilter("ignore")
            run_all(options.run or list(STREAMS))
    if options.long:
        follow_all(list(STREAMS))
    fill("explanation/labels.md", {"labels": table(), "rules": rules_table()})
    fill("explanation/sets.md", {"long run": long_table()})


if __name__ == "__main__":
    main()
