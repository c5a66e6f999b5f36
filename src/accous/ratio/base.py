"""The contract of a ratio estimator, also for your own, with its checks and its default parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator

from accous.arrays import FloatArray
from accous.core.ensemble import FULL, LOW_RANK
from accous.exceptions import ParameterError
from accous.threads import Lockable, one_blas_thread
from accous.validation import Bounds, LearnedAttributes, count_rows, own_copy, read_frame, read_rows

# --- The interface of ratio estimators: what the rest of accous needs from them, and how to write your own


_MIN_REFERENCE_ROWS = 2


def unchanged_on_failure(estimator: BaseEstimator) -> AbstractContextManager[None]:
    """Restore the estimator's old attributes if an exception is raised.

    Estimators replace what they have learned and never modify it, so the old attributes are the old state.
    """
    return _OldAttributes(estimator)


class _OldAttributes(AbstractContextManager[None]):
    def __init__(self, estimator: BaseEstimator) -> None:
        self._estimator = estimator
        self._before = dict(vars(estimator))

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        if error_type is not None:
            self._estimator.__dict__ = self._before


class RatioEstimator(LearnedAttributes, Lockable, BaseEstimator, ABC):
    """An estimate of r(x) = batch density over reference density that is updated batch by batch.

    This class is the interface between ratio estimators and the rest of accous. You can pass your own subclass to
    `accous.AdaptiveClassifier` and use weights, safeguards, readings and saving as with the built-in estimators.

    Implement ``_start``, ``_run_round``, ``_ratio`` and ``reference_ratio_``. This class reads the input, skips empty
    batches and limits BLAS threads for you. Replace learned attributes and never modify them: a shallow copy must be
    able to learn independently. Then override what applies:

    - ``keeps_record``: set it to True if the ratio accumulates over batches. The classifier then holds the ratio back
      as far as past batches are evidence against it.
    - ``max_ratio``: where your ratios are cut, 100 if you say nothing.
    - ``state_to_plain`` and ``state_from_plain``: what `accous.save` and `accous.load` need. The file records only the
      class name and the parameters: give an estimator with the same ones again, ``accous.load(path, ratio=MyRatio())``.

    Examples
    --------
    A ratio that only follows the mean of one column:

    >>> import numpy as np
    >>> from accous import AdaptiveClassifier
    >>> from accous.ratio.base import RatioEstimator
    >>> class MeanRatio(RatioEstimator):
    ...     def _start(self, X):
    ...         self.shift_ = 0.0
    ...
    ...     def _run_round(self, X):
    ...         self.shift_ = 0.9 * self.shift_ + 0.1 * X[:, 0].mean()
    ...
    ...     def _ratio(self, X):
    ...         return np.exp(np.clip(self.shift_ * X[:, 0], -4.0, 4.0))
    ...
    ...     @property
    ...     def reference_ratio_(self):
    ...         return self._ratio(self.reference_)
    ...
    ...     def state_to_plain(self):
    ...         return {"shift": float(self.shift_)}
    ...
    ...     def state_from_plain(self, plain, X):
    ...         self.shift_ = plain["shift"]
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> model = AdaptiveClassifier(ratio=MeanRatio()).fit(X, X[:, 0] > 0)
    >>> model = model.adapt(rng.normal(1.0, size=(20, 2)))
    >>> bool(model.reference_weight_[X[:, 0].argmax()] > 1.0)
    True
    """

    keeps_record: ClassVar[bool] = False
    """Whether the ratio accumulates over batches, so that its losses on them show how far it can be trusted."""

    max_ratio: float = 100.0
    """Where ratios are cut; a parameter of most estimators. Ratios of a batch below its inverse count as that."""

    bounds: Bounds | None = None
    """How far out numbers are read, and what stands for missing ones; None reads them as they are, and none missing."""

    has_scores: ClassVar[bool] = False
    """Whether the ratio is a function of scores phi(x).theta, as in `accous.ratio.linear.LinearRatio`."""

    is_foreign: ClassVar[bool] = False
    """Whether the class is not of this package, so that its ratios are checked in each round."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.is_foreign = cls.__module__.partition(".")[0] != "accous"

    # --- what a subclass implements ---------------------------------------------------------------------------

    @abstractmethod
    def _start(self, X: Any) -> None:
        """Learn from a validated reference; forget everything else."""

    @abstractmethod
    def _run_round(self, X: Any) -> None:
        """Learn from a validated batch of at least one row."""

    @abstractmethod
    def _ratio(self, X: Any) -> FloatArray:
        """Ratio of validated rows; must not change the estimator."""

    @property
    @abstractmethod
    def reference_ratio_(self) -> FloatArray:
        """Ratio of every reference row."""

    # --- what the rest of accous calls ------------------------------------------------------------------------

    def run(self, X: Any) -> FloatArray:
        """Run one round on rows returned by ``read``, and return their ratios from before the round.

        Parameters
        ----------
        X : rows as ``read`` returns them
            At least one row.

        Returns
        -------
        array of shape (n_batch,)
        """
        ratios = self._ratio(X) if self.keeps_record else np.empty(0)
        self._run_round(X)
        return ratios

    def read(self, X: Any, *, min_rows: int = 0) -> Any:
        """Validate a batch: return numbers as a float array, and frames for a transformer unconverted."""
        return self._read(X, reset=False, min_rows=min_rows)

    def as_numbers(self, X: Any) -> FloatArray | None:
        """Return rows returned by ``read`` as numbers: as they are, or mapped by the transformer; None if neither."""
        if self.reads_numbers:
            return X if isinstance(X, np.ndarray) and X.dtype == np.float64 else None
        row_map = getattr(self, "row_map_", None) or getattr(getattr(self, "features_", None), "row_map", None)
        return None if row_map is None else np.asarray(row_map.transform(X), dtype=np.float64)

    def batch_as_numbers(self, X: Any) -> FloatArray | None:
        """Return the rows of the round just run as numbers."""
        return self.as_numbers(X)

    @property
    def is_free_of_blas(self) -> bool:
        """Whether a round runs without BLAS, so that BLAS threads need no limit."""
        return False

    def estimated_ratios(self) -> FloatArray:
        """Return the ratio of every reference row before it is held back: ``reference_ratio_`` if it is not pooled."""
        return self.reference_ratio_

    def pooled(self) -> tuple[FloatArray, float] | None:
        """Return the ratio of every reference row and how far it counts, if the ratio holds itself back."""
        return None

    @property
    def is_pooled(self) -> bool:
        """Whether the ratio holds itself back as far as past batches are evidence against it."""
        return False

    def remembered_regimes(self) -> list[Any]:
        """Return the regimes that the ratio remembers: none, by default."""
        return []

    def earlier_visit(self, this_round: int) -> tuple[int, int] | None:
        """Return when, before a change in this round, the inputs were as they are now; None if that is not known."""
        return None

    @property
    def reads_numbers(self) -> bool:
        """Whether rows are read as numbers; a transformer receives frames unconverted."""
        return isinstance(getattr(self, "feature_map", "identity"), str)

    def state_to_plain(self) -> dict[str, Any]:
        """Return everything learned besides the reference, as nested dicts and lists of arrays, numbers and strings."""
        raise NotImplementedError(
            f"{type(self).__name__} cannot be saved: it does not implement state_to_plain and state_from_plain."
        )

    def state_from_plain(self, plain: dict[str, Any], X: Any) -> None:
        """Restore the state that ``state_to_plain`` returned, on the same validated reference."""
        raise NotImplementedError(f"{type(self).__name__} cannot be loaded: it does not implement state_from_plain.")

    def resume(self, plain: dict[str, Any], rows: Any) -> None:
        """Restore the state that ``state_to_plain`` returned, on a reference that was read; it is not copied."""
        self.reference_ = self._read(rows, reset=True, min_rows=_MIN_REFERENCE_ROWS)
        self.state_from_plain(plain, self.reference_)

    # --- scikit-learn interface -------------------------------------------------------------------------------

    def fit(self, X_reference: Any, y: Any = None) -> Self:
        """Fit on a reference and forget all earlier rounds.

        Parameters
        ----------
        X_reference : array or frame of shape (n_reference, n_features)
            At least two rows.
        y : ignored
            Present for scikit-learn's conventions.
        """
        with self.lock(), unchanged_on_failure(self), one_blas_thread():
            # Compute everything from the copy: a saved model keeps its memory order, so it resumes with the same bits.
            reference = own_copy(self._read(X_reference, reset=True, min_rows=_MIN_REFERENCE_ROWS), X_reference)
            self._start(reference)
            self.reference_ = reference
        return self

    def partial_fit(self, X_batch: Any, y: Any = None) -> Self:
        """Run one round: learn from an unlabelled batch of any size.

        An empty batch changes nothing and does not count as a round. On an unfitted estimator this calls ``fit``, as
        scikit-learn's checks require. Several threads may call it at once: they take turns, and no batch is lost.

        Parameters
        ----------
        X_batch : array or frame of shape (n_batch, n_features)
        y : ignored
            Present for scikit-learn's conventions.
        """
        with self.lock():
            if not self._is_fitted():
                return self.fit(X_batch, y)
            X = self._read(X_batch, reset=False, min_rows=0)
            return self._run_rows(X) if count_rows(X) else self

    def _run_rows(self, X: Any) -> Self:
        """Run one round on at least one row returned by ``read``."""
        with unchanged_on_failure(self):
            if self.is_free_of_blas:
                self._run_round(X)
                return self
            with one_blas_thread():
                self._run_round(X)
        return self

    def predict_ratio(self, X: Any) -> FloatArray:
        """Return the ratio r(x) of batch density over reference density, clipped at ``max_ratio``.

        The call does not change the estimator, and you can make it from several threads.

        Parameters
        ----------
        X : array or frame of shape (n_rows, n_features)

        Returns
        -------
        array of shape (n_rows,)
        """
        self._require_fitted("reference_")
        X = self._read(X, reset=False, min_rows=0)
        return self._ratio(X) if count_rows(X) else np.empty(0)

    def score_loss(self, X_batch: Any) -> float:
        r"""Return the observed loss of the current ratio on a batch; lower is better.

        .. math:: \tfrac12 \Big( \operatorname*{mean}_{S_0} \log(1 + r) + \operatorname*{mean}_{S_t} \log(1 + 1/r) \Big)

        This is the paper's logistic loss, whichever loss the ratio was estimated with. Batch ratios below
        1 / ``max_ratio`` count as that value.

        Parameters
        ----------
        X_batch : array or frame of shape (n_batch, n_features)
            At least one row.
        """
        self._require_fitted("reference_")
        ratio = self._ratio(self._read(X_batch, reset=False, min_rows=1))
        floored = np.maximum(ratio, 1.0 / float(self.max_ratio))
        return float(0.5 * (np.log1p(self.reference_ratio_).mean() + np.log1p(1.0 / floored).mean()))

    def _is_fitted(self) -> bool:
        return "reference_" in vars(self)

    def _read(self, X: Any, *, reset: bool, min_rows: int) -> Any:
        if self.reads_numbers and self.bounds is not None:
            return self.bounds.clipped(read_rows(self, X, reset=reset, min_rows=min_rows, takes_missing=True))
        if self.reads_numbers:
            return read_rows(self, X, reset=reset, min_rows=min_rows)
        return read_frame(self, X, reset=reset, min_rows=min_rows)


