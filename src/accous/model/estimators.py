"""`AdaptiveClassifier` and `AdaptiveRegressor`: fitted once on a labelled reference, then adapted without labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from numbers import Integral
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone, is_classifier
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.metaestimators import available_if

from accous.arrays import FloatArray, IntArray
from accous.diagnostics.drift import ReferenceColumns
from accous.diagnostics.losses import FEWEST_LATE, conformal_limits, read_loss, with_feedback
from accous.exceptions import DataError, ParameterError
from accous.model.backtest import (
    Backtest,
    ReferenceParts,
    Verification,
    order_of,
    verify,
)
from accous.model.heldout import (
    FEWEST_ROWS_OF_TREES,
    Combination,
    HeldOut,
    HeldOutReference,
    Measures,
    combine,
    held_out_of,
    read_measures,
    split_rows,
)
from accous.model.learning import (
    Learning,
    as_wide,
    choose_rows,
    learn_from,
    weights_to_fit,
)
from accous.model.order import Order, OrderKind
from accous.model.pair import (
    AUTO,
    LINEAR,
    LinearAndTrees,
    PairErm,
    PairOfClassifiers,
    PairRecipe,
    hold_out_both,
    make_trees,
)
from accous.model.performance import alarm_from_plain, labelled_from_plain, late_scores, read_labelled, read_probability
from accous.model.predictors import (
    N_QUICK_FOLDS,
    ErmRecipe,
    EstimatorRecipe,
    FitLog,
    LogisticRecipe,
    RidgeRecipe,
    WeightedErm,
    deviations_of_columns,
    is_sharing_fits,
    sharing_fits,
)
from accous.model.round import (
    AdaptationState,
    RoundRules,
    linear_to_plain,
    log_events,
    predictors_from_plain,
    rounds_between_refits,
    run_round,
    seconds_of,
    start_state,
    state_from_plain,
    state_to_plain,
    under_guard,
)
from accous.model.safeguards import ADAPTATIONS, FREE, FixedModel, choose_guard
from accous.model.snapshot import Snapshot, SnapshotReader, state_html
from accous.model.tasks import (
    ClassTask,
    NumberTask,
    Task,
    read_base_weights,
    read_class_task,
    read_targets,
    warn_of_findings,
)
from accous.model.watching import Read, ReferenceCover
from accous.ratio.base import RatioEstimator, unchanged_on_failure
from accous.ratio.online import NoShift, OnlineDensityRatio
from accous.text import require_choice, require_integer, require_number, require_share
from accous.threads import CALLBACKS_NAME, LOCK_NAME, Lockable, one_blas_thread, one_openmp_thread_if_few
from accous.validation import (
    Bounds,
    LearnedAttributes,
    append_rows,
    count_rows,
    naming_values,
    own_copy,
    read_frame,
    read_rows,
    require_finite,
    select_columns,
)

_ROWS_OF_ROUND, _NEVER = 10, 1 << 62
_MOST_MISSED = 0.1  # by so much fewer rows, the past refutes an interval
LARGEST_PENALTY = 1e100  # beyond it, sums of squares of it times the weights could exceed the largest number


class AdaptiveEstimator(LearnedAttributes, SnapshotReader, Lockable):
    """The life of `accous.AdaptiveClassifier` and `accous.AdaptiveRegressor`, whatever they predict.

    ``rules_`` is what ``fit`` set up, ``state_`` what the last round left; `accous.model.round` moves the state, and
    `accous.model.snapshot` reads from both.

    Attributes
    ----------
    penalty : str
        Name of the parameter that is the penalty of the built-in regression.
    """

    penalty: ClassVar[str]
    state_: AdaptationState
    rules_: RoundRules
    verification_: Verification
    holding_out_: HeldOutReference
    measures_: Measures
    task_: Any
    erm_: WeightedErm
    fixed_: FixedModel
    combination_: Combination
    base_weight_: FloatArray
    reference_: Any
    estimator: Any
    ratio: Any
    refit: int | str
    refit_budget: float | None = None
    rounds_between_refits_: int
    standardize: bool
    adaptation: str
    metric: str | None
    cost: Any = None
    threshold: float | None = None
    tolerance: float | None
    random_state: Any
    n_features_in_: int

    # --- what classes and numbers do in their own way ---------------------------------------------------------------

    def _read_task(self, y: Any, n_rows: int) -> Task:
        """Read the labels of a reference."""
        raise NotImplementedError

    def restore_task(self, stored: dict[str, NDArray[Any]]) -> None:
        """Take up the labels of the reference as files keep them: `Task.stored`."""
        raise NotImplementedError

    @staticmethod
    def can_learn(y: NDArray[Any]) -> bool:
        """Whether there is something to learn from these labels."""
        raise NotImplementedError

    def _own_recipe(self, scales: FloatArray | None, *, clips: bool) -> LogisticRecipe | RidgeRecipe:
        """Return the built-in regression; its penalty acts on columns divided by the scales."""
        raise NotImplementedError

    # --- fit, adapt, predict ------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, order: Any = "auto") -> Self:
        """Fit on a labelled reference and forget all earlier rounds.

        Parameters
        ----------
        X : array or frame of shape (n_reference, n_features)
        y : array of shape (n_reference,)
        sample_weight : array of shape (n_reference,), optional
            Base weights b, which the importance weights multiply.
        order : "auto", bool, array of shape (n_reference,) or Backtest, default="auto"
            Whether the rows are in order of time. "auto" takes them in the order of the frame's column of dates. If it
            has none, a test says whether the given order matters; it does not matter for rows drawn at random, nor for
            rows that are only sorted by their label or an id. ``order_`` says what was found. True and False say it
            themselves; an array gives the times: dates, numbers, or text in one ISO form, such as 2024-05-31 17:00.
            With an order, ``fit`` replays the reference (`accous.backtest`), and the outcome decides how far label-free
            estimates are believed and whether to adapt. Pass a `Backtest` if you have replayed the rows yourself; they
            are then in order of time. Without an order, nothing is verified. References of fewer than 100 rows are not
            replayed.

        Warns
        -----
        DataWarning
            If one column alone determines the label, a class has fewer than ten rows, or a column counts rows that are
            in order of time. References of fewer than 200 rows are not checked.
        """
        with unchanged_on_failure(self):
            self.fit_with(X, y, sample_weight, order=order)
            is_ordered = self.order_.kind in (OrderKind.GIVEN, OrderKind.FOUND)
            warn_of_findings(self._as_numbers(self.reference_), self.task_, self._names, is_ordered=is_ordered)
        return self

    def fit_with(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        order: Any = "auto",
        combination: Combination | None = None,
        held_out: HeldOut | None = None,
    ) -> Self:
        """Fit as ``fit`` does, without looking for misleading columns.

        Parameters
        ----------
        X, y, sample_weight, order : as for ``fit``
        combination : Combination, optional
            How the two predictors of ``"auto"`` are combined, if that is known; None finds out on held-out rows.
        held_out : HeldOut, optional
            Predictions for held-out rows, if they are known.
        """
        self._check_parameters()
        self.rounds_between_refits_ = 0
        vars(self).pop("_snapshot", None)
        say = FitLog()
        with self.lock(), unchanged_on_failure(self), one_blas_thread(), sharing_fits(), naming_values(X):
            rows = self._read(X, reset=True, min_rows=2)
            self.task_ = self._read_task(y, count_rows(rows))
            self.base_weight_ = read_base_weights(sample_weight, count_rows(rows)) * self.class_weights(self.task_)
            self.reference_ = own_copy(rows, X)
            ratio = self._bounded(self._make_ratio())
            ratio.fit(X)
            found, time_order = order_of(self, X, order)
            self._read_measures()
            combined = self._combine(
                time_order, combination, lambda share: say(f"{share:.0%} of the held-out rows are predicted")
            )
            say("fitting on the whole reference")
            self.erm_ = self._make_erm()
            estimator = self.erm_.fit(self.base_weight_, None)
            self.fixed_ = FixedModel(self.erm_, self.base_weight_, self.task_, estimator)
            self.verification_ = verify(
                self, X, y, order, found, time_order, lambda share: say(f"{share:.0%} of the replays are done")
            )
            self.hold_out(held_out or combined)
            self.rules_ = self._make_rules(ratio)
            self.state_ = start_state(ratio, self.base_weight_, estimator, self.n_features_in_, self.rules_.guard)
            self._limit_refits(rows, X)
            say("making the fits that later readings need")
            self._prepare_readings()
        say("done")
        return self

    def adapt(self, X_batch: Any, y: None = None) -> Self:
        """Run one round: learn from an unlabelled batch of any size.

        An empty batch changes nothing and does not count as a round. If anything fails, the model keeps its state from
        before the call. Several threads may call this at once: they take turns, and no batch is lost. Threads that
        predict do not wait; they use the state after the last complete round.

        Parameters
        ----------
        X_batch : array or frame of shape (n_batch, n_features)
            Columns of a frame are found by name, in any order; others are left out.
        y : None
            No round learns from labels: pass those to ``observe``.
        """
        if y is not None:
            raise _labels_refused("adapt")
        self._run(X_batch)
        return self

    def step(self, X_batch: Any, y: None = None) -> NDArray[Any]:
        """Predict a batch, then learn from it: ``predict`` and ``adapt`` in one call that reads the rows once.

        The results are the same, bit for bit. Threads that call this or ``adapt`` take turns, so the predictions are
        those of the state that the round starts from. If learning fails, the model keeps its state, and the error is
        raised.

        Parameters
        ----------
        X_batch : array or frame of shape (n_batch, n_features)
            Columns of a frame are found by name, in any order; others are left out.
        y : None
            No round learns from labels: pass those to ``observe``.

        Returns
        -------
        array of shape (n_batch,)
            The prediction of each row.
        """
        if y is not None:
            raise _labels_refused("step")
        predicted: NDArray[Any] = self._run(X_batch, predicts=True)
        return predicted

    def _run(self, X_batch: Any, *, predicts: bool = False) -> Any:
        """Run one round; return the predictions from before it if they are asked for."""
        attributes = vars(self)
        if "state_" not in attributes:
            self._require_fitted("state_")
        if "feature_names_in_" in attributes:
            X_batch = select_columns(self, X_batch)
        rows = self._read(X_batch, reset=False, min_rows=0)
        predicted, n_rows = None, len(rows) if isinstance(rows, np.ndarray) else count_rows(rows)
        if n_rows == 0:
            return self.task_.none
        # The lock stands for no other context: to enter it again costs less than `nullcontext`.
        lock = attributes.get(LOCK_NAME) or self.lock()
        with lock, lock if self.rules_.has_numbers else naming_values(X_batch, self.reference_):
            if predicts:
                predicted = self._predicted("predict", rows)
            if (self.refit, self.adaptation) != self.rules_.chosen:
                self._take_up_parameters()
            if self.state_.learning is not None and self._is_wide(rows):
                rows, X_batch = self._narrow(rows), self._narrow(X_batch)
            before, known = self.state_, attributes.get("_snapshot")
            read, alarm = None, None
            if known is not None and known.state is before:
                read, alarm = known.read, known.known_alarm
            with lock if self.rules_.limits_blas else one_blas_thread():
                after = self.state_ = run_round(self.rules_, before, rows, X_batch, n_rows, read, alarm)
            attributes.pop("_snapshot", None)  # it would keep the state before alive
        if (
            after.watch.log is not before.watch.log
            or after.safeguards.check.veto.is_held != before.safeguards.check.veto.is_held
            or after.columns is not before.columns
        ) and not self.rules_.is_replay:
            log_events(before, after, self.fixed_)
        if CALLBACKS_NAME in attributes and after.recent.n_closed != before.recent.n_closed:
            self._tell()
        return predicted

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict each row with the current predictor; an empty input gives an empty output."""
        self._require_fitted("state_")
        rows = self._read(X, reset=False, min_rows=0)
        return self._predicted("predict", rows) if count_rows(rows) else self.task_.none

    def predict_fixed(self, X: Any) -> NDArray[Any]:
        """Predict with the model that never adapts."""
        self._require_fitted("state_")
        return self.predict_by(self.fixed_.estimator, X)

    def predict_by(self, predictor: Any, X: Any) -> NDArray[Any]:
        """Predict with a predictor that this model has made."""
        rows = self._narrow(self._read(X, reset=False, min_rows=0))
        with naming_values(rows, self.reference_), one_openmp_thread_if_few(count_rows(rows)):
            return np.asarray(predictor.predict(rows)) if count_rows(rows) else self.task_.none

    def _predicted(self, method: str, rows: Any) -> NDArray[Any]:
        """Call a method of the predictor in use; errors about a value in a frame name its column."""
        if self._is_linear:
            return np.asarray(getattr(self.estimator_, method)(rows))
        with naming_values(rows, self.reference_), one_openmp_thread_if_few(count_rows(rows)):
            return np.asarray(getattr(self.estimator_, method)(rows))

    def _limits(self, scores: FloatArray, X: Any, alpha: float, order: IntArray | None = None) -> FloatArray:
        """Return the largest score that conforms, for each row: weighted by the ratios, and corrected by labels."""
        current, late = self.current(), late_scores(self.state_.labelled, has_classes=self.task_.has_classes)
        weights = current.state.weights
        if late is None:
            return conformal_limits(scores, weights, current.row_weights(self._narrow(X)), alpha, order)
        found, given, level = with_feedback(scores, weights, *late, current.state.n_rows, alpha)
        return conformal_limits(found, given, np.zeros(count_rows(X)), level)

    # --- labels that come late ----------------------------------------------------------------------------------

    def observe(
        self, X: Any, y: Any, *, predicted: Any = None, probability: Any = None, learn: bool = True, rows_since: int = 0
    ) -> Self:
        """Measure with labels that arrived late, for any rows of the stream in any order, then learn from them.

        Labels are compared with what was predicted before the model learned from them. A class that the reference does
        not have counts as an error, unless it was predicted; once it is learned, it is a class of the model.

        A second predictor is refitted on the reference and the labels whenever 25 labels are new, or a tenth of those
        before, at most 100. It predicts together with the one that knows no labels; the share of each depends on how
        well it predicted the labels before it learned from them. Labels count half as much after 8,000 rows of the
        stream, the reference after 2,000; the latest 5,000 labels are kept. ``learned_`` says what each refit changed.

        Parameters
        ----------
        X : array or frame of shape (n_rows, n_features), or None
            The rows. None if you only have predictions: then ``predicted`` is needed.
        y : array of shape (n_rows,)
            Their labels.
        predicted : array of shape (n_rows,) or (n_rows, n_classes), optional
            What ``predict`` or ``predict_proba`` returned for these rows at the time. None predicts them now.
        probability : float or array of shape (n_rows,), optional
            With which each row was chosen to be labelled, as ``ask`` returns it. Such labels decide how good the model
            is, and whom to believe. None says that the labels merely arrived, perhaps for rows of a certain kind: they
            decide how good the model is only if they are all labels of the recent rows.
        learn : bool, default=True
            Whether the model may learn from the labels, after they were measured.
        rows_since : int, default=0
            Rows of the stream that have come since these, if their labels come late. Sets and intervals correct
            themselves by those that were in force then.
        """
        require_integer("rows_since", rows_since, at_least=0)
        self._require_fitted("state_")
        X = select_columns(self, X)
        rows = None if X is None else self._read(X, reset=False, min_rows=0)
        if rows is None and predicted is None:
            raise DataError("observe needs the rows X, or what was predicted for them: pass X or predicted.")
        n_rows = count_rows(y) if rows is None else count_rows(rows)
        late = self.task_.read_late(y, n_rows)
        if not n_rows:
            return self
        with self.lock(), unchanged_on_failure(self):
            self.measure(rows, late, predicted=predicted, probability=probability, since_made=rows_since)
            if learn and rows is not None:
                is_asked = ~np.isnan(read_probability(probability, n_rows))
                learn_from(self, rows, late, rows_since=rows_since, is_asked=is_asked)
        if CALLBACKS_NAME in vars(self):
            self._tell()
        return self

    def measure(
        self,
        rows: Any,
        late: NDArray[Any],
        *,
        predicted: Any = None,
        probability: Any = None,
        since_made: Any = 0,
        since_came: Any = 0,
    ) -> None:
        """Keep labels with what was predicted of their rows, and let the alarm see them.

        Rows and labels are as ``observe`` reads them. ``since_made`` and ``since_came`` say how many rows of the stream
        came after each row was predicted, and after its label.
        """
        if not len(late):
            return
        current, state = self.current(), self.state_
        came, made_at = (
            np.broadcast_to(np.maximum(0, state.n_rows - each), len(late)).astype(np.int64)
            for each in (since_came, since_made)
        )
        with one_blas_thread(), naming_values(rows, self.reference_):
            new = read_labelled(
                self.rules_,
                current.predictor,
                rows,
                late,
                predicted=predicted,
                probability=probability,
                made_at=np.minimum(made_at, came),
                came=came,
            )
            labelled, alarm = (new[:0] if state.labelled is None else state.labelled).after(new), current.alarm
            if alarm is not None:
                weights = labelled.weights_of_all(state.n_rows, current.n_recent)
                alarm = alarm.after_labels(self.rules_, new.labels(weights[len(labelled) - len(new) :]), state.n_rounds)
            self._replace_state(replace(state, labelled=labelled.newest(), alarm=alarm), with_new_labels=True)

    def replace_learning(self, learning: Learning | None) -> None:
        """Take up what was learned from labels."""
        self.state_ = replace(self._with_alarm(self.state_), learning=learning)
        vars(self).pop("_snapshot", None)

    def fit_learned(self, learning: Learning) -> Any:
        """Fit the predictor on the reference and on labels."""
        kept = learning.kept.part(np.flatnonzero(learning.kept.is_learned))
        reference = self.reference_ if learning.width is None else as_wide(self.reference_, learning.width)
        rows = append_rows(reference, kept.rows)
        task = self.task_.joined_by(kept.truths, len(kept), type(self).__name__)
        weights = weights_to_fit(kept, self.base_weight_, self.task_)
        with one_blas_thread():
            if self._pair is None or learning.share is None:
                return self._recipe(rows, weights).on(rows, task).fit(weights, None)
            chosen = replace(self.combination_, share=learning.share, errors=(), losses=())
            # Both parts, also if one has no weight now: labels to come decide again.
            both = chosen if learning.share == 0.0 and len(task) < FEWEST_ROWS_OF_TREES else replace(chosen, share=0.5)
            recipe = self._pair_recipe(self._pair, both, rows, weights, keeps_splits=False)
            return replace(recipe.on(rows, task).fit(weights, None), combination=chosen)

    def ask(self, X: Any, n: float) -> tuple[IntArray, FloatArray]:
        """Choose random rows to label; pass their labels and probabilities to ``observe``.

        Parameters
        ----------
        X : array or frame of shape (n_rows, n_features)
            Rows of the stream; call it before ``adapt``.
        n : int or float
            How many rows. A number below 1 is a share: then each row is drawn by ``random_state`` and its number in
            the stream alone, so that it makes no difference how the stream is cut into batches.

        Returns
        -------
        indices : array of shape (n_chosen,)
            Rows of X, in their order.
        probabilities : array of shape (n_chosen,)
            With which each of them was chosen.
        """
        self._require_fitted("state_")
        seed = int(self.random_state) if isinstance(self.random_state, Integral) else 0
        return choose_rows(count_rows(X), n, seed, self.state_.n_rows)

    def forget_labels(self) -> None:
        """Measure as if no label had come yet."""
        with self.lock():
            self._replace_state(replace(self.state_, labelled=None, alarm=None), with_new_labels=True)

    def note(self, number: int, read: Read) -> None:
        """Note what was read of a round in the history, when other rounds have followed.

        Parameters
        ----------
        number : int
            The round.
        read : Read
            Of the snapshot of that round.
        """
        with self.lock():
            rounds = self.state_.rounds.noting(self.state_.n_rounds - number, read)
            self._replace_state(replace(self.state_, rounds=rounds))

    def class_weights(self, task: Task) -> FloatArray:
        """Return by what the base weights of the rows are multiplied."""
        return np.ones(len(task))

    def losses_on(self, y: NDArray[Any], predicted: NDArray[Any]) -> FloatArray:
        """Return the losses of predictions.

        Parameters
        ----------
        y : array of shape (n_rows,)
            The labels.
        predicted : array of shape (n_rows,)
        """
        return self.task_.losses(self.task_.errors_on(y, predicted))

    # --- what it says of itself: all of it is read from one snapshot -------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Return everything the model can say after the last round, in one object.

        It stays as it is while rounds go on, and reading from it leaves no trace in the model.
        """
        return self.current().apart()

    def current(self) -> Snapshot:
        """Return the snapshot that the attributes read from: what they have read stays known until the next round."""
        self._require_fitted("state_")
        known: Snapshot | None = vars(self).get("_snapshot")
        # The state is read once: a round that ends meanwhile replaces it.
        state = self.state_
        if known is None or known.state is not state or known.rules is not self.rules_:
            known = self._snapshot = Snapshot(self.rules_, state)
        return known

    def __copy__(self) -> Self:
        """Return a copy that learns independently; what is read from either before a round is known to both."""
        if "state_" in vars(self):
            self.current()
        return super().__copy__()

    def _replace_state(self, state: AdaptationState, *, with_new_labels: bool = False) -> None:
        """Take up a state of the same round; what was read of the one before and is still true stays known."""
        known = self.current()
        if with_new_labels and known.read is not None:
            # Labels forget it: the history has it from now on, as it would after a save.
            state = replace(state, rounds=state.rounds.noting(0, known.read))
        self.state_, self._snapshot = state, known.on(state, with_new_labels=with_new_labels)

    def _read_since(self) -> Read | None:
        """Return what has been read since the last round, for the history."""
        known: Snapshot | None = vars(self).get("_snapshot")
        return None if known is None or known.state is not self.state_ else known.read

    @property
    def held_out_(self) -> HeldOut | None:
        """Predictions for rows of the reference by fits without them; None if the reference has too few rows."""
        self._require_fitted("state_")
        return self.holding_out_.predictions

    @property
    def effective_sample_size_(self) -> float:
        """Effective number of reference rows under the current weights."""
        return self.current().effective_sample_size

    @property
    def estimator_(self) -> Any:
        """The predictor in use."""
        # Not from the snapshot, which would be kept: `predict` changes nothing, not even that.
        state = self.state_
        if state.learning is not None:
            return Snapshot(self.rules_, state).predictor
        return self.fixed_.estimator if state.safeguards.veto.is_held else state.estimator

    @property
    def ratio_(self) -> Any:
        """The ratio estimator."""
        return self.state_.ratio

    @property
    def reference_weight_(self) -> FloatArray:
        """Current importance weights of the reference."""
        return self.state_.weights.copy()

    @property
    def n_rounds_(self) -> int:
        """Number of rounds so far."""
        return self.state_.n_rounds

    @property
    def n_refits_(self) -> int:
        """Number of fits of the predictor after the first."""
        return self.state_.n_refits

    @property
    def order_(self) -> Order:
        """What is known about the order of the reference's rows."""
        return self.verification_.found

    @property
    def backtest_(self) -> Backtest | None:
        """The replay of the reference."""
        return self.verification_.backtest

    def _repr_html_inner(self) -> str:
        return state_html(self) + str(super()._repr_html_inner())  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        shown: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in shown:
            shown["text/html"] = state_html(self) + shown["text/html"]
        return shown

    def _get_fitted_attr_html(self, doc_link: str = "") -> dict[str, Any]:
        """Return nothing for scikit-learn's list of attributes, which would read all of them: many are computed."""
        return {}

    def __getstate__(self) -> Any:
        """Return what pickles keep: all but the lock and what was read, except for the error that the history notes."""
        known: Snapshot | None = vars(self).get("_snapshot")
        kept: dict[str, Any] = super().__getstate__()
        if known is not None and known.state is kept["state_"]:
            kept["state_"] = self._with_alarm(known.state)
            if known.read is not None:
                kept["state_"] = replace(kept["state_"], rounds=known.state.rounds.noting(0, known.read))
        return kept

    def _with_alarm(self, state: AdaptationState) -> AdaptationState:
        """Return the state with the alarm as it was read since the last round."""
        known: Snapshot | None = vars(self).get("_snapshot")
        is_newer = known is not None and known.state is state and known.known_alarm is not None
        return replace(state, alarm=known.known_alarm) if known is not None and is_newer else state

    # --- files -------------------------------------------------------------------------------------------------------

    def state_to_plain(self) -> dict[str, Any]:
        """Return the learned state without reference, labels and ratio, as nested dicts of arrays and numbers."""
        state = self._with_alarm(self.state_)
        if self._is_linear:
            return state_to_plain(state, self.fixed_.estimator, self._read_since())
        own = {self._errors_name: self.fixed_.known_errors, "rounds_between_refits": self.rounds_between_refits_}
        if self._pair is not None:
            own["linear"] = [linear_to_plain(each.linear) for each in (self.state_.estimator, self.fixed_.estimator)]
        return state_to_plain(state, None, self._read_since()) | own

    def state_from_plain(self, plain: dict[str, Any], ratio: RatioEstimator) -> None:
        """Restore the state that ``state_to_plain`` returned; a user's estimator is refitted with its last weights."""
        self.rounds_between_refits_ = plain.get("rounds_between_refits", 0)
        self._bounded(ratio)
        if self._is_linear:
            self.erm_ = self._make_erm()
            estimator, fixed = predictors_from_plain(plain, self.erm_)
            self.fixed_ = FixedModel(self.erm_, self.base_weight_, self.task_, fixed)
        else:
            estimator = self._fit_again_with(plain["fitted_weights"], plain)
        self.rules_ = self._make_rules(ratio)
        state = replace(
            state_from_plain(plain, ratio, estimator),
            labelled=labelled_from_plain(plain["labelled"], self.task_),
            alarm=alarm_from_plain(plain["alarm"]),
        )
        self.state_ = under_guard(state, self.rules_.guard)

    @property
    def _errors_name(self) -> str:
        """What files call the cross-fitted errors of the fixed model, which depend on how it is fitted."""
        return "fixed_errors_of_kept_splits" if self.erm_.keeps_first_fit else "fixed_errors"

    def _fit_again_with(self, weights: FloatArray, plain: dict[str, Any]) -> Any:
        """Fit the user's estimator again with the weights of its last fit, and return it."""
        self.erm_ = self._make_erm()
        errors = plain.get(self._errors_name)
        with one_blas_thread():
            fixed = self.erm_.fit(self.base_weight_, None) if self.erm_.keeps_first_fit else None
            estimator = self.erm_.fit(weights, None)
            if isinstance(self.erm_, PairErm) and "linear" in plain:
                fixed = self.erm_.fit(self.base_weight_, None) if fixed is None else fixed
                estimator, fixed = map(self.erm_.with_linear, (estimator, fixed), plain["linear"])
        self.fixed_ = FixedModel(self.erm_, self.base_weight_, self.task_, fixed, errors)
        return estimator

    def _take_up_parameters(self) -> None:
        """Follow parameters that were set after ``fit``, as a model that was saved and loaded does."""
        if not self._is_linear and type(self._make_erm()) is not type(self.erm_):
            estimator = self._fit_again_with(self.state_.fitted_weights, {})
            self.state_ = replace(self.state_, estimator=estimator)
        self.rules_ = self._make_rules(self.state_.ratio)
        self.state_ = under_guard(self.state_, self.rules_.guard)

    # --- how it is put together --------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        is_count = isinstance(self.refit, Integral) and not isinstance(self.refit, bool) and self.refit >= 1
        if not is_count and not (isinstance(self.refit, str) and self.refit in ("auto", "always")):
            raise ParameterError(f"refit must be 'auto', 'always' or a positive integer, got {self.refit!r}.")
        penalty = getattr(self, self.penalty)
        require_number(self.penalty, penalty, at_most=LARGEST_PENALTY)
        if not isinstance(self.standardize, (bool, np.bool_)):
            raise ParameterError(f"standardize must be True or False, got {self.standardize!r}.")
        if self.refit_budget is not None:
            require_number("refit_budget", self.refit_budget, at_most=1.0)
        require_choice("adaptation", self.adaptation, ADAPTATIONS)
        if isinstance(self.estimator, str):
            require_choice("estimator", self.estimator, (AUTO, LINEAR), or_else=", None or an estimator")
        if not self._has_numbers and penalty != 1.0:
            raise ParameterError(
                f"{self.penalty} applies only to the built-in regression; set it on your estimator instead."
            )
        if self.ratio is not None and not isinstance(self.ratio, RatioEstimator):
            raise ParameterError(f"ratio must be a ratio estimator such as OnlineDensityRatio(), got {self.ratio!r}.")

    def _make_ratio(self) -> RatioEstimator:
        if self.ratio is not None:
            ratio: RatioEstimator = clone(self.ratio)
            return ratio
        # To adapt always is the method of the paper, which has no pool.
        pool = "none" if self.adaptation == "always" else "auto"
        return OnlineDensityRatio(pool=pool, random_state=self.random_state)

    def _make_rules(self, ratio: RatioEstimator) -> RoundRules:
        evidence = None if self.backtest_ is None else self.backtest_.evidence
        may_matter, has_trees = self.order_.may_matter, self.erm_.has_trees
        guard = choose_guard(evidence, self.adaptation, may_matter=may_matter, has_trees=has_trees)
        return RoundRules(
            erm=self.erm_,
            fixed=self.fixed_,
            task=self.task_,
            base_weight=self.base_weight_,
            reference=self.reference_,
            verification=self.verification_,
            held_out=self.holding_out_,
            measures=self.measures_,
            columns=ReferenceColumns(self.reference_),
            cover=ReferenceCover(
                self._as_numbers(self.reference_), ratio, self._names(), has_numbers=self._has_numbers
            ),
            names=self._names(),
            refit=self.refit,
            adaptation=self.adaptation,
            has_safeguards=ratio.keeps_record and self.adaptation != "always",
            guard=guard if ratio.keeps_record or self.adaptation == "never" else FREE,
            has_numbers=self._has_numbers,
            # These columns have already been read, unless they are for a transformer or with other bounds.
            shares_rows=self.estimator is None and ratio.reads_numbers,
            limits_blas=self.erm_.limits_blas and ratio.is_free_of_blas,
            rounds_between_refits=self.rounds_between_refits_,
        )

    def _recipe(self, rows: Any = None, weights: Any = None) -> ErmRecipe:
        """Return how to fit the predictor; given rows and weights, how to fit it once, on those."""
        pair, keeps_splits = self._pair, self.refit == "auto" and rows is None
        rows, weights = (self.reference_, self.base_weight_) if rows is None else (rows, weights)
        if pair is not None:
            return self._pair_recipe(pair, self.combination_, rows, weights, keeps_splits=keeps_splits)
        if not self._is_linear:
            return EstimatorRecipe(self.estimator, keeps_splits=keeps_splits)
        return self._linear_recipe(rows, weights)

    def _linear_recipe(self, rows: Any, weights: FloatArray) -> LogisticRecipe | RidgeRecipe:
        """Return how to fit the built-in regression; it reads numbers clipped unless it is to be scikit-learn's."""
        clips = self.estimator is not None
        if not self.standardize:
            return self._own_recipe(None, clips=clips)
        return self._own_recipe(
            deviations_of_columns(Bounds.of(rows).clipped(rows) if clips else rows, weights), clips=clips
        )

    def _pair_recipe(
        self, pair: LinearAndTrees, combination: Combination, rows: Any, weights: FloatArray, *, keeps_splits: bool
    ) -> PairRecipe:
        # Most of the time of a fit goes into trees.
        trees = EstimatorRecipe(pair.trees, keeps_splits=keeps_splits, n_folds=N_QUICK_FOLDS)
        return PairRecipe(self._linear_recipe(rows, weights), trees, combination)

    def _read_measures(self) -> None:
        """Read by what the model is judged."""
        given = {"cost": self.cost, "threshold": self.threshold, "tolerance": self.tolerance}
        has_scores = self._has_numbers or hasattr(self.estimator, "predict_proba")
        self.measures_ = read_measures(self.task_, self.metric, has_scores=has_scores, **given)

    def hold_out(self, known: HeldOut | None) -> None:
        """Set up predictions of held-out rows, which are made on first use unless they are known."""
        self._read_measures()  # its classes are those of the reference
        parts = ReferenceParts(
            self.reference_, self.task_, self.base_weight_, self._recipe(), has_numbers=self._has_numbers
        )
        self.holding_out_ = HeldOutReference(parts, self.verification_.order, self.measures_, known)
        if is_sharing_fits() and self.backtest_ is not None and self.erm_.keeps_first_fit:
            # The trees of the backtest are shared now, and nothing has to be fitted.
            self.holding_out_.prepare()

    def _combine(
        self, time_order: IntArray | None, combination: Combination | None, on_progress: Callable[[float], None]
    ) -> HeldOut | None:
        """Find out on held-out rows how the two predictors of "auto" are combined, unless that is known."""
        pair = self._pair
        if pair is None:
            return None
        self.combination_ = Combination(0.0) if combination is None else combination
        split = split_rows(self.task_.strata, time_order)
        if combination is not None or len(self.task_) < FEWEST_ROWS_OF_TREES:
            return None
        given = self.reference_, self.base_weight_
        recipe = self._pair_recipe(pair, self.combination_, *given, keeps_splits=self.refit == "auto")
        linear, trees = hold_out_both(recipe, self.reference_, self.task_, self.base_weight_, split, on_progress)
        self.combination_ = combine(self.task_, split, linear, trees, self.base_weight_)
        answers = self.combination_.mixed(linear, trees)
        return held_out_of(split, answers, is_in_time=time_order is not None)

    @property
    def _pair(self) -> LinearAndTrees | None:
        """The two predictors of "auto", unfitted; None if the estimator is another."""
        if isinstance(self.estimator, LinearAndTrees):
            return self.estimator
        if self._is_linear or not isinstance(self.estimator, str):
            return None
        kind = "classifier" if is_classifier(self) else "regressor"
        seed = self.random_state if isinstance(self.random_state, Integral) else 0
        return LinearAndTrees(make_trees(kind, int(seed)))

    @property
    def _is_linear(self) -> bool:
        """Whether the predictor is the built-in regression alone."""
        return self.estimator is None or (isinstance(self.estimator, str) and self.estimator == LINEAR)

    @property
    def _has_numbers(self) -> bool:
        """Whether the predictor reads the rows as numbers: the built-in one and "auto" do."""
        return self.estimator is None or isinstance(self.estimator, (str, LinearAndTrees))

    @property
    def _takes_missing(self) -> bool:
        """Whether missing numbers reach the predictor; the ratio then reads medians in their place."""
        if self._has_numbers:
            return self.estimator is not None
        return hasattr(self.estimator, "__sklearn_tags__") and bool(get_tags(self.estimator).input_tags.allow_nan)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = self._takes_missing
        return tags

    def _as_numbers(self, rows: Any) -> Any:
        """Return rows without missing values, if the predictor reads numbers."""
        return Bounds.of(rows).filled(rows) if self._has_numbers and self._takes_missing else rows

    def _bounded(self, ratio: RatioEstimator) -> RatioEstimator:
        """Let the ratio read medians for missing values; the default ratio of "auto" also reads numbers clipped."""
        is_array = isinstance(self.reference_, np.ndarray) and self.reference_.dtype.kind == "f"
        if self._takes_missing and is_array and ratio.reads_numbers:
            bounds = Bounds.of(self.reference_)
            ratio.bounds = bounds if self._has_numbers and self.ratio is None else bounds.without_ends
        return ratio

    def _make_erm(self) -> WeightedErm:
        return self._recipe().on(self.reference_, self.task_)

    def _prepare_readings(self) -> None:
        """Make the fits that readings of a model with the user's estimator need, so that a reading makes none.

        A model that never adapts is made to predict, often many times in a cross-validation, so it makes none of them.
        """
        if self._is_linear or isinstance(self.state_.ratio, NoShift):
            return
        try:
            self.fixed_.prepare()
        except ValueError:
            # The user's estimator could not be fitted on a part: who reads its risk sees the error.
            return

    def _limit_refits(self, rows: Any, X: Any) -> None:
        """Measure how many rounds a refit takes, if there is a budget for refits and they are not quick anyway."""
        budget = self.refit_budget
        if budget is None or self._has_numbers or self.erm_.keeps_first_fit:
            return
        some = np.arange(min(_ROWS_OF_ROUND, count_rows(rows)))
        batch, read = _safe_indexing(X, some), _safe_indexing(rows, some)
        rules, state = replace(self.rules_, refit=_NEVER), self.state_

        def one_round() -> None:
            with one_openmp_thread_if_few(len(some)):
                state.estimator.predict(read)
            run_round(rules, state, read, batch, len(some))

        refit = seconds_of(lambda: self.erm_.fit(self.base_weight_, state.estimator), n_times=1)
        self.rounds_between_refits_ = rounds_between_refits(float(budget), refit, seconds_of(one_round))
        self.rules_ = self._make_rules(state.ratio)

    def _names(self) -> list[str]:
        """Names of the input columns."""
        names = getattr(self, "feature_names_in_", None)
        return [f"x{column}" for column in range(self.n_features_in_)] if names is None else list(map(str, names))

    def _is_wide(self, rows: Any) -> bool:
        """Whether rows have columns that only the predictor that learned from labels reads."""
        state = vars(self).get("state_")
        if state is None or state.learning is None or state.learning.width is None:
            return False
        return isinstance(rows, np.ndarray) and rows.ndim == 2 and rows.shape[1] > self.n_features_in_

    def _narrow(self, rows: Any) -> Any:
        """Return rows with the columns of the reference alone."""
        return rows[:, : self.n_features_in_] if self._is_wide(rows) else rows

    def _read(self, X: Any, *, reset: bool, min_rows: int = 1) -> Any:
        if not reset and self._is_wide(X):
            rows = self._read(self._narrow(X), reset=False, min_rows=min_rows)
            return np.concatenate((rows, X[:, self.n_features_in_ :]), axis=1)
        if self._has_numbers:
            return read_rows(self, X, reset=reset, min_rows=min_rows, takes_missing=self.estimator is not None)
        rows = read_frame(self, X, reset=reset, min_rows=min_rows)
        # Rows that the ratio could not learn from are not predicted either.
        is_plain = isinstance(getattr(self.ratio, "feature_map", "standardize"), str)
        if is_plain and isinstance(rows, np.ndarray) and rows.dtype.kind == "f":
            require_finite(rows, X, takes_missing=self._takes_missing)
        return rows


