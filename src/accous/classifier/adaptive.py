"""What an adaptive model is, whatever it predicts: fitted once, then adapted by importance-weighted ERM.

`accous.AdaptiveClassifier` and `accous.AdaptiveRegressor` add what they predict (`accous.classifier.task`), their own
built-in predictor, and the methods that only one of them has.
"""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from accous.arrays import FloatArray
from accous.classifier.auditing import Auditing
from accous.classifier.backtest import Backtest
from accous.classifier.boosted_erm import EstimatorRecipe
from accous.classifier.covering import Covering, ReferenceCover
from accous.classifier.erm import ErmRecipe, WeightedErm, deviations_of_columns
from accous.classifier.estimating import Estimating
from accous.classifier.extending import Extending
from accous.classifier.fallback import FixedModel
from accous.classifier.guard import CAUTIONS, FREE, choose_guard
from accous.classifier.labels import read_base_weights
from accous.classifier.late_labels import LateLabelling
from accous.classifier.learning import Learning
from accous.classifier.monitoring import Monitoring
from accous.classifier.notebook import NotebookDisplay
from accous.classifier.predicting import Predicting
from accous.classifier.refit_budget import rounds_between_refits, seconds_of
from accous.classifier.remembering import Remembering
from accous.classifier.round import RoundRules, play_round
from accous.classifier.round_log import rounds_frame
from accous.classifier.state import (
    AdaptationState,
    predictors_from_plain,
    start_state,
    state_from_plain,
    state_to_plain,
    under_guard,
)
from accous.classifier.task import Task
from accous.classifier.traps import warn_of_traps
from accous.classifier.unreadable_values import naming_values
from accous.classifier.verification import Verification
from accous.diagnostics.drift import ReferenceColumns
from accous.diagnostics.losses import effective_sample_size
from accous.exceptions import ParameterError
from accous.parameters import require_choice, require_number
from accous.ratio.base.base import RatioEstimator, unchanged_on_failure
from accous.ratio.base.online import NoShift, OnlineDensityRatio
from accous.threads import TakesTurns, one_blas_thread, one_openmp_thread_if_few
from accous.validation import LearnedAttributes, count_rows, own_copy, read_frame, read_rows, require_finite

__all__ = ["LARGEST_PENALTY", "AdaptiveModel"]

_ROWS_OF_ROUND, _NEVER = 10, 1 << 62
LARGEST_PENALTY = 1e100  # beyond it, sums of squares of it times the weights could exceed the largest number


