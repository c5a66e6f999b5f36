"""The rounds of an adaptive model: learn from a batch, or predict it and learn from it in one call."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Self

from numpy.typing import NDArray

from accous.classifier.events import log_events
from accous.classifier.fallback import FixedModel
from accous.classifier.round import RoundRules, play_round
from accous.classifier.state import AdaptationState
from accous.classifier.task import Task
from accous.classifier.unreadable_values import naming_values
from accous.exceptions import ParameterError
from accous.threads import one_blas_thread
from accous.validation import count_rows, select_columns

__all__ = ["Learning"]


class Learning:
    """The methods of an adaptive model that run a round."""

    state_: AdaptationState
    rules_: RoundRules
    fixed_: FixedModel
    task_: Task
    estimator: Any
    reference_: Any
    refit: int | str
    fallback: str
    caution: str

    if TYPE_CHECKING:

        def turn(self) -> AbstractContextManager[Any]:  # noqa: D102
            ...

        def _require_fitted(self, attribute: str) -> None: ...

        def _read(self, X: Any, *, reset: bool, min_rows: int = 1) -> Any: ...

        def _take_up_parameters(self) -> None: ...

        def _predicted(self, method: str, rows: Any) -> NDArray[Any]: ...

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
            No round learns from labels: pass those to ``observe`` or ``extend``.
        """
        _refuse_labels("adapt", y)
        self._play(X_batch)
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
            No round learns from labels: pass those to ``observe`` or ``extend``.

        Returns
        -------
        array of shape (n_batch,)
            The prediction of each row.
        """
        _refuse_labels("step", y)
        predicted: NDArray[Any] = self._play(X_batch, predicts=True)
        return predicted

    def _play(self, X_batch: Any, *, predicts: bool = False) -> Any:
        """Run one round; return the predictions from before it if they are asked for."""
        attributes = vars(self)
        if "state_" not in attributes:
            self._require_fitted("state_")
        if "feature_names_in_" in attributes:
            X_batch = select_columns(self, X_batch)
        rows = self._read(X_batch, reset=False, min_rows=0)
        predicted, n_rows = None, count_rows(rows)
        if n_rows == 0:
            return self.task_.none
        with self.turn(), nullcontext() if self.estimator is None else naming_values(X_batch, self.reference_):
            if predicts:
                predicted = self._predicted("predict", rows)
            if (self.refit, self.fallback == "auto", self.caution) != self.rules_.chosen:
                self._take_up_parameters()
            before = self.state_
            with nullcontext() if self.rules_.limits_blas else one_blas_thread():
                after = self.state_ = play_round(self.rules_, before, rows, X_batch, n_rows)
        if (
            after.watch.log is not before.watch.log
            or after.fallback.check is not before.fallback.check
            or after.columns is not before.columns
        ) and not self.rules_.is_replay:
            log_events(before, after, self.fixed_)
        return predicted


def _refuse_labels(method: str, y: Any) -> None:
    if y is not None:
        raise ParameterError(
            f"{method} takes no labels: count those that arrive late with observe(X, y), or add them to the reference "
            "with extend(X, y)."
        )
