"""`KeyedAdapter`: one step from bytes to bytes, for one key or many."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from accous.arrays import BoolArray, FloatArray, IntArray
from accous.core.kernels_keys import Number, predict_rows
from accous.core.many_keys import N_EVENT_COLUMNS, KeyStack, make_stack
from accous.core.round import count_learners
from accous.diagnostics.losses import effective_sample_size
from accous.diagnostics.performance import FEWEST_LABELS, Estimate, expected
from accous.diagnostics.status import Finding, Reason, Status, judge
from accous.exceptions import DataError
from accous.keyed.rounds import (
    ChunkPlan,
    ChunkPlanner,
    KeyedRows,
    RoundPlanner,
    join_rows,
    ranges,
    settle_round,
    start_fits,
)
from accous.keyed.shared import (
    KeyEvent,
    Predictions,
    SharedModel,
    read_keys,
    read_numbers,
    read_times,
    require_length,
    score,
)
from accous.keyed.state import StateFormat, bytes_of
from accous.model.learning import faded_since, log_losses, weight_of_odds
from accous.model.performance import estimate_to_json, status_to_json
from accous.model.predictors import LinearPredictor
from accous.threads import one_blas_thread
from accous.validation import read_rows, select_columns

# --- What can be said of a key from its state: how good the model is there, and what changed since when


_N_ROWS = 500
_MANY_OUTSIDE = 0.2


class KeyReading(NamedTuple):
    """What is known of one key, by the names of ``accous status --json``.

    Attributes
    ----------
    key : object
    rounds, rows, late_rows : int
        Rounds run, rows learned from, and rows that came too late.
    time : float
        The newest time; NaN without times.
    state : {"healthy", "degraded", "uncertain"}
    metric : str
    value, low, high : float or None
        What the metric is of the model in use, if labels still follow from inputs as they did.
    basis : str
        "labels" for the error of a key that has thirty of them, else "expected".
    at_fit : float or None
        The same metric on held-out rows of the reference.
    reasons : list of dict
        Each with ``code``, ``number`` and ``text``; the first one decided the state.
    advice : dict
        With ``code``, ``n``, ``command`` and ``text``.
    effective_rows : float
        Effective rows of the reference.
    drift : float
        How well the weights tell the key's rows from the reference, twice the area under the curve minus 1, or the
        share of rows out of bound if that is more; in [0, 1].
    is_adapted : bool
        Whether an adapted model predicts.
    changes : int
        Changes of the inputs so far.
    since_round, since_time : int and float
        When the last of them was noticed; 0 and NaN if there was none.
    is_moving : bool
        Whether it is still going on.
    columns : tuple of str
        The columns that carry half of it.
    """

    key: Any
    rounds: int
    rows: int
    late_rows: int
    time: float
    state: str
    metric: str
    value: float | None
    low: float | None
    high: float | None
    basis: str
    at_fit: float | None
    reasons: list[dict[str, Any]]
    advice: dict[str, Any]
    effective_rows: float
    drift: float
    is_adapted: bool
    changes: int
    since_round: int
    since_time: float
    is_moving: bool
    columns: tuple[str, ...]


def read_key(shared: SharedModel, stack: KeyStack, key: int, name: Any) -> KeyReading:
    """Return what is known of a key of a stack."""
    numbers, weights = stack.numbers[:, key], _weights(shared, stack, key)
    is_adapted = bool(stack.is_moved[key]) and not numbers[Number.IS_HELD]
    adapted = shared.predictor(stack.predictors[key]) if is_adapted else None
    outside = float(numbers[Number.N_RECENT_OUT]) / max(1.0, float(numbers[Number.N_RECENT]))
    drift = max(outside, drift_of(weights, shared.rules.base_weight))
    with one_blas_thread():
        now = _with_labels(_expected(shared, weights, adapted), numbers)
        said = status_to_json(_judge(shared, now, drift, outside))
    columns = numbers[Number.EVENT_COLUMNS : Number.EVENT_COLUMNS + N_EVENT_COLUMNS]
    return KeyReading(
        key=name,
        rounds=int(numbers[Number.N_ROUNDS]),
        rows=int(numbers[Number.N_ROWS]),
        late_rows=int(numbers[Number.N_LATE]),
        time=float(numbers[Number.NEWEST_TIME]),
        metric=now.metric,
        **estimate_to_json(now),
        **{each: said[each] for each in ("state", "reasons", "advice")},
        effective_rows=effective_sample_size(weights),
        drift=drift,
        is_adapted=is_adapted,
        changes=int(numbers[Number.N_EVENTS]),
        since_round=int(numbers[Number.EVENT_ROUND]),
        since_time=float(numbers[Number.EVENT_TIME]) if numbers[Number.EVENT_ROUND] else math.nan,
        is_moving=bool(numbers[Number.EVENT_ROUND]) and math.isnan(numbers[Number.EVENT_ROUNDS]),
        columns=tuple(shared.rules.names[int(column) - 1] for column in columns if column),
    )


def _weights(shared: SharedModel, stack: KeyStack, key: int) -> FloatArray:
    """Return the weights of the reference at a key's theta."""
    return shared.rounds.weights_of(stack, key, shared.rounds.weighing_now(stack, key))