class AdaptiveModel(
    LearnedAttributes,
    TakesTurns,
    Learning,
    Verification,
    LateLabelling,
    Extending,
    Predicting,
    Monitoring,
    Estimating,
    Auditing,
    Covering,
    Remembering,
    NotebookDisplay,
):
    """The life of `accous.AdaptiveClassifier` and `accous.AdaptiveRegressor`.

    Attributes
    ----------
    penalty : str
        Name of the parameter that is the penalty of the built-in regression.
    """

    penalty: ClassVar[str]
    state_: AdaptationState
    task_: Any
    estimator: Any
    ratio: Any
    refit: int | str
    refit_budget: float | None = None
    rounds_between_refits_: int
    standardize: bool
    fallback: str
    caution: str
    random_state: Any
    n_features_in_: int

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

    def _own_recipe(self, scales: FloatArray | None) -> ErmRecipe:
        """Return the built-in regression; its penalty acts on columns divided by the scales."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, order: Any = None) -> Self:
        """Fit on a labelled reference and forget all earlier rounds.

        Parameters
        ----------
        X : array or frame of shape (n_reference, n_features)
        y : array of shape (n_reference,)
        sample_weight : array of shape (n_reference,), optional
            Base weights b, which the importance weights multiply.
        order : bool, array of shape (n_reference,) or Backtest, optional
            True says that the rows are in order of time; an array gives their times: dates, numbers, or text in one ISO
            form, such as 2024-05-31 17:00. With an order, ``fit`` replays the reference (`accous.backtest`). The
            outcome decides how far label-free estimates are believed and whether to adapt. Pass a `Backtest` if you
            have replayed the rows yourself; they are then in order of time. Without an order, nothing is verified.
            References of fewer than 100 rows are not replayed.

        Warns
        -----
        TrapWarning
            If one column alone determines the label, a class has fewer than ten rows, or a column counts rows that are
            in order of time. References of fewer than 200 rows are not checked.
        """
        self._check_parameters()
        self.rounds_between_refits_ = 0
        with self.turn(), unchanged_on_failure(self), one_blas_thread(), naming_values(X):
            rows = self._read(X, reset=True, min_rows=2)
            self.task_ = self._read_task(y, count_rows(rows))
            self.base_weight_ = read_base_weights(sample_weight, count_rows(rows))
            ratio = self._make_ratio()
            ratio.fit(X)
            self.reference_ = own_copy(rows, X)
            is_ordered = isinstance(order, Backtest) or (isinstance(order, (bool, np.bool_)) and bool(order))
            warn_of_traps(self.reference_, self.task_, self._names, is_ordered=is_ordered)
            self.erm_ = self._make_erm()
            estimator = self.erm_.fit(self.base_weight_, None)
            self.fixed_ = FixedModel(self.erm_, self.base_weight_, self.task_, estimator)
            self._verify(X, y, order)
            self.rules_ = self._make_rules(ratio)
            self.state_ = start_state(ratio, self.base_weight_, estimator, self.n_features_in_, self.rules_.guard)
            self._limit_refits(rows, X)
            self._prepare_readings()
        return self

    def _prepare_readings(self) -> None:
        """Make the fits that readings of a model with the user's estimator need, so that a reading makes none.

        A model that never adapts is made to predict, often many times in a cross-validation, so it makes none of them.
        """
        if self.estimator is None or isinstance(self.state_.ratio, NoShift):
            return
        try:
            self.fixed_.prepare()
        except ValueError:
            # The user's estimator could not be fitted on a part: who reads its risk sees the error.
            return
        if self.halves_ is not None:
            self.halves_.prepare()

    def _limit_refits(self, rows: Any, X: Any) -> None:
        """Measure how many rounds a refit takes, if there is a budget for refits and they are not quick anyway."""
        budget = self.refit_budget
        if budget is None or self.estimator is None or self.erm_.keeps_first_fit:
            return
        some = np.arange(min(_ROWS_OF_ROUND, count_rows(rows)))
        batch, read = _safe_indexing(X, some), _safe_indexing(rows, some)
        rules, state = replace(self.rules_, refit=_NEVER), self.state_

        def play() -> None:
            with one_openmp_thread_if_few(len(some)):
                state.estimator.predict(read)
            play_round(rules, state, read, batch, len(some))

        refit = seconds_of(lambda: self.erm_.fit(self.base_weight_, state.estimator), n_times=1)
        self.rounds_between_refits_ = rounds_between_refits(float(budget), refit, seconds_of(play))
        self.rules_ = self._make_rules(state.ratio)

    @property
    def ratio_(self) -> Any:
        """The ratio estimator."""
        return self.state_.ratio

    @property
    def estimator_(self) -> Any:
        """The predictor in use."""
        return self._predictor(self.state_)

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
    def effective_sample_size_(self) -> float:
        """Effective number of reference rows under the current weights."""
        return effective_sample_size(self.state_.weights)

    @property
    def history_(self) -> Any:
        """What the last 10,000 rounds did, as a pandas frame."""
        state = self.state_
        return rounds_frame(state.rounds, state.cache, state.n_rounds)

    def _names(self) -> list[str]:
        """Names of the input columns."""
        names = getattr(self, "feature_names_in_", None)
        return [f"x{column}" for column in range(self.n_features_in_)] if names is None else list(map(str, names))

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
        require_choice("fallback", self.fallback, ("auto", "none"))
        require_choice("caution", self.caution, CAUTIONS)
        if self.estimator is not None and penalty != 1.0:
            raise ParameterError(
                f"{self.penalty} applies only to the built-in regression; set it on your estimator instead."
            )
        if self.ratio is not None and not isinstance(self.ratio, RatioEstimator):
            raise ParameterError(f"ratio must be a ratio estimator such as OnlineDensityRatio(), got {self.ratio!r}.")

    def _make_ratio(self) -> RatioEstimator:
        if self.ratio is not None:
            ratio: RatioEstimator = clone(self.ratio)
            return ratio
        # Without the fallback, the method is that of the paper.
        pool = "auto" if self.fallback == "auto" else "none"
        return OnlineDensityRatio(pool=pool, random_state=self.random_state)

    def _make_rules(self, ratio: RatioEstimator) -> RoundRules:
        has_fallback = self.fallback == "auto"
        return RoundRules(
            erm=self.erm_,
            fixed=self.fixed_,
            task=self.task_,
            base_weight=self.base_weight_,
            columns=ReferenceColumns(self.reference_),
            cover=ReferenceCover(self.reference_, ratio, self._names(), has_numbers=self.estimator is None),
            names=self._names(),
            refit=self.refit,
            has_fallback=has_fallback,
            caution=self.caution,
            guard=choose_guard(self._evidence, self.caution) if has_fallback and ratio.keeps_record else FREE,
            has_numbers=self.estimator is None,
            # These columns have already been read, unless they are for a transformer.
            shares_rows=self.estimator is None and ratio.reads_numbers,
            limits_blas=self.erm_.limits_blas and ratio.is_free_of_blas,
            rounds_between_refits=self.rounds_between_refits_,
        )

    def _recipe(self) -> ErmRecipe:
        if self.estimator is not None:
            return EstimatorRecipe(self.estimator, keeps_splits=self.refit == "auto")
        return self._own_recipe(deviations_of_columns(self.reference_, self.base_weight_) if self.standardize else None)

    def _make_erm(self) -> WeightedErm:
        return self._recipe().on(self.reference_, self.task_)

    def state_to_plain(self) -> dict[str, Any]:
        """Return the learned state without reference, labels and ratio, as nested dicts of arrays and numbers."""
        if self.estimator is None:
            return state_to_plain(self.state_, self.fixed_.estimator)
        own = {self._errors_name: self.fixed_.known_errors, "rounds_between_refits": self.rounds_between_refits_}
        return state_to_plain(self.state_, None) | own

    def state_from_plain(self, plain: dict[str, Any], ratio: RatioEstimator) -> None:
        """Restore the state that ``state_to_plain`` returned; a user's estimator is refitted with its last weights."""
        self.rounds_between_refits_ = plain.get("rounds_between_refits", 0)
        if self.estimator is None:
            self.erm_ = self._make_erm()
            estimator, fixed = predictors_from_plain(plain, self.erm_)
            self.fixed_ = FixedModel(self.erm_, self.base_weight_, self.task_, fixed)
        else:
            estimator = self._fit_again_with(plain["fitted_weights"], plain)
        self.rules_ = self._make_rules(ratio)
        self.state_ = under_guard(state_from_plain(plain, ratio, estimator), self.rules_.guard)

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
        self.fixed_ = FixedModel(self.erm_, self.base_weight_, self.task_, fixed, errors)
        return estimator

    def _take_up_parameters(self) -> None:
        """Follow parameters that were set after ``fit``, as a model that was saved and loaded does."""
        if self.estimator is not None and type(self._make_erm()) is not type(self.erm_):
            estimator = self._fit_again_with(self.state_.fitted_weights, {})
            self.state_ = replace(self.state_, estimator=estimator, cache={})
        self.rules_ = self._make_rules(self.state_.ratio)
        self.state_ = under_guard(self.state_, self.rules_.guard)

    def _read(self, X: Any, *, reset: bool, min_rows: int = 1) -> Any:
        if self.estimator is None:
            return read_rows(self, X, reset=reset, min_rows=min_rows)
        rows = read_frame(self, X, reset=reset, min_rows=min_rows)
        # Rows that the ratio could not learn from are not predicted either.
        is_plain = isinstance(getattr(self.ratio, "feature_map", "standardize"), str)
        if is_plain and isinstance(rows, np.ndarray) and rows.dtype.kind == "f":
            require_finite(rows, X)
        return rows