def _labels_refused(method: str) -> ParameterError:
    return ParameterError(f"{method} takes no labels: pass those that arrive late to observe(X, y).")


def _estimator_has(method: str) -> Any:
    def check(self: Any) -> bool:
        owner = self.state_.estimator if hasattr(self, "state_") else self.estimator
        if isinstance(owner, (str, LinearAndTrees)):
            owner = PairOfClassifiers
        if owner is not None:
            getattr(owner, method)
        return True

    return check


@dataclass(eq=False, repr=False, kw_only=True)
class AdaptiveClassifier(AdaptiveEstimator, ClassifierMixin, BaseEstimator):
    r"""A classifier that follows drifting inputs, says how good it is now, and learns from labels.

    You fit it once on a labelled reference. Then you call ``adapt`` with each unlabelled batch. After every batch the
    predictor minimises the paper's importance-weighted empirical risk over the reference rows,

    .. math:: \sum_{i \in S_0} w_{t,i} \, \ell(f(x_i), y_i) + \text{penalty}, \qquad w_{t,i} \propto \hat r_t(x_i),

    where the weights come from an online estimate of the density ratio. The weights have mean 1, so C keeps its
    meaning.

    Parameters
    ----------
    estimator : classifier, "auto" or "linear", optional
        Any scikit-learn classifier whose ``fit`` takes ``sample_weight``, or a pipeline that ends in one. It receives
        data frames unconverted. None uses a built-in, warm-started logistic regression (two classes) or softmax
        regression, with the same optimum as ``make_pipeline(StandardScaler(), LogisticRegression(C=C))``. With more
        than 100 coefficients, only ``fit`` goes all the way to the optimum. The refit of a round takes a few steps
        towards it, and more after a jump. ``"auto"`` predicts with that regression, on numbers clipped to the 0.1 to
        99.9 % range of the reference, and with boosted trees together, weighted by their predictions for held-out rows;
        numbers may be missing. With fewer than 500 rows it has no trees. ``"linear"`` never has any.
    ratio : ratio estimator, optional
        None uses ``OnlineDensityRatio()``.
    refit : {"auto", "always"} or int, default="auto"
        When to refit the predictor. ``"always"`` refits in every round, and an integer n every n rounds. ``"auto"``
        refits when the total variation between the current weights and those of the last fit exceeds
        ``0.16 (n_eff / n_reference)^(1/3)``, or a quarter of that for the built-in regression, which is cheap to refit.
        n_eff is the effective sample size: the fewer rows carry the weight, the more a fit depends on each of them.
        Boosted trees (scikit-learn's histogram gradient boosting) keep their splits with ``"auto"``: a refit finds new
        values for their leaves, in milliseconds. With the other rules they are fitted anew.
    refit_budget : float, optional
        Largest share of the time that refits of an ``estimator`` may take with ``refit="auto"``, above 0 and at most 1;
        None sets no limit. ``fit`` measures once how many rounds a refit takes, and from then on so many rounds
        lie between refits (``rounds_between_refits_``, a power of two), whatever the clock says. Boosted trees need no
        limit: their refits take milliseconds.
    C : float, default=1.0
        Inverse penalty of the built-in regression, at most 1e100. Do not set it with an ``estimator`` of yours.
    class_weight : {"balanced"} or dict, optional
        By what the base weights of the rows of each class are multiplied: so that all classes weigh the same, or by
        the numbers given for the classes.
    standardize : bool, default=True
        Whether the penalty of the built-in regression acts on standardised columns: mean 0 and deviation 1 in the
        reference with its base weights, and constant columns unscaled. The coefficients of the fitted predictor are
        those of the raw columns either way. False gives the optimum of ``LogisticRegression(C=C)`` on the columns as
        they are. Ignored if you pass an ``estimator``.
    adaptation : {"auto", "always", "never"}, default="auto"
        Whether the adapted predictor makes the predictions. ``"always"`` uses the ratio's weights in every round: the
        paper's method unchanged, unless you pass a ``ratio`` with a pool. ``"never"`` leaves the predictions to the
        fixed model; the ratio still follows the stream, and drift and the error are still estimated.

        ``"auto"`` adapts where that is supported. The ratio counts only as far as it explained past batches better than
        ratio 1 did (docs/pool.md); while the weights hardly differ from the base weights, the fixed model predicts.
        Weights that leave few effective rows are shrunk towards the base weights for the fit. The adapted model is
        compared with the fixed model on the weighted, cross-fitted reference: in every 32nd round and soon after a
        jump, or at every fifth refit if you pass an ``estimator``. The fixed model predicts while the adapted one is
        worse by more than 1.5 standard errors. If the reference has an order in time and drifts, it predicts unless the
        adapted one is better by more than two standard errors, and always if label-free estimates failed in the
        backtest. With ratio estimators that use a single batch, and with those that serve as baselines, ``"auto"`` is
        the same as ``"always"``.
    metric : str, default="error"
        By which ``performance`` and ``status_`` judge the model: "error", "balanced_error", "log_loss", "brier",
        "roc_auc", "average_precision", "precision", "recall", "f1" (the last five also with "_macro" or ":CLASS") or
        "cost".
    cost : array of shape (n_classes, n_classes), optional
        What it costs to predict the class of a column where that of the row is true, for the metric "cost".
    threshold : float, optional
        Of two classes, the probability from which on the second one counts as predicted in metrics; ``predict`` does
        not use it. None takes the more probable class.
    tolerance : float, optional
        How much worse than at fit the metric may be in a healthy model. None is 5 points for metrics between 0 and 1,
        and a fifth of the loss at fit at least.
    random_state : int, RandomState or None, default=None
        Seed of the ratio estimator if ``ratio`` is None.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    status_ : Status
        Whether the model is healthy, degraded or uncertain, with reasons, one piece of advice, and the alarm.
    drift_ : Drift
        What has moved in the inputs: columns, events, coverage.
    held_out_ : HeldOut or None
        Predictions for rows of the reference by fits without them.
    ratio_ : fitted ratio estimator
    estimator_ : fitted predictor for the next round
        The adapted predictor, or the fixed one while adaptation is off or held back.
    reference_weight_ : array of shape (n_reference,)
        Current importance weights. They have mean 1; with base weights b they are b r divided by the mean of r weighted
        by b.
    n_rounds_, n_refits_ : int
        Number of rounds so far, and number of fits after the first.
    effective_sample_size_ : float
        Effective number of reference rows under the current weights, at most ``n_reference``.
    order_ : Order
        Whether the rows of the reference are in order of time: its ``kind``, the ``p_value`` of the test if one was
        made, and the ``column`` of times.
    backtest_ : Backtest or None
        The replay of the reference; None if the reference has no order in time, if it
        has fewer than 100 rows, or if a replay failed, for example because ``estimator`` could not be fitted
        on a part of the reference.
    regimes_ : tuple of Regime
        The regimes that the ratio remembers: states of the inputs, away from the reference, that the stream settled in.
        Each has the rounds in which it was in force and the columns that tell it apart.
    history_ : pandas.DataFrame
        One row for each of the last 10,000 rounds: ``rows`` of the batch, ``effective_rows`` of the reference,
        ``share`` of the ratio in use, whether the round made a ``refit``, whether it detected a ``drift``, and whether
        the ``adapted`` model predicts after it. ``value``, ``low``, ``high`` and ``basis`` of the model's metric and
        its ``state`` are known only for rounds after which you read ``performance`` or ``status_``: no round computes
        them by itself.
    n_features_in_, feature_names_in_
        Width and column names of the reference.

    Examples
    --------
    >>> from accous import AdaptiveClassifier
    >>> from accous.streams import GaussianStream, SquareShift
    >>> stream = GaussianStream(SquareShift(period=50), n_rounds=100, batch_size=5)
    >>> model = AdaptiveClassifier().fit(*stream.reference())
    >>> for batch in stream:
    ...     y_hat = model.predict(batch.X)
    ...     model = model.adapt(batch.X)
    >>> bool(stream.risk(model, alpha=0.0) < 0.35)
    True
    """

    __module__ = "accous"

    penalty = "C"
    _instead = MappingProxyType({"predict_interval": "predict_set, because classes have no intervals"})
    task_: ClassTask = field(init=False)

    estimator: Any = field(default=None, kw_only=False)
    ratio: Any = field(default=None, kw_only=False)
    refit: int | str = "auto"
    refit_budget: float | None = None
    C: float = 1.0
    class_weight: Any = None
    standardize: bool = True
    adaptation: str = "auto"
    metric: str | None = None
    cost: Any = None
    threshold: float | None = None
    tolerance: float | None = None
    random_state: Any = None

    @classmethod
    def paper(
        cls,
        *,
        horizon: int,
        C: float = 1.0,
        radius: float | None = None,
        step_size: float | str = "theory",
        ridge: float = 1.0,
        scale: bool = False,
    ) -> Self:
        """Return the paper's method: its ratio to the letter, its weights as they are, a fit in every round.

        There are no safeguards, and columns are not standardised.

        Parameters
        ----------
        horizon : int
            T, the number of rounds.
        C : float, default=1.0
            Inverse penalty of the regression, which the paper does not give.
        radius, step_size, ridge, scale
            As in `OnlineDensityRatio.paper`.

        Examples
        --------
        >>> from accous import AdaptiveClassifier
        >>> from accous.streams import GaussianStream, LinearShift
        >>> stream = GaussianStream(LinearShift(), n_rounds=20, batch_size=5)
        >>> model = AdaptiveClassifier.paper(horizon=20, step_size=10.0).fit(*stream.reference())
        >>> for batch in stream:
        ...     y_hat = model.predict(batch.X)
        ...     model = model.adapt(batch.X)
        >>> model.n_refits_
        20
        """
        ratio = OnlineDensityRatio.paper(horizon=horizon, radius=radius, step_size=step_size, ridge=ridge, scale=scale)
        return cls(ratio=ratio, refit="always", C=C, standardize=False, adaptation="always")

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes, sorted; those of labels that were learned from are among them."""
        learning = self.state_.learning if "state_" in vars(self) else None
        if learning is None or learning.fitted is None:
            return self.task_.classes
        return np.union1d(self.task_.classes, learning.kept.truths[learning.kept.is_learned])

    @property
    def labels_(self) -> IntArray:
        """Class number of each reference row."""
        return self.task_.labels

    @available_if(_estimator_has("predict_proba"))
    def predict_proba(self, X: Any) -> FloatArray:
        """Predict the class probabilities of each row with the current predictor."""
        self._require_fitted("state_")
        rows = self._read(X, reset=False, min_rows=0)
        if count_rows(rows) == 0:
            return np.empty((0, len(self.classes_)))
        return self._predicted("predict_proba", rows)

    @available_if(_estimator_has("decision_function"))
    def decision_function(self, X: Any) -> FloatArray:
        """Return the scores of each row under the current predictor."""
        self._require_fitted("state_")
        rows = self._read(X, reset=False, min_rows=0)
        if count_rows(rows) == 0:
            return np.empty(0 if len(self.classes_) == 2 else (0, len(self.classes_)))
        return self._predicted("decision_function", rows)

    def predict_set(self, X: Any, alpha: float = 0.1) -> NDArray[np.bool_]:
        """Predict for each row a set of classes that holds the true one with probability 1 - alpha.

        The probability holds over all rows of the current inputs, as long as the estimated ratio is right and
        P(y | x) stays: on real streams sets may hold fewer true classes than that. From 25 labels on, ``observe``
        corrects them: in the long run, 1 - alpha of the labelled rows are inside. A set always has the class that
        ``predict`` returns, so none is empty.

        The sets are conformal sets, weighted by the current ratios. They use leave-one-out scores of the reference, or
        cross-fitted scores if you passed an ``estimator``, which must have ``predict_proba``.

        Parameters
        ----------
        X : array or frame of shape (n_rows, n_features)
        alpha : float, default=0.1
            Share of rows whose true class may be missing from the set, above 0 and below 1.

        Returns
        -------
        array of bool of shape (n_rows, n_classes)
            Columns are in the order of ``classes_``.
        """
        self._require_fitted("state_")
        require_share("alpha", alpha)
        current = self.current()
        predictor = current.predictor
        if not hasattr(predictor, "predict_proba"):
            raise ParameterError("predict_set needs an estimator with predict_proba.")
        X = select_columns(self, X)
        rows = self._read(X, reset=False, min_rows=0)
        if count_rows(rows) == 0:
            return np.empty((0, len(self.classes_)), dtype=bool)
        with one_blas_thread():
            with naming_values(rows, self.reference_), one_openmp_thread_if_few(count_rows(rows)):
                row_scores = 1.0 - np.asarray(predictor.predict_proba(rows), dtype=np.float64)
                predicted = np.searchsorted(self.classes_, predictor.predict(rows))
            sets = row_scores <= self._limits(current.scores, X, float(alpha))[:, None]
        # Where the model is right more often than asked for, the limit may exclude every class. A set without any
        # answers nothing, and one class more can only raise the coverage.
        sets[np.arange(len(sets)), predicted] = True
        return sets

    @staticmethod
    def can_learn(y: NDArray[Any]) -> bool:
        """Whether there are two classes."""
        return len(np.unique(y)) >= 2

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.class_weight, dict) and self.class_weight not in (None, "balanced"):
            raise ParameterError(f"class_weight must be None, 'balanced' or a dict, got {self.class_weight!r}.")

    def class_weights(self, task: Task) -> FloatArray:
        """Return the weight of each row by its class."""
        if self.class_weight is None:
            return np.ones(len(task))
        try:
            return np.asarray(compute_sample_weight(self.class_weight, task.truths), dtype=np.float64)
        except ValueError as error:
            raise ParameterError(f"class_weight cannot be used: {error}") from None

    def _read_task(self, y: Any, n_rows: int) -> ClassTask:
        return read_class_task(y, n_rows, reader=type(self).__name__)

    def restore_task(self, stored: dict[str, NDArray[Any]]) -> None:
        """Take up classes and class numbers from a file."""
        self.task_ = ClassTask(stored["classes"], stored["labels"])

    def _own_recipe(self, scales: FloatArray | None, *, clips: bool) -> LogisticRecipe:
        return LogisticRecipe(float(self.C), scales, clips)


@dataclass(eq=False, repr=False, kw_only=True)
class AdaptiveRegressor(AdaptiveEstimator, RegressorMixin, BaseEstimator):
    r"""A regressor that follows drifting inputs, says how good it is now, and learns from labels.

    It works like `accous.AdaptiveClassifier`, with numbers in place of classes: you fit it once on a labelled
    reference and call ``adapt`` with each unlabelled batch. After every batch the predictor minimises the
    importance-weighted risk over the reference rows,

    .. math:: \sum_{i \in S_0} w_{t,i} \, (y_i - f(x_i))^2 + \text{penalty}, \qquad w_{t,i} \propto \hat r_t(x_i),

    where the weights come from an online estimate of the density ratio. The weights have mean 1, so alpha keeps its
    meaning.

    Parameters
    ----------
    estimator : regressor, "auto" or "linear", optional
        Any scikit-learn regressor whose ``fit`` takes ``sample_weight``, or a pipeline that ends in one. It receives
        data frames unconverted. None uses a built-in ridge regression, with the same optimum as
        ``make_pipeline(StandardScaler(), Ridge(alpha=alpha))``. ``"auto"`` adds boosted trees, and
        ``"linear"`` reads clipped numbers, as in `accous.AdaptiveClassifier`.
    ratio : ratio estimator, optional
        None uses ``OnlineDensityRatio()``.
    alpha : float, default=1.0
        Penalty of the built-in regression, at most 1e100. Do not set it together with ``estimator``.
    standardize : bool, default=True
        Whether the penalty of the built-in regression acts on standardised columns: mean 0 and deviation 1 in the
        reference with its base weights, and constant columns unscaled. Ignored if you pass an ``estimator``.
    loss : {"absolute", "squared", "pinball(q)"}, default="absolute"
        By which the adapted predictor is compared with the fixed one; ``metric`` says how the model is judged. The
        built-in regression minimises squares with any loss. Single large errors count little in absolute ones. Use the
        pinball loss of a quantile q, such as ``"pinball(0.9)"``, if your ``estimator`` predicts that quantile.
    metric : str, default="mean_absolute_error"
        By which ``performance`` and ``status_`` judge the model: "mean_absolute_error", "median_absolute_error",
        "root_mean_squared_error", "bias" or "pinball:QUANTILE".
    refit, refit_budget, adaptation, tolerance, random_state
        As in `accous.AdaptiveClassifier`. What counts as points there are shares of four times the loss of the fixed
        model on the reference here, so that one point is 4 % of that loss; see docs/trust.md.

    Attributes
    ----------
    targets_ : array of shape (n_reference,)
        The numbers of the reference.
    status_, drift_, held_out_
        As in `accous.AdaptiveClassifier`.
    backtest_, regimes_, history_, reference_weight_, ratio_, estimator_
        As in `accous.AdaptiveClassifier`.

    Examples
    --------
    >>> from accous import AdaptiveRegressor
    >>> from accous.streams import GaussianRegressionStream, SquareShift
    >>> stream = GaussianRegressionStream(SquareShift(period=50), n_rounds=100, batch_size=5)
    >>> model = AdaptiveRegressor().fit(*stream.reference())
    >>> for batch in stream:
    ...     y_hat = model.predict(batch.X)
    ...     model = model.adapt(batch.X)
    >>> bool(stream.risk(model, alpha=0.0) < stream.risk(model.fixed_.estimator, alpha=0.0))
    True
    >>> model.predict_interval(batch.X).shape
    (5, 2)
    """

    __module__ = "accous"

    penalty = "alpha"
    _instead = MappingProxyType({"predict_set": "predict_interval, because numbers have no sets"})
    task_: NumberTask = field(init=False)

    estimator: Any = field(default=None, kw_only=False)
    ratio: Any = field(default=None, kw_only=False)
    alpha: float = 1.0
    standardize: bool = True
    loss: str = "absolute"
    refit: int | str = "auto"
    refit_budget: float | None = None
    adaptation: str = "auto"
    metric: str | None = None
    tolerance: float | None = None
    random_state: Any = None

    @property
    def targets_(self) -> FloatArray:
        """The number of each reference row."""
        return self.task_.targets

    def predict_interval(self, X: Any, alpha: float = 0.1) -> FloatArray:
        """Predict for each row an interval that holds the true number with probability 1 - alpha.

        The probability holds as long as the estimated ratio is right and P(y | x) stays. On real streams it often does
        not (docs/explanation/sets.md). From 25 labels on, ``observe`` corrects the intervals: in the long run they hold
        for 1 - alpha of the labelled rows, unless the stream keeps leaving all that was seen.

        The intervals are conformal, weighted by the current ratios: prediction plus and minus the weighted quantile of
        the residuals of the reference, from fits without the row. They are as wide where the noise is small as where it
        is large, so they hold their probability over all rows of the current inputs, not for every single row.

        Parameters
        ----------
        X : array or frame of shape (n_rows, n_features)
        alpha : float, default=0.1
            Share of rows whose true number may lie outside, above 0 and below 1. It is not the penalty of the model.

        Returns
        -------
        array of shape (n_rows, 2)
            Lower and upper ends; infinite where a row weighs too much for the reference to exclude any number.

        Raises
        ------
        DataError
            If there are no labels yet, and such intervals held at least ten points too few rows of the reference that
            were predicted from earlier ones.
        """
        self._require_fitted("state_")
        require_share("alpha", alpha)
        current = self.current()
        X = select_columns(self, X)
        rows = self._read(X, reset=False, min_rows=0)
        if count_rows(rows) == 0:
            return np.empty((0, 2))
        with one_blas_thread():
            residuals = np.abs(current.residuals)
            order = np.argsort(residuals, kind="stable")
            if late_scores(self.state_.labelled, has_classes=False) is None:
                self._require_held(residuals, float(alpha), order)
            with naming_values(rows, self.reference_), one_openmp_thread_if_few(count_rows(rows)):
                predicted = self.task_.answers(current.predictor.predict(rows))
            widths = self._limits(residuals, X, float(alpha), order)
        return np.stack((predicted - widths, predicted + widths), axis=1)

    def _require_held(self, residuals: FloatArray, alpha: float, order: IntArray) -> None:
        """Raise a DataError if such intervals held too few of the rows that were predicted from earlier ones."""
        held = self.held_out_
        if held is None or not held.is_in_time:
            return
        limit = conformal_limits(residuals, self.base_weight_, np.zeros(1), alpha, order)[0]
        share = float(np.mean(np.abs(self.task_.targets[held.rows] - held.predicted) <= limit))
        if share < 1.0 - alpha - _MOST_MISSED:
            raise DataError(
                f"predict_interval has no interval to show: on the reference's own past, those at {1.0 - alpha:.0%} "
                f"held {share:.0%} of the true numbers. {FEWEST_LATE} labels correct them: pass them to observe."
            )

    @staticmethod
    def can_learn(y: NDArray[Any]) -> bool:
        """Whether there are two rows."""
        return len(y) >= 2

    def _check_parameters(self) -> None:
        super()._check_parameters()
        read_loss(self.loss)

    def _read_task(self, y: Any, n_rows: int) -> NumberTask:
        return NumberTask(read_targets(y, n_rows, reader=type(self).__name__), read_loss(self.loss))

    def restore_task(self, stored: dict[str, NDArray[Any]]) -> None:
        """Take up the numbers from a file."""
        self.task_ = NumberTask(stored["targets"], read_loss(self.loss))

    def _own_recipe(self, scales: FloatArray | None, *, clips: bool) -> RidgeRecipe:
        return RidgeRecipe(float(self.alpha), scales, clips)