def drift_of(weights: FloatArray, base: FloatArray) -> float:
    """Return twice the area under the curve minus 1 when the ratio tells weighted rows from those of the reference.

    That is the unit of `accous.diagnostics.drift.drift_strength`, without recent rows.

    Examples
    --------
    >>> import numpy as np
    >>> drift_of(np.ones(4), np.ones(4)), drift_of(np.array([0.0, 0.0, 2.0, 2.0]), np.ones(4))
    (0.0, 0.5)
    """
    order = np.argsort(weights / base, kind="stable")
    before, now = base[order] / base.sum(), weights[order] / weights.sum()
    return max(0.0, 2.0 * float(now @ (np.cumsum(before) - 0.5 * before)) - 1.0)


def _expected(shared: SharedModel, weights: FloatArray, adapted: LinearPredictor | None) -> Estimate:
    """Return what is expected of the model in use on held-out rows, weighted as the key's inputs are."""
    rules = shared.rules
    metric, held, calibration = rules.measures.metric, rules.held_out.predictions, rules.held_out.calibration
    if held is None or calibration is None:
        return Estimate(metric.name, math.nan, math.nan, math.nan, "expected", math.nan, 0)
    shares = np.cumsum(weights[held.rows])
    places = shares[-1] * (np.arange(_N_ROWS) + 0.5) / _N_ROWS
    chosen = np.minimum(np.searchsorted(shares, places), len(shares) - 1)
    recent = calibration.held_out[chosen]
    if adapted is not None:
        recent = rules.measures.made_by(adapted, rules.reference[held.rows[chosen]])
    return expected(metric, calibration, recent)


def _with_labels(now: Estimate, numbers: FloatArray) -> Estimate:
    """Return what a key's labels say of its error, if there are enough of them; the interval is that of Jeffreys."""
    n_since = numbers[Number.N_ROWS] - numbers[Number.LABELS_ROW]
    n_labels, n_wrong = numbers[[Number.N_LABELS, Number.N_WRONG]] * faded_since(n_since)
    if now.metric != "error" or n_labels < FEWEST_LABELS:
        return replace(now, n_labels=int(n_labels))
    low, high = betaincinv(n_wrong + 0.5, n_labels - n_wrong + 0.5, np.array([0.05, 0.95])).tolist()
    value = float(n_wrong / n_labels)
    return Estimate("error", value, min(low, value), max(high, value), "labels", now.at_fit, int(n_labels))


def _judge(shared: SharedModel, now: Estimate, drift: float, outside: float) -> Status:
    rules = shared.rules
    metric, held = rules.measures.metric, rules.held_out
    history = held.history(metric, rules.cover)
    tolerance = rules.measures.tolerated(metric, now.at_fit, math.nan)
    also = (Reason(Finding.FEW_INSIDE, outside),) if outside >= _MANY_OUTSIDE else ()
    has_learned = shared.learned is not None
    return judge(metric, now, history, drift, tolerance=tolerance, learned_predicts=has_learned, also=also)


# --- KeyedAdapter: one step from bytes to bytes, for one key or many


# --- The rounds of some keys in one call: read the states, run the rounds wave by wave, write the states


class ChunkResult(NamedTuple):
    """What the rounds of some keys gave.

    Attributes
    ----------
    states : list of bytes
        One per key.
    rows : Rows
        The rows that were predicted.
    owners, rounds, class_numbers : arrays of shape (n_rows,)
        Place of the key of each row, its round, and its predicted class.
    probabilities : array of shape (n_rows, n_classes)
    events : list of KeyEvent
    """

    states: list[bytes]
    rows: KeyedRows
    owners: IntArray
    rounds: IntArray
    class_numbers: IntArray
    probabilities: FloatArray
    events: list[KeyEvent]


