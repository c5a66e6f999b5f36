"""Monitoring of an adaptive model: whether to trust it, and what moved.

Everything here is computed from one state of the model when you read it. Nothing here changes the model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from accous.arrays import FloatArray
from accous.diagnostics.coverage import Coverage
from accous.diagnostics.drift import DriftEvent
from accous.diagnostics.labels import LabelledRounds, MeasuredError
from accous.diagnostics.losses import LossScale
from accous.diagnostics.risk import Evidence, RiskEstimate
from accous.diagnostics.trust import Checks, Trust, WeightEvidence, is_outside, judge, no_overlap

__all__ = ["Monitoring"]

_FEW_OUT = 0.05


class Monitoring:
    """Attributes that monitor an adaptive model; none of them learns anything."""

    state_: Any
    base_weight_: FloatArray
    rules_: Any
    unverified_: str

    if TYPE_CHECKING:

        @property
        def _evidence(self) -> Evidence | None: ...

        def _coverage(self, state: Any) -> Coverage: ...

        def _measured(
            self, state: Any, coverage: Coverage, rounds: LabelledRounds | None = None
        ) -> MeasuredError | None: ...

        def _risk(self, state: Any) -> RiskEstimate: ...

        def _excess(self, state: Any) -> tuple[float, float]: ...

        def _exponent_in_use(self, state: Any) -> float: ...

        @property
        def _scale(self) -> LossScale: ...

    @property
    def trust_(self) -> Trust:
        """Three answers and a verdict, with their evidence."""
        state = self.state_
        if "trust" not in state.cache:
            state.cache["trust"] = self._trust(state, self._coverage(state))
        trust: Trust = state.cache["trust"]
        return trust

    def trust_given(self, coverage: Coverage, rounds: LabelledRounds | None = None) -> Trust:
        """Return ``trust_`` with other findings about the recent rows, such as those about the columns of a table.

        Parameters
        ----------
        coverage : Coverage
        rounds : LabelledRounds, optional
            What labels measured round by round, if that is known.
        """
        return self._trust(self.state_, coverage, rounds)

    def _trust(self, state: Any, coverage: Coverage, rounds: LabelledRounds | None = None) -> Trust:
        risk = self._risk(state)
        return judge(
            self._weight_evidence(state),
            share_out_of_bound=self._share_out_of_bound(state),
            exponent=self._exponent_in_use(state),
            is_vetoed=state.fallback.veto.is_held,
            excess=self._excess(state),
            scale=self._scale,
            guard=self.rules_.guard.sentence,
            interval=(risk.adapted, risk.adapted_low, risk.adapted_high),
            checks=Checks(
                coverage=coverage,
                evidence=self._evidence,
                measured=self._measured(state, coverage, rounds),
                unverified=self.unverified_,
                since_joining=_since_joining(state),
            ),
        )

    def _weight_evidence(self, state: Any) -> WeightEvidence:
        ratios = np.asarray(state.ratio.estimated_ratios(), dtype=np.float64)
        return WeightEvidence.of(state.weights, ratios, self.base_weight_, float(state.ratio.max_ratio))

    def _is_covered(self, state: Any, coverage: Coverage) -> bool:
        """Whether the answer about the inputs is not "no"; it takes less time than the answers."""
        if is_outside(coverage):
            return False
        n_rounds, _ = _since_joining(state) or (None, None)
        return no_overlap(self._weight_evidence(state), self._share_out_of_bound(state), n_rounds) is None

    def _share_out_of_bound(self, state: Any) -> float:
        """Share of recent rows out of bound; 0 once rows that joined the reference lie there too.

        The bound is that of the first reference: beyond it, the present one may have rows enough.
        """
        share: float = state.watch.share_out_of_bound
        if not share or not state.ratio.has_scores:
            return share
        of_reference: float = state.ratio.share_of_reference_out
        if of_reference < _FEW_OUT:  # one row in a hundred, by the choice of the bound
            return share
        # Without rows that joined, the user has chosen a narrow bound.
        return 0.0 if state.joined is not None else max(0.0, share - of_reference)

    @property
    def drift_attribution_(self) -> FloatArray:
        """Share of each input column in the log ratio of recent rounds; zeros while there is no shift."""
        parts: FloatArray = self.state_.watch.column_shares
        return parts

    @property
    def history_in_use_(self) -> float:
        """Mean interval length of the learners in use, weighted by their meta weights, in rounds."""
        state = self.state_
        history: float = state.ratio.history_in_use(state.n_rounds)
        return history

    @property
    def drift_events_(self) -> tuple[DriftEvent, ...]:
        """The last hundred changes in the input distribution, and onsets in single columns, in order."""
        state = self.state_
        shifts = () if state.watch.log is None else state.watch.log.events
        return tuple(sorted((*shifts, *state.columns.events), key=lambda event: event.round))


def _since_joining(state: Any) -> tuple[int, int] | None:
    """Rounds and rows of the stream since rows joined the reference; None if none did, or before the first round."""
    joined = state.joined
    if joined is None or not joined.n_rounds:
        return None
    return state.n_rounds - joined.n_rounds, state.n_rows - joined.n_rows
