"""Linear ratios with a pool: what is in use is a mixture of shapes of the estimate and of remembered ratios."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from accous.arrays import FloatArray, from_plain, to_plain
from accous.blas import one_blas_thread
from accous.core.pool.memory import distance
from accous.core.pool.pool import PoolState, RatioPool
from accous.core.pool.shapes import UNCUT
from accous.exceptions import CheckpointError
from accous.parameters import require_choice, require_integer
from accous.ratio.linear import LinearRatio

__all__ = ["PooledRatio"]

# Total variation from the reference; as for a drift event. What is nearer may be noise.
_SMALLEST_REGIME = 0.2


class RememberedRegime(NamedTuple):
    """A regime in the memory: its theta, rounds of its visits, distance from the reference, whether it is in force."""

    coef: FloatArray
    visits: tuple[tuple[int, int], ...]
    size: float
    is_current: bool


class PooledRatio(LinearRatio):
    """A linear ratio, and the pool that it may have.

    Every round replaces ``pool_`` as a whole, and it holds the theta that it belongs to. A reader in another thread
    therefore sees the pooled ratio of one round or the next.
    """

    pool: str
    memory: int
    horizon: int | None
    meta_range: str

    pooling_: RatioPool | None
    pool_: PoolState | None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_choice("pool", self.pool, ("auto", "none"))
        require_integer("memory", self.memory, at_least=0)

    def _start_pool(self, neutral: FloatArray) -> None:
        """Set ``pooling_``, which plays the pool's rounds, and ``pool_``, its state before the first."""
        # Departs from the paper: its ratio is that of the ensemble. Settings that reproduce the paper have no pool.
        is_paper = not self.scale_features or self.horizon is not None or self.meta_range == "paper"
        self.pooling_ = self.pool_ = None
        if self.pool == "auto" and not is_paper:
            self.pooling_ = self._make_pooling(int(self.memory))
            self.pool_ = self.pooling_.start(neutral)

    def _make_pooling(self, n_slots: int) -> RatioPool:
        return RatioPool(self.whole_reference_, self.loss_, float(self.max_ratio), n_slots)

    @property
    def is_pooled(self) -> bool:
        """Whether the ratio in use is a mixture of candidates that holds itself back."""
        return self.pool_ is not None

    @property
    def share_in_use(self) -> float:
        """Share of the pool on other candidates than the ratio 1; 1 without a pool."""
        return 1.0 if self.pool_ is None else 1.0 - float(self.pool_.proportions[0])

    @property
    def reference_ratio_(self) -> FloatArray:
        """Current ratio of every reference row, cut at ``max_ratio``."""
        pool = self.pool_
        return self.estimated_ratios() if pool is None else np.minimum(pool.reference_ratios, float(self.max_ratio))

    def estimated_ratios(self) -> FloatArray:
        """Return the estimate's own ratio of every reference row, cut at ``max_ratio``."""
        return super().reference_ratio_

    def pooled_like(self, ratios: FloatArray) -> FloatArray:
        """Return the ratio of the reference that the pool would have if these were the estimate's."""
        if self.pooling_ is None or self.pool_ is None:
            return ratios
        return np.minimum(self.pooling_.with_estimate(self.pool_, ratios), float(self.max_ratio))

    def remembered_regimes(self) -> list[RememberedRegime]:
        """Return the regimes in the pool's memory, in the order in which they were first seen."""
        pool = self.pool_
        if pool is None:
            return []
        current = pool.slots.in_force(pool.proportions, pool.n_rounds)
        found = []
        # A slot of a single look may hold what a jump passed through.
        for slot in np.flatnonzero(pool.slots.n_merged > 1).tolist():
            visits = pool.slots.visits[pool.slots.visits[:, 0] == slot, 1:].tolist()
            size = distance(pool.slot_ratios[slot], np.ones(len(pool.slot_ratios[slot])))
            if visits and size >= _SMALLEST_REGIME:
                rounds = tuple((first, last) for first, last in visits)
                found.append(RememberedRegime(pool.slots.coefs[slot], rounds, size, slot == current))
        return sorted(found, key=lambda regime: regime.visits[0])

    def earlier_visit(self, this_round: int) -> tuple[int, int] | None:
        """Return when, before a change in this round, the regime in force now was in force the last time."""
        pool = self.pool_
        return None if pool is None else pool.slots.earlier_visit(pool.proportions, this_round)

    def _learn(self, batch: FloatArray, step_size: float) -> None:
        if self.pooling_ is None or self.pool_ is None:
            super()._learn(batch, step_size)
            return
        judgement = self.pooling_.judge(self.pool_, batch)
        super()._learn(batch, step_size)
        self.pool_ = self.pooling_.settle(self.pool_, judgement, self.state_.coef, self._uncut_ratios())

    def _uncut_ratios(self) -> FloatArray:
        return self.whole_reference_.ratios(self.state_.coef, UNCUT)

    def _ratio(self, X: Any) -> FloatArray:
        pool = self.pool_
        if self.pooling_ is None or pool is None:
            return super()._ratio(X)
        with one_blas_thread():
            features, _ = self.features_.transform(X)
            return self.pooling_.ratios(pool, features)

    def on_reference(self, rows: Any) -> Self:
        """Return an estimator that goes on with another reference: same theta, learners, scaling and memory."""
        other = super().on_reference(rows)
        other.pooling_ = other.pool_ = None
        if self.pool_ is not None:
            # Parameters that were set after `fit` have no effect on what was learned.
            other.pooling_ = other._make_pooling(len(self.pool_.slots.use))
            with one_blas_thread():
                other.pool_ = other.pooling_.on_reference(self.pool_, other._uncut_ratios())
        return other

    def state_to_plain(self) -> dict[str, Any]:
        """Return the learned state without the reference, as nested dicts of arrays and numbers."""
        return super().state_to_plain() | {"pool": to_plain(self.pool_)}

    def state_from_plain(self, plain: dict[str, Any], X: Any) -> None:
        """Restore the state that ``state_to_plain`` returned, on the same validated reference."""
        super().state_from_plain(plain, X)
        stored = plain.get("pool")
        self.pooling_ = self.pool_ = None
        if stored is not None:
            computed = {"slot_ratios": np.empty((0, 0)), "reference_ratios": np.empty(0)}
            state = from_plain(PoolState, stored | computed)
            self.pooling_ = self._make_pooling(len(state.slots.use))
            if not self.pooling_.fits(state):
                raise CheckpointError("The pool of the saved ratio does not fit its reference: save the model again.")
            self.pool_ = self.pooling_.restored(state, self._uncut_ratios())