class _RowsRead(NamedTuple):
    """Rows, and how the predictors of keys read them."""

    X: FloatArray
    scored: FloatArray


class _Outcome(NamedTuple):
    """What is written down for each row; round 0 means that it was not predicted."""

    probabilities: FloatArray
    class_numbers: IntArray
    rounds: IntArray


_MOST_SPARE = 4


class KeyRunner:
    """Runs the rounds of a few dozen keys at a time.

    Parameters
    ----------
    shared : SharedModel
    planner : ChunkPlanner
    form : StateFormat
    """

    def __init__(self, shared: SharedModel, planner: ChunkPlanner, form: StateFormat) -> None:
        self._shared, self._planner, self._form = shared, planner, form
        self._fixed = shared.fixed.coefs[None].copy()
        self._step_sizes: dict[int, float] = {}
        none = np.empty(0, dtype=np.int64)
        self._no_rows = KeyedRows(np.empty((0, shared.shape.n_features)), np.empty(0), none, none > 0, none)
        self._no_matrix = self._no_rows.to_matrix()
        # A few stacks that no call uses now, by their number of keys. A call takes one out, and puts it back.
        self._spare: dict[int, KeyStack] = {}

    def __getstate__(self) -> dict[str, Any]:
        # The views that a stack keeps of its arrays would come back as arrays of their own.
        return vars(self) | {"_spare": {}}

    def run(
        self, names: list[Any], states: list[bytes | None], new: KeyedRows, counts: IntArray, *, is_last: bool
    ) -> ChunkResult:
        """Run all rounds that the new rows complete.

        Parameters
        ----------
        names : list
            The keys.
        states : list of bytes or None
            One per key; None before its first row.
        new : Rows
            Of all keys, one key after the other.
        counts : array of shape (n_keys,)
            How many of them each key has.
        is_last : bool
            Whether no more rows will come.
        """
        stack, waiting = self.read(names, states, max(counts.tolist(), default=0))
        plan = self._planner.plan(stack, waiting, new, counts, is_last=is_last)
        outcome, rows = self._outcome_of(len(plan.rows)), self._rows_read(plan.rows.X)
        events: list[KeyEvent] = []
        has_times = len(plan.rows) > 0 and not math.isnan(plan.rows.times[0])
        for wave in range(max(plan.n_rounds.tolist(), default=0)):
            active = plan.keys_of_round(wave)
            firsts, lasts = plan.rows_of_round(active, wave)
            indices, starts = self._places(firsts, lasts)
            if has_times:
                newest = np.maximum.reduceat(plan.rows.times[indices], starts[:-1])
                stack.numbers[Number.ROUND_TIME, active] = np.fmax(stack.numbers[Number.ROUND_TIME, active], newest)
            self._predict(stack, active, firsts, lasts, rows, outcome)
            events += self._run_round(stack, active, rows.X[indices], starts, names)
        # Rows that are taken as they come are all predicted, and none was before if none waited.
        result = self._finish(stack, plan, outcome, events, is_whole=plan.rows is new)
        self._put_back(stack)
        return result

    @staticmethod
    def _places(firsts: IntArray, lasts: IntArray) -> tuple[IntArray | slice, IntArray]:
        """Return the places of rows between these, and where each key's rows begin among them."""
        if len(firsts) == 1:
            first, last = int(firsts[0]), int(lasts[0])
            return slice(first, last), np.array([0, last - first])
        return ranges(firsts, lasts)

    def read(
        self, names: list[Any], states: list[bytes | None], most_rows: int = 0
    ) -> tuple[KeyStack, list[KeyedRows]]:
        """Return keys as a stack, with room for the rounds that so many rows per key can make, and the waiting rows."""
        shared, n_keys = self._shared, len(states)
        stack = self._empty_stack(n_keys, count_learners(most_rows + 1, shared.min_interval))
        waiting, new, known = [self._no_rows] * n_keys, [], stack.keys
        if None in states:
            new = [key for key, state in enumerate(states) if state is None]
            known = np.delete(known, new)
        if len(new) < n_keys:
            stored, known_names = [bytes_of(state) for state in states if state is not None], names
            if new:
                known_names = [names[key] for key in known.tolist()]
            stack, rows = self._form.unpack(stored, known_names, most_rows, stack, known)
            for key, matrix in rows.items():
                waiting[key] = KeyedRows.from_matrix(matrix)
        if new:
            self._start(stack, np.array(new))
        shared.rounds.restore(stack, stack.keys)
        return stack, waiting

    def _empty_stack(self, n_keys: int, n_learners: int) -> KeyStack:
        stack = self._spare.pop(n_keys, None)
        if stack is None or stack.coefs.shape[1] < n_learners:
            return make_stack(self._shared.shape, n_keys, n_learners)
        return stack

    def _put_back(self, stack: KeyStack) -> None:
        if len(self._spare) >= _MOST_SPARE:
            self._spare.clear()
        self._spare[len(stack)] = stack

    def _start(self, stack: KeyStack, keys: IntArray) -> None:
        stack.clear(keys)
        self._shared.rounds.start(stack, keys)
        start_fits(self._shared, stack, keys)
        for number in (Number.NEWEST_TIME, Number.CLOSED_TIME, Number.ROUND_TIME):
            stack.numbers[number, keys] = np.nan

    def nothing(self) -> ChunkResult:
        """Return what no keys give."""
        none = np.empty(0, dtype=np.int64)
        return ChunkResult([], self._no_rows, none, none, none, np.empty((0, len(self._shared.label_classes))), [])

    def _outcome_of(self, n_rows: int) -> _Outcome:
        n_classes = len(self._shared.label_classes)
        counts = np.zeros((2, n_rows), dtype=np.int64)
        return _Outcome(np.zeros((n_rows, n_classes)), counts[0], counts[1])

    def _rows_read(self, X: FloatArray) -> _RowsRead:
        bounds = self._shared.fixed.bounds
        return _RowsRead(X, X if bounds is None else bounds.clipped(X))

    def _run_round(
        self, stack: KeyStack, active: IntArray, X: FloatArray, starts: IntArray, names: list[Any]
    ) -> list[KeyEvent]:
        """Run one round of each active key: the steps are those of `accous.model.round.run_round`."""
        shared = self._shared
        features, is_long = shared.ratio.features_.transform_each(X)
        if shared.ratio.bounds is not None:
            features, _ = shared.ratio.features_.transform_each(shared.ratio.bounds.clipped(X))
        step_sizes = np.array([self._step_size(n) for n in (starts[1:] - starts[:-1]).tolist()])
        shared.rounds.run(stack.arrays, active, features, starts, step_sizes, stack.arrays, stack.workspace)
        return settle_round(shared, stack, active, starts, is_long, names)

    def _step_size(self, n_rows: int) -> float:
        found = self._step_sizes.get(n_rows)
        if found is None:
            found = self._step_sizes[n_rows] = self._shared.ratio.step_size_for(n_rows)
        return found

    def _predict(
        self, stack: KeyStack, keys: IntArray, firsts: IntArray, lasts: IntArray, rows: _RowsRead, outcome: _Outcome
    ) -> FloatArray:
        """Predict rows of some keys by the state before their round; return what their own predictors say."""
        shared, own = self._shared, outcome.probabilities
        if shared.learned is not None:
            own = np.empty((len(rows.X), len(shared.classes)))
        of_stack = stack.predictors, stack.is_moved, stack.numbers
        predict_rows(keys, firsts, lasts, rows.scored, self._fixed[0], *of_stack, own, *outcome[1:])
        if shared.learned is not None:
            places, _ = ranges(firsts, lasts)
            weight = self._weights_of_learned(stack)[np.repeat(keys, lasts - firsts)]
            mixed = shared.mixed(own[places], shared.of_learned(rows.X[places]), weight)
            outcome.probabilities[places], outcome.class_numbers[places] = mixed, mixed.argmax(axis=1)
        return own

    def _weights_of_learned(self, stack: KeyStack) -> FloatArray:
        """Return the weight of what labels taught in each key: the model's odds, times what the key's labels say."""
        return weight_of_odds(self._shared.first_odds, stack.numbers[Number.GAIN])

    def observe(
        self, names: list[Any], states: list[bytes | None], X: FloatArray, truths: IntArray, counts: IntArray
    ) -> list[bytes]:
        """Count labels of rows of some keys: how often the key is wrong now, and how much better labels predict."""
        stack, waiting = self.read(names, states)
        numbers, outcome, lasts = stack.numbers, self._outcome_of(len(X)), np.cumsum(counts)
        own = self._predict(stack, stack.keys, lasts - counts, lasts, self._rows_read(X), outcome)
        owners = np.repeat(stack.keys, counts)
        gains = np.zeros(len(X))
        if self._shared.learned is not None:
            learned = self._shared.of_learned(X)
            both = [self._shared.mixed(own, learned, np.full(len(X), weight)) for weight in (0.0, 1.0)]
            losses = [log_losses(np.where(truths < 0, 0.0, each[np.arange(len(X)), truths])) for each in both]
            gains = losses[0] - losses[1]
        faded = [Number.N_LABELS, Number.N_WRONG, Number.GAIN]
        numbers[faded] *= faded_since(numbers[Number.N_ROWS] - numbers[Number.LABELS_ROW])
        for number, of_rows in zip(faded, (np.ones(len(X)), outcome.class_numbers != truths, gains), strict=True):
            numbers[number] += np.bincount(owners, of_rows, len(stack))
        numbers[Number.LABELS_ROW] = numbers[Number.N_ROWS]
        ends = np.cumsum([len(each) for each in waiting])
        firsts = np.concatenate(([0], ends[:-1]))
        after = self._form.pack(stack, join_rows(waiting).to_matrix(), firsts, ends)
        self._put_back(stack)
        return after

    def _finish(
        self, stack: KeyStack, plan: ChunkPlan, outcome: _Outcome, events: list[KeyEvent], *, is_whole: bool
    ) -> ChunkResult:
        rows, matrix = plan.rows, self._no_matrix
        ends = lasts = stack.keys  # any numbers, if they are equal: no rows wait
        if plan.n_left:
            ends, lasts = plan.ends, plan.offsets[1:]
            self._predict(stack, stack.keys, ends, ends + plan.n_open, self._rows_read(rows.X), outcome)
            matrix = KeyedRows(rows.X, rows.times, rows.numbers, outcome.rounds > 0, rows.positions).to_matrix()
        result = ChunkResult(
            self._form.pack(stack, matrix, ends, lasts),
            rows,
            plan.owners,
            outcome.rounds,
            outcome.class_numbers,
            outcome.probabilities,
            events,
        )
        if not is_whole:
            is_out = ~rows.is_predicted & (outcome.rounds > 0)
            result = result if is_out.all() else _some_rows(result, is_out)
        return result if plan.beside is None else self._with_beside(plan, result)

    def _with_beside(self, plan: ChunkPlan, result: ChunkResult) -> ChunkResult:
        """Add late rows that are predicted and not learned from.

        By the fixed predictor: the state of their round is gone, and the state of now depends on which other rows
        happen to be in the call.
        """
        beside, owners = plan.beside, plan.beside_owners
        assert beside is not None
        assert owners is not None
        shared, nobody = self._shared, np.zeros(len(beside), dtype=np.int64)
        scores, found = score(nobody, beside.X, self._fixed, shared.fixed)
        class_numbers = scores.argmax(axis=1) if scores.shape[1] > 1 else (scores[:, 0] > 0.0).astype(np.int64)
        if shared.learned is not None:
            found = shared.mixed(found, shared.of_learned(beside.X), np.zeros(len(beside)))
            class_numbers = found.argmax(axis=1)
        return ChunkResult(
            result.states,
            join_rows([result.rows, beside]),
            np.concatenate((result.owners, owners)),
            np.concatenate((result.rounds, nobody)),
            np.concatenate((result.class_numbers, class_numbers)),
            np.concatenate((result.probabilities, found)),
            result.events,
        )


