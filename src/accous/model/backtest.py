"""The replay of labelled history in order of time: what adaptation would have done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.dummy import DummyClassifier
from sklearn.utils import _safe_indexing

from accous.arrays import FloatArray, IntArray
from accous.diagnostics.evidence import Evidence, Look, measure_evidence
from accous.diagnostics.losses import ERRORS, LossScale
from accous.exceptions import DataError, ParameterError
from accous.model.order import Order, OrderKind, find_order, read_order
from accous.model.predictors import ErmRecipe
from accous.model.round import under_guard
from accous.model.safeguards import FREE, NEVER, Guard, choose_guard
from accous.model.tasks import Task, read_base_weights, read_one_column, require_as_many
from accous.text import count, require_integer
from accous.threads import one_blas_thread
from accous.validation import count_rows

# --- The backtest: replay labelled history as if it were a stream, and compare the adapted with the fixed model


CUTS = (0.4, 0.6, 0.8)
FEWEST_ROWS = 100
_SMALLEST_BLOCK = 100
_MOST_NAMED = 5


@dataclass(frozen=True, kw_only=True)
class Backtest:
    """The outcome of `backtest`.

    Attributes
    ----------
    n_reference : int
        Number of labelled rows.
    looks : tuple of Look
        Errors on each block of replayed rows.
    evidence : Evidence or None
        The looks in a few numbers; None without looks.
    adaptation : {"auto", "always", "never"}
        That of the model; with "auto", the evidence decides whether to adapt.
    scale : LossScale
        The loss of the looks, and what counts as a point of it.
    later_classes : tuple of str
        Classes of replayed rows that a model was not fitted on, because they came later.

    Examples
    --------
    >>> import numpy as np
    >>> from accous import AdaptiveClassifier, backtest
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 3))
    >>> y = X[:, 0] + rng.normal(size=1000) > 0
    >>> result = backtest(AdaptiveClassifier(), X, y)
    >>> len(result.looks), result.verdict
    (12, 'adapt')
    """

    n_reference: int
    looks: tuple[Look, ...]
    evidence: Evidence | None
    adaptation: str = "auto"
    scale: LossScale = ERRORS
    later_classes: tuple[str, ...] = ()

    @property
    def guard(self) -> Guard:
        """When the adapted model predicts, as the replay advises."""
        return choose_guard(self.evidence, self.adaptation, may_matter=True)

    @property
    def verdict(self) -> str:
        """``"adapt"``, ``"adapt with care"`` or ``"do not adapt"``."""
        return {"strict": "adapt with care", "off": "do not adapt"}.get(self.guard.name, "adapt")

    @property
    def sentence(self) -> str:
        """What adaptation did to the error, and what follows."""
        if self.evidence is None:
            why = "every replay needs rows of two classes. Sort the rows by time, or take a longer reference"
            return f"The backtest could not replay anything: {why}."
        gain = self.evidence.gain
        if self.guard is NEVER:
            return self.guard.sentence
        size = self.scale.difference(abs(gain) * self.scale.one)
        change = f"{'raised' if gain > 0.0 else 'lowered'} the {self.scale.name} by {size}"
        change = change if abs(gain) >= 0.0005 else "changed nothing"
        windows = count(self.evidence.n_looks, "window")
        return f"Backtest: adaptation would have {change} (mean of {windows}). {self.guard.sentence}"

    @property
    def how(self) -> str:
        """How the errors were measured, in a sentence; empty if nothing could be measured."""
        if not self.looks:
            return ""
        shares = [f"{n_rows / self.n_reference:.0%}" for n_rows in sorted({look.n_reference for look in self.looks})]
        first = f"{', '.join(shares[:-1])} and {shares[-1]}" if len(shares) > 1 else "".join(shares)
        how = (
            f"Its models were fitted once, on the first {first} of the rows, and predicted the rest without new labels"
        )
        if not self.later_classes:
            return f"{how}, as on a stream."
        shown = list(map(repr, self.later_classes[:_MOST_NAMED]))
        shown += ["..."] if len(self.later_classes) > _MOST_NAMED else []
        return (
            f"{how}, as on a stream. Rows of classes that were new to them count as errors ({', '.join(shown)}): the "
            "model that is fitted on all rows knows these classes."
        )

    def summary(self) -> dict[str, Any]:
        """Return the outcome in plain values, ready for JSON."""
        evidence = self.evidence
        if evidence is None:
            return {"verdict": self.verdict, "looks": len(self.looks)}
        return {
            "verdict": self.verdict,
            "looks": len(self.looks),
            "drift": evidence.drift,
            "adapted_minus_fixed": evidence.gain * self.scale.one,
        }

    def table(self) -> list[dict[str, float]]:
        """Return the looks as records, for a data frame."""
        return [vars(look).copy() for look in self.looks]

    def plot(self) -> Any:
        """Draw the errors of the replays; needs matplotlib."""
        from accous.diagnostics.evidence import plot_backtest

        return plot_backtest(self.looks, self.scale)


def backtest(
    model: Any,
    X: Any,
    y: Any,
    order: Any = None,
    *,
    sample_weight: Any = None,
    batch_size: int = 10,
    cuts: Sequence[float] = CUTS,
    prepare: Callable[[Any], Callable[[Any], Any]] | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> Backtest:
    """Replay labelled history: the first rows as the reference, the rest as a stream whose labels are known.

    Every cut of the rows gives one replay, so the reference grows from replay to replay.

    Parameters
    ----------
    model : AdaptiveClassifier or AdaptiveRegressor
        Clones of it are fitted; it is not changed.
    X : array or frame of shape (n_rows, n_features)
    y : array of shape (n_rows,)
    order : array of shape (n_rows,), optional
        Times: dates, numbers, or text in one ISO form, such as 2024-05-31 17:00. Other text is refused, because it does
        not sort as its times do. None means that the rows are in order of time.
    sample_weight : array of shape (n_rows,), optional
        Base weights, as for ``fit``. They weigh the reference of a replay, and the errors that are
        measured on the rows that come after it.
    batch_size : int, default=10
        Rows in a round of the replay.
    cuts : sequence of float, default=(0.4, 0.6, 0.8)
        Shares of the rows that serve as the reference, above 0 and below 1; at least one.
    prepare : callable, optional
        Takes the reference of a replay and returns a function from rows to features. Use it if the features depend on
        the reference, as scaled columns do: a replay must not know the scale of rows that come later.
    on_progress : callable, optional
        Called with the share of the work that is done.

    Returns
    -------
    Backtest
    """
    if isinstance(model, type) or not hasattr(model, "can_learn"):
        given = f"the class {model.__name__}" if isinstance(model, type) else f"a {type(model).__name__}"
        raise ParameterError(f"model must be AdaptiveClassifier() or AdaptiveRegressor(), got {given}: pass a model.")
    require_integer("batch_size", batch_size, at_least=1)
    if not len(cuts) or not all(0.0 < cut < 1.0 for cut in cuts):
        raise ParameterError(f"cuts must be shares of the rows, above 0 and below 1, at least one, got {cuts!r}.")
    X, labels, weights = _read_history(X, y, sample_weight, order)
    say_progress = on_progress or (lambda _: None)
    n_rows = len(labels)
    looks: list[Look] = []
    later: set[str] = set()
    scales = [ERRORS]
    with one_blas_thread():
        for number, cut in enumerate(cuts):
            first = round(cut * n_rows)
            if first < n_rows and model.can_learn(labels[:first]):
                part = _safe_indexing(X, np.arange(first))
                features = X if prepare is None else prepare(part)(X)
                later |= _later_classes(model, labels, first)
                for look, scale in _replay(model, _LabelledPast(features, labels, weights), first, batch_size):
                    looks.append(look)
                    scales.append(scale)
                    say_progress((number + (look.stop - first) / (n_rows - first)) / len(cuts))
    say_progress(1.0)
    # On the scale of the longest reference.
    evidence = measure_evidence(looks, scales[-1])
    return Backtest(
        n_reference=n_rows,
        looks=tuple(looks),
        evidence=evidence,
        adaptation=model.adaptation,
        scale=scales[-1],
        later_classes=tuple(sorted(later)),
    )


def _later_classes(model: Any, labels: NDArray[Any], first: int) -> set[str]:
    """Return the classes that none of the first rows has; nothing for numbers."""
    return set(map(str, np.setdiff1d(labels[first:], labels[:first]).tolist())) if is_classifier(model) else set()


@dataclass(frozen=True)
class _LabelledPast:
    """Labelled rows in order of time, as the replayed model reads them, with their base weights."""

    X: Any
    y: NDArray[Any]
    weights: FloatArray

    def rows(self, start: int, stop: int) -> Any:
        """Some of the rows."""
        return _safe_indexing(self.X, np.arange(start, stop))

    def mean(self, values: FloatArray, start: int, stop: int) -> float:
        """Weighted mean of values of the rows in a block; NaN if none of its rows has a weight."""
        weights = self.weights[start:stop]
        return float(np.average(values, weights=weights)) if weights.any() else float("nan")


def _read_history(X: Any, y: Any, sample_weight: Any, order: Any) -> tuple[Any, NDArray[Any], FloatArray]:
    """Return rows, labels and base weights in order of time."""
    labels = read_one_column(y, "y")
    n_rows = count_rows(X) if hasattr(X, "shape") else len(X)
    require_as_many(labels, n_rows)
    if n_rows < FEWEST_ROWS:
        raise DataError(f"A backtest needs at least {FEWEST_ROWS} labelled rows, got {n_rows}.")
    weights = read_base_weights(sample_weight, n_rows)
    rows = np.arange(n_rows) if order is None else read_order(order, n_rows)
    return _safe_indexing(X, rows), labels[rows], weights[rows]


def _replay(model: Any, history: _LabelledPast, first: int, batch_size: int) -> Iterator[tuple[Look, LossScale]]:
    """Fit on the first rows, adapt on the others, and look after every block, on the scale of these rows."""
    y = history.y
    # The two predictors of "auto" are combined as in the model, if it knows how: what a replay held out of its few rows
    # would say less.
    part = clone(model).fit_with(
        history.rows(0, first),
        y[:first],
        sample_weight=history.weights[:first],
        order=False,
        combination=getattr(model, "combination_", None),
    )
    part.rules_, part.state_ = replace(part.rules_, guard=FREE, is_replay=True), under_guard(part.state_, FREE)
    n_rows, block = len(y), max(_SMALLEST_BLOCK, len(y) // 10)
    # A short block at the end joins the block before it.
    stops = [*range(first + block, n_rows - block // 2, block), n_rows]
    start = first
    for stop in stops:
        predicted: list[NDArray[Any]] = []
        pending = start  # rows from here on are predicted together, because trees take as long for ten as for hundreds
        for begin in range(start, stop, batch_size):
            end = min(begin + batch_size, stop)
            before = part.estimator_
            part.adapt(history.rows(begin, end))
            if end == stop or part.estimator_ is not before:
                predicted.append(part.predict_by(before, history.rows(pending, end)))
                pending = end
        losses = part.losses_on(y[start:stop], np.concatenate(predicted))
        yield _look(part, history, (start, stop), losses), part.fixed_.scale
        start = stop


def _look(part: Any, history: _LabelledPast, block: tuple[int, int], losses: FloatArray) -> Look:
    start, stop = block
    losses_fixed = part.losses_on(history.y[start:stop], part.predict_fixed(history.rows(start, stop)))
    return Look(
        n_reference=len(part.task_),
        start=start,
        stop=stop,
        error_fixed=history.mean(losses_fixed, start, stop),
        error_adapted=history.mean(losses, start, stop),
        drift=part.current().coverage.drift_strength,
    )


# --- Fits on a part of a reference


@dataclass(frozen=True)
class ReferenceParts:
    """A reference, and how a predictor is fitted on a part of its rows.

    Attributes
    ----------
    X : array or frame
        As the predictor reads it.
    task : Task
    weights : array of shape (n_rows,)
        Base weights.
    recipe : ErmRecipe
        How predictors are fitted.
    has_numbers : bool
        Whether the predictor reads rows as numbers, because it is the built-in one.
    """

    X: Any
    task: Task
    weights: FloatArray
    recipe: ErmRecipe
    has_numbers: bool

    def rows(self, rows: IntArray) -> Any:
        """Return some of the rows."""
        return self.X[rows] if isinstance(self.X, np.ndarray) else _safe_indexing(self.X, rows)

    def fit(self, rows: IntArray) -> Any:
        """Fit on some rows, with the classes that they have; one class alone is predicted always."""
        task, X = self.task.part(rows), self.rows(rows)
        weights = self.weights[rows]
        weights = weights if weights.any() else np.ones(len(rows))
        if task.is_constant:
            return DummyClassifier().fit(np.zeros((len(rows), 1)), task.truths)
        return self.recipe.on(X, task).fit(weights, None)


# --- What labelled history says about a model


@dataclass(frozen=True)
class Verification:
    """What the order of the reference in time has shown.

    Attributes
    ----------
    found : Order
        What is known about their order.
    order : array of shape (n_reference,), optional
        The rows, oldest first; None if they have no order in time.
    backtest : Backtest, optional
        The replay of the reference; None without an order, with few rows, or if a part could not be fitted alone.
    """

    found: Order
    order: IntArray | None = None
    backtest: Backtest | None = None


def order_of(model: Any, X: Any, order: Any) -> tuple[Order, IntArray | None]:
    """Return what is known about the order of a reference, given what ``fit`` was given, and its rows oldest first."""
    if not isinstance(order, Backtest):
        return find_order(order, X, model.task_.truths, has_classes=model.task_.has_classes)
    n_rows = len(model.task_)
    if order.n_reference != n_rows:
        raise DataError(f"The backtest replayed {order.n_reference} rows, but the reference has {n_rows}.")
    return Order(OrderKind.GIVEN), np.arange(n_rows)


def verify(
    model: Any,
    X: Any,
    y: Any,
    order: Any,
    found: Order,
    time_order: IntArray | None,
    on_progress: Callable[[float], None] = lambda _: None,
) -> Verification:
    """Replay the reference of a model that is being fitted, if it has an order in time."""
    if time_order is None or isinstance(order, Backtest):
        return Verification(found, time_order, order if isinstance(order, Backtest) else None)
    return Verification(found, time_order, _replay_or_none(model, X, y, time_order, on_progress))


def _replay_or_none(
    model: Any, X: Any, y: Any, order: IntArray, on_progress: Callable[[float], None]
) -> Backtest | None:
    if len(order) < FEWEST_ROWS:
        return None
    unfitted = clone(model)
    if model.task_.has_classes:
        unfitted.set_params(class_weight=None)  # the base weights have them already
    if hasattr(model, "combination_"):
        unfitted.combination_ = model.combination_
    try:
        return backtest(
            unfitted, X, y, order=order.argsort(), sample_weight=model.base_weight_, on_progress=on_progress
        )
    except ValueError:
        # No fit on some part of the reference alone, perhaps by the user's estimator.
        return None