# --- The ratios of a user's own estimator are checked where a round reads them: NaN would look like a calm
#     stream


def ratios_of_reference(ratio: RatioEstimator) -> FloatArray:
    """Return ``reference_ratio_`` as an array of floats; those of a class outside accous are checked."""
    if ratio.is_foreign:
        n_rows = count_rows(ratio.reference_)
        return checked_ratios(ratio, ratio.reference_ratio_, n_rows, ("the reference", "reference_ratio_"))
    return np.ascontiguousarray(ratio.reference_ratio_, dtype=np.float64)


def checked_ratios(ratio: RatioEstimator, values: Any, n_rows: int, source: tuple[str, str]) -> FloatArray:
    """Return ratios as an array of floats, or raise a ParameterError that names the class and the first bad row.

    Parameters
    ----------
    ratio : RatioEstimator
    values : array of shape (n_rows,)
        What the estimator returned.
    n_rows : int
    source : tuple of str
        The rows whose ratios these are, and the method that returned them.
    """
    (rows, method), name = source, type(ratio).__name__
    try:
        found = np.ascontiguousarray(values, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise ParameterError(
            f"{name} returned values that are not numbers for {rows} ({error}): return one ratio a row from {method}."
        ) from error
    if np.shape(values) != (n_rows,):
        raise ParameterError(
            f"{name} returned an array of shape {np.shape(values)} for the {n_rows} rows of {rows}: return one ratio a "
            f"row from {method}."
        )
    is_good = (found >= 0.0) & (found < np.inf)
    if not is_good.all():
        row = int(np.argmin(is_good))
        raise ParameterError(
            f"{name} returned the ratio {found[row]} for row {row} of {rows}, counted from 0: return finite numbers "
            f"that are not negative from {method}."
        )
    return found


# --- The rules behind every "auto" and None; they are the same for all data


AUTO_START = "handover"
AUTO_META_RANGE = "running"

MAX_UNSHORTENED_COLUMNS = 256
"""Largest number of columns for which standardised rows are not shortened; ``docs/defaults.md`` shows the gain."""

MAX_FULL_FEATURES = 1024
"""Largest number of features for which learners keep their whole matrix; ``docs/performance.md`` shows the cost."""

_BOUND_QUANTILE = 0.99
_USUAL_COLUMNS = 12  # as in the paper's synthetic data; 10 and 1 differed little on one stream
_SMALLEST_BOUND = 1e-150


def default_shortening(n_columns: int) -> float:
    """Return the divisor that makes standardised rows of many columns as long as rows of a dozen columns.

    A standardised row of d columns has norm sqrt(d), and the intercept is 1. Next to hundreds of columns the intercept
    hardly counts, and the ratio of a small part of the reference can fall only if the ratio of the rest grows too.
    """
    # Departs from the paper: it has no intercept at all.
    return 1.0 if n_columns <= MAX_UNSHORTENED_COLUMNS else float(np.sqrt(n_columns / _USUAL_COLUMNS))


def default_feature_bound(norms: FloatArray) -> float:
    """Return R: the 99 % quantile of the norms of the reference rows, so that a few outliers do not set the scale."""
    # Departs from the paper: it takes the largest norm.
    bound = float(np.quantile(norms, _BOUND_QUANTILE))
    # A reference of zeros has no scale of its own.
    return bound if bound > _SMALLEST_BOUND else 1.0


def default_radius(n_coefs: int, *, is_scaled: bool, largest_score: float) -> float:
    """Return S: the paper's d/2, where d counts the intercept; for scaled features, at least 10 and the largest score.

    The largest score is that of ``max_ratio``: its logarithm for the logistic loss, ``max_ratio`` itself otherwise.
    """
    # Departs from the paper: dividing phi by R without a larger S limits |log r| to d/2, too small for small d.
    return max(n_coefs / 2.0, 10.0, largest_score) if is_scaled else n_coefs / 2.0


@lru_cache(maxsize=64)
def default_step_size(n_batch: int, *, is_log_linear: bool) -> float:
    """Return gamma of a round: larger batches have less noisy gradients and allow longer steps.

    Losses whose score is the ratio itself instead of its logarithm need shorter steps.
    """
    # Departs from the paper: with its 3 (1 + exp(S R)), every step ends on the surface of the ball.
    return (10.0 if is_log_linear else 2.0) * min(n_batch**0.25, 2.0)


def default_metric(n_features: int) -> str:
    """Return which part of their matrix learners keep; the intercept does not count as a feature."""
    return FULL if n_features <= MAX_FULL_FEATURES else LOW_RANK