def _some_rows(result: ChunkResult, is_out: BoolArray) -> ChunkResult:
    return ChunkResult(
        result.states,
        result.rows.take(is_out),
        result.owners[is_out],
        result.rounds[is_out],
        result.class_numbers[is_out],
        result.probabilities[is_out],
        result.events,
    )


# --- KeyedAdapter: one model per key, as a step from bytes to bytes that any engine can call


_MOST_KEYS = 256  # a call of numpy takes no longer for them than for one
_MOST_NUMBERS = 4_000_000  # of the arrays that a call makes for the keys that run together


class KeyedAdapter:
    """One adaptive model per key, all on one reference.

    The adapter holds what the keys share: the reference, the fixed predictor and the compiled loops. What one key has
    learned is a few kilobytes that you keep. `step` takes them with new rows of the key and returns them as they are
    afterwards; it has no memory of its own, so any engine that can store bytes per key can run it.

    Rows of a key are cut into rounds of ``round_size`` rows, or by time. Each row is predicted by the state before its
    round. Rows that do not complete a round wait inside the state. The same rows of a key in the same order give the
    same predictions and the same state, bit for bit, however they are spread over calls.

    Parameters
    ----------
    model : AdaptiveClassifier
        Fitted, with the built-in predictor and a ratio with a pool, which are the defaults.
    round_size : int, default=10
        Rows of a round.
    round_time : float, optional
        Length of a round in the unit of the times: a round is then all rows whose time falls into the same interval.
    lateness : float, optional
        How much older than the newest row of its key a row may be when it arrives. Rows then wait until nothing older
        can come, and are taken in the order of their times. None takes rows in the order in which they come.
    late : {"next", "count", "drop"}, default="next"
        What happens to rows that are older than that: they join the next round; they are predicted by the fixed model
        and counted, but not learned from; they are only counted.

    Examples
    --------
    >>> import numpy as np
    >>> from accous import AdaptiveClassifier
    >>> from accous.keyed import KeyedAdapter
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> adapter = KeyedAdapter(AdaptiveClassifier().fit(X, X[:, 0] > 0), round_size=5)
    >>> state, predictions, events = adapter.step(None, rng.normal(size=(12, 3)))
    >>> len(predictions), predictions.rounds.tolist()
    (12, [1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3])
    >>> state, predictions, events = adapter.step(state, rng.normal(size=(3, 3)))
    >>> predictions.rounds.tolist()
    [3, 3, 3]
    """

    def __init__(
        self,
        model: Any,
        *,
        round_size: int = 10,
        round_time: float | None = None,
        lateness: float | None = None,
        late: str = "next",
    ) -> None:
        self._planner = RoundPlanner(round_size=round_size, round_time=round_time, lateness=lateness, late=late)
        self.shared = SharedModel(model)
        self.settings = {
            "round_size": int(round_size),
            "round_time": None if round_time is None else float(round_time),
            "lateness": None if lateness is None else float(lateness),
            "late": late,
        }
        self.fingerprint = self.shared.fingerprint(self.settings)
        self._form = StateFormat(self.shared.shape, self.shared.ratio.rounds_.settings, self.fingerprint)
        self.runner = KeyRunner(self.shared, ChunkPlanner(self._planner), self._form)
        shape = self.shared.shape
        self._n_together = max(1, min(_MOST_KEYS, _MOST_NUMBERS // (shape.n_reference * (shape.n_slots + 3))))

    def step(
        self, state: bytes | None, X: Any, times: Any = None, *, numbers: Any = None, is_last: bool = False
    ) -> tuple[bytes, Predictions, list[KeyEvent]]:
        """Take new rows of one key.

        Parameters
        ----------
        state : bytes or None
            What the last call for this key returned; None before the first.
        X : array or frame of shape (n_rows, n_features)
            In any number; no rows are allowed too. The columns of a frame are found by their names.
        times : array of shape (n_rows,), optional
            When each row happened: numbers or datetimes (read as seconds). Rows of a call are taken in their order.
        numbers : array of int, optional
            What `Predictions` call the rows.
        is_last : bool, default=False
            Whether no more rows will come, so that none has to wait for rows that may be late.

        Returns
        -------
        state : bytes
        predictions : Predictions
        events : list of KeyEvent
        """
        rows = self._read(X, times, numbers)
        in_order = rows if times is None else rows.in_order()
        result = self.runner.run([None], [state], in_order, np.array([len(rows)]), is_last=is_last)
        predictions = self._predictions_of_one(None, result, rows)
        return result.states[0], predictions, result.events

    def step_many(
        self,
        states: Mapping[Any, bytes | None],
        keys: Any,
        times: Any,
        X: Any,
        *,
        numbers: Any = None,
        is_last: bool = False,
    ) -> tuple[dict[Any, bytes], Predictions, list[KeyEvent]]:
        """Take new rows of many keys; each key gets what `step` would give it, bit for bit.

        Parameters
        ----------
        states : mapping of key to bytes
            Keys that have none, or None, start. Keys without new rows are left alone, unless ``is_last``.
        keys : array of shape (n_rows,)
            The key of each row: numbers, texts or anything else that a dict takes. None and NaN are refused.
        times : array of shape (n_rows,) or None
        X : array or frame of shape (n_rows, n_features)
        numbers : array of int, optional
        is_last : bool, default=False
            Whether no more rows will come for any key in ``states``.

        Returns
        -------
        states : dict of key to bytes
            Of the keys that had rows.
        predictions : Predictions
        events : list of KeyEvent
        """
        if not isinstance(states, Mapping):
            raise DataError(f"states must be a dict of key to bytes, got {type(states).__name__}: begin with {{}}.")
        read = self._read(X, times, numbers)
        names, codes = read_keys(keys, len(read), list(states) if is_last else [])
        rows, counts = _by_key(read, codes, len(names), has_times=times is not None)
        ends = np.cumsum(counts)
        # Keys with as many rows run together, so that few of them wait for the others.
        order = np.argsort(-counts, kind="stable")
        parts: list[IntArray] = []
        result: list[ChunkResult] = []
        after: dict[Any, bytes] = dict.fromkeys(names, b"")
        for first in range(0, len(names), self._n_together):
            part = np.sort(order[first : first + self._n_together])
            of_part = [names[key] for key in part.tolist()]
            indices = np.concatenate([np.arange(ends[key] - counts[key], ends[key]) for key in part.tolist()])
            before = [states.get(name) for name in of_part]
            some = rows.take(indices)
            result.append(self.runner.run(of_part, before, some, counts[part], is_last=is_last))
            after.update(zip(of_part, result[-1].states, strict=True))
            parts.append(part)
        events = [event for each in result for event in each.events]
        return after, self._predictions(names, result, parts, read), events

    def observe(self, states: Mapping[Any, bytes | None], keys: Any, X: Any, y: Any) -> dict[Any, bytes]:
        """Take labels of rows: each key measures its error with them, and learns how far to believe its predictors.

        These are its own and the one that the model has learned from labels of all keys (`AdaptiveClassifier.observe`).
        Labels of a thousand rows of the key before count 0.7. A key remembers no rows: a label that comes twice counts
        twice, and rows are predicted as they would be now.

        Parameters
        ----------
        states : mapping of key to bytes
        keys : array of shape (n_rows,)
        X : array or frame of shape (n_rows, n_features)
        y : array of shape (n_rows,)
            Their classes. One that the model cannot predict is an error.

        Returns
        -------
        dict of key to bytes
            The states of the keys that had labels.
        """
        X = select_columns(self.shared.model, X)
        rows = np.ascontiguousarray(read_rows(self.shared.model, X, reset=False, min_rows=0))
        names, codes = read_keys(keys, len(rows), [])
        places = {label: place for place, label in enumerate(self.shared.label_classes.tolist())}
        truths = np.array([places.get(label, -1) for label in np.asarray(y).tolist()], dtype=np.int64)
        require_length("y", len(truths), len(rows))
        if len(truths) and (truths < 0).all():
            raise DataError(f"None of the labels is a class of the model; the first is {np.asarray(y)[0]!r}.")
        after: dict[Any, bytes] = {}
        for first in range(0, len(names), self._n_together):
            part = names[first : first + self._n_together]
            order = np.argsort(codes, kind="stable")
            order = order[(codes[order] >= first) & (codes[order] < first + len(part))]
            counts = np.bincount(codes[order] - first, minlength=len(part))
            found = self.runner.observe(part, [states.get(key) for key in part], rows[order], truths[order], counts)
            after.update(zip(part, found, strict=True))
        return after

    def rounds_of(self, state: bytes) -> int:
        """Return how many rounds a state has run."""
        return self._form.age(state)[1]

    def rows_seen(self, state: bytes) -> int:
        """Return how many rows of its key a state has seen: of two states of a key, the later one has seen more."""
        return self._form.age(state)[0]

    def readings(self, states: Mapping[Any, bytes]) -> list[KeyReading]:
        """Return what is known of each key: state, expected metric, effective rows, and what changed since when.

        Parameters
        ----------
        states : mapping of key to bytes

        Returns
        -------
        list of KeyReading
            In the order of the keys.
        """
        found: list[KeyReading] = []
        names = list(states)
        for first in range(0, len(names), self._n_together):
            part = names[first : first + self._n_together]
            stack, _ = self.runner.read(part, [states[name] for name in part])
            found += [read_key(self.shared, stack, key, name) for key, name in enumerate(part)]
        return found

    def _read(self, X: Any, times: Any, numbers: Any) -> KeyedRows:
        rows = read_rows(self.shared.model, select_columns(self.shared.model, X), reset=False, min_rows=0)
        n_rows = len(rows)
        if times is None and self._planner.needs_times:
            raise DataError("KeyedAdapter needs times for round_time, lateness or late: pass times, one per row.")
        positions = np.arange(n_rows)
        return KeyedRows(
            np.ascontiguousarray(rows, dtype=np.float64),
            _nothing(n_rows, np.nan) if times is None else read_times(times, n_rows),
            _nothing(n_rows, -1) if numbers is None else read_numbers(numbers, n_rows),
            np.zeros(n_rows, dtype=np.bool_),
            positions,
        )

    def _predictions(
        self, names: list[Any], result: list[ChunkResult], parts: Sequence[IntArray], read: KeyedRows
    ) -> Predictions:
        """Put together what all parts predicted, given the rows as the caller gave them."""
        if not result:
            result, parts = [self.runner.nothing()], [np.empty(0, dtype=np.int64)]
        if len(names) == 1:
            return self._predictions_of_one(names[0], result[0], read)
        together = [each.rows for each in result]
        positions = np.concatenate([rows.positions for rows in together])
        is_in_order = len(result) == 1 and bool((positions[1:] > positions[:-1]).all())
        order = slice(None) if is_in_order else np.argsort(positions, kind="stable")

        def joined(arrays: list[NDArray[Any]]) -> NDArray[Any]:
            return arrays[0] if is_in_order else np.concatenate(arrays)[order]

        times: FloatArray = joined([rows.times for rows in together])
        owners = joined([part[each.owners] for part, each in zip(parts, result, strict=True)])
        keys = np.empty(len(names), dtype=object)
        keys[:] = names
        times = self._as_given(times, positions[order], read.times)
        probabilities: FloatArray = joined([each.probabilities for each in result])
        return Predictions(
            keys=keys[owners],
            numbers=joined([rows.numbers for rows in together]),
            times=times,
            rounds=joined([each.rounds for each in result]),
            classes=self.shared.label_classes[joined([each.class_numbers for each in result])],
            probabilities=probabilities,
            positions=positions[order],
        )

    def _predictions_of_one(self, name: Any, result: ChunkResult, read: KeyedRows) -> Predictions:
        """Do the same for a single key, in less time."""
        rows, classes = result.rows, self.shared.label_classes[result.class_numbers]
        keys = np.empty(len(classes), dtype=object)
        keys.fill(name)
        found = Predictions(
            keys=keys,
            numbers=rows.numbers,
            times=self._as_given(rows.times, rows.positions, read.times),
            rounds=result.rounds,
            classes=classes,
            probabilities=result.probabilities,
            positions=rows.positions,
        )
        if rows is read:
            return found
        order = rows.positions.argsort(kind="stable")
        return Predictions(*(getattr(found, each.name)[order] for each in fields(found)))

    def _as_given(self, times: FloatArray, positions: IntArray, given: FloatArray) -> FloatArray:
        """Return the times that the caller gave: a late row may have been given that of the round that it joined."""
        if self._planner.moves_late_rows and len(given):
            return np.where(positions >= 0, given[positions], times)
        return times


def _nothing(n_rows: int, value: float) -> NDArray[Any]:
    """Return an array of one value; `np.full` takes several times as long for a few rows."""
    array = np.empty(n_rows, dtype=type(value))
    array.fill(value)
    return array


def _by_key(rows: KeyedRows, codes: IntArray, n_keys: int, *, has_times: bool) -> tuple[KeyedRows, IntArray]:
    """Return the rows with those of a key together, in the order of their times, and how many each key has."""
    order = np.lexsort((rows.times, codes)) if has_times else np.argsort(codes, kind="stable")
    if has_times:
        times, sorted_codes = rows.times[order], codes[order]
        if ((times[1:] == times[:-1]) & (sorted_codes[1:] == sorted_codes[:-1])).any():
            order = np.lexsort((rows.numbers, *rows.X.T[::-1], rows.times, codes))
    return rows.take(order), np.bincount(codes, minlength=n_keys)
