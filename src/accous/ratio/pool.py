"""Estimators with a pool: the candidates that the paper's ensemble is mixed with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from accous.arrays import FloatArray, from_plain, to_plain
from accous.core.ensemble import CompiledRounds, NarrowReference
from accous.core.pool import N_SHAPES, UNCUT, PoolState, RatioPool, SeenRows, distance
from accous.core.round import OneModel, OneModelRounds
from accous.exceptions import CheckpointError, ParameterError
from accous.ratio.base import RatioEstimator
from accous.ratio.linear import LinearRatio
from accous.text import require_choice, require_integer
from accous.threads import one_blas_thread
from accous.validation import count_rows

# --- Candidates that the user gives to the pool: ratio estimators that learn in every round, and functions of
#     the rows


Member = RatioEstimator | Callable[[Any], Any]

_SMALLEST_MEAN = 1e-12


@dataclass(frozen=True, slots=True)
class Candidates:
    """The given candidates after a round; the next round makes others and does not change these.

    Attributes
    ----------
    members : tuple
        Fitted ratio estimators, and functions.
    max_ratio : float
        Larger ratios count as this value.
    means : array of shape (n_given,)
        Mean of each ratio over the reference.
    reference_ratios : array of shape (n_given, n_reference)
        The ratios of the reference, divided by these means.
    """

    members: tuple[Member, ...]
    max_ratio: float
    means: FloatArray
    reference_ratios: FloatArray

    def ratios(self, X: Any) -> FloatArray:
        """Return the ratios of some rows, (n_given, n_rows), with mean 1 over the reference."""
        found = np.empty((len(self.members), count_rows(X)))
        for number, (member, mean) in enumerate(zip(self.members, self.means.tolist(), strict=True)):
            found[number] = _scaled(_ratios_of(number, member, X, self.max_ratio), mean)
        return found

    def after_round(self, X: Any) -> Candidates:
        """Return the candidates after a round: the estimators have learned from the rows, functions stay."""
        members, means, ratios = list(self.members), self.means.copy(), self.reference_ratios.copy()
        for number, member in enumerate(self.members):
            if isinstance(member, RatioEstimator):
                # Estimators replace what they have learned and never modify it, so a shallow copy learns independently.
                members[number] = learned = copy(member)
                learned.run(learned.read(X))
                means[number], ratios[number] = _on_reference(number, learned, None, self.max_ratio)
        return Candidates(tuple(members), self.max_ratio, means, ratios)

    def state_to_plain(self) -> list[Any]:
        """Return what each candidate has learned; nothing for a function."""
        return [each.state_to_plain() if isinstance(each, RatioEstimator) else {} for each in self.members]


def check_candidates(candidates: Any) -> None:
    """Raise a ParameterError unless this is None or a list of ratio estimators and functions."""
    if candidates is not None and not isinstance(candidates, (list, tuple)):
        raise ParameterError(f"candidates must be a list of ratio estimators and functions, got {candidates!r}.")
    for number, each in enumerate(candidates or ()):
        if isinstance(each, type):
            raise ParameterError(f"candidates[{number}] is a class: pass an instance, {each.__name__}().")
        if not isinstance(each, RatioEstimator) and not callable(each):
            raise ParameterError(f"candidates[{number}] must be a ratio estimator or a function of rows, got {each!r}.")


def start_candidates(candidates: Iterable[Any] | None, rows: Any, max_ratio: float) -> Candidates:
    """Return the candidates before the first round: estimators are cloned and fitted on the reference."""
    members = [clone(each).fit(rows) if isinstance(each, RatioEstimator) else each for each in candidates or ()]
    return _measured(members, rows, max_ratio)


def resume_candidates(candidates: Iterable[Any] | None, plain: list[Any], rows: Any, max_ratio: float) -> Candidates:
    """Return the candidates whose ``state_to_plain`` this is, on the same reference."""
    members = [clone(each) if isinstance(each, RatioEstimator) else each for each in candidates or ()]
    if len(members) != len(plain):
        raise CheckpointError(
            f"The saved pool has {len(plain)} candidates but the parameter candidates has {len(members)}: it was set "
            "after fit. Set it back, and save the model again."
        )
    for member, state in zip(members, plain, strict=True):
        if isinstance(member, RatioEstimator):
            member.resume(state, rows)
    return _measured(members, rows, max_ratio)


def _no_candidates(max_ratio: float) -> Candidates:
    """Return no candidates at all."""
    return Candidates((), max_ratio, np.empty(0), np.empty((0, 0)))


def _measured(members: list[Member], rows: Any, max_ratio: float) -> Candidates:
    """Return candidates with their means and ratios over the reference."""
    found = [_on_reference(number, member, rows, max_ratio) for number, member in enumerate(members)]
    ratios = np.array([each for _, each in found]).reshape(len(found), count_rows(rows))
    return Candidates(tuple(members), max_ratio, np.array([mean for mean, _ in found]), ratios)


def _on_reference(number: int, member: Member, rows: Any, max_ratio: float) -> tuple[float, FloatArray]:
    if isinstance(member, RatioEstimator):
        ratios = _checked(number, member.reference_ratio_, len(member.reference_ratio_), max_ratio)
    else:
        ratios = _ratios_of(number, member, rows, max_ratio)
    mean = float(ratios.mean())
    return mean, _scaled(ratios, mean)


def _ratios_of(number: int, member: Member, X: Any, max_ratio: float) -> FloatArray:
    ratios = member.predict_ratio(X) if isinstance(member, RatioEstimator) else member(X)
    return _checked(number, ratios, count_rows(X), max_ratio)


def _checked(number: int, ratios: Any, n_rows: int, max_ratio: float) -> FloatArray:
    """Return ratios cut at ``max_ratio``, or raise an error that names the candidate."""
    found = np.asarray(ratios, dtype=np.float64)
    if found.shape != (n_rows,):
        raise ParameterError(
            f"candidates[{number}] returned the shape {found.shape} for {n_rows} rows: return one ratio a row."
        )
    is_bad = ~((found >= 0.0) & np.isfinite(found))
    if is_bad.any():
        row = int(np.argmax(is_bad))
        raise ParameterError(
            f"candidates[{number}] returned {found[row]} for row {row}: return a finite ratio that is not negative."
        )
    return np.minimum(found, max_ratio)


def _scaled(ratios: FloatArray, mean: float) -> FloatArray:
    """Return ratios divided by their mean over the reference; 1 where that is zero, which says nothing about rows."""
    return ratios / mean if mean > _SMALLEST_MEAN else np.ones(len(ratios))


# --- Linear ratios with a pool: what is in use is a mixture of shapes of the estimate and of remembered ratios


# Total variation from the reference; as for a drift event. What is nearer may be noise.
_SMALLEST_REGIME = 0.2


class RememberedRegime(NamedTuple):
    """A regime in the memory: its theta, rounds of its visits, distance from the reference, whether it is in force."""

    coef: FloatArray
    visits: tuple[tuple[int, int], ...]
    size: float
    is_current: bool


class PoolInUse(NamedTuple):
    """The pool after a round, and the given candidates after the same round."""

    state: PoolState
    given: Candidates


class _LearnedRatio:
    """What was learned: the model as the compiled round knows it, or the ensemble and its pool, whichever is known."""

    __slots__ = ("ensemble", "in_use", "model")

    def __init__(self, model: OneModel | None, ensemble: Any = None, in_use: PoolInUse | None = None) -> None:
        self.model, self.ensemble, self.in_use = model, ensemble, in_use

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep what was learned and not what was read of it: reading changes no pickle."""
        return _LearnedRatio, (None, self.ensemble, self.in_use) if self.model is None else (self.model,)


@dataclass(eq=False, repr=False, kw_only=True)
class PooledRatio(LinearRatio):
    """A linear ratio, and the pool that it may have.

    Every round replaces what was learned as a whole. A reader in another thread therefore sees the pooled ratio of one
    round or the next.
    """

    horizon: int | None = None
    meta_range: str = "auto"
    pool: str = "auto"
    memory: int = 4
    candidates: list[Any] | None = None

    pooling_: RatioPool | None = field(init=False)
    _compiled: OneModelRounds | None = field(init=False)
    _learned: _LearnedRatio = field(init=False)
    _seen_batch: SeenRows | tuple[OneModel, FloatArray, FloatArray] | None = field(init=False)

    @property
    def state_(self) -> Any:
        """The ensemble after the last round."""
        learned = self._learned
        if learned.ensemble is None and learned.model is not None:
            assert self._compiled is not None
            learned.ensemble = self._compiled.ensemble_of(learned.model)
        return learned.ensemble

    @state_.setter
    def state_(self, state: Any) -> None:
        self._learned = _LearnedRatio(None, state, self.in_use_ if "_learned" in vars(self) else None)

    @property
    def coef_(self) -> FloatArray:
        """Current theta."""
        model = self._learned.model
        if model is None:
            return super().coef_
        assert self._compiled is not None
        return self._compiled.coef_of(model).copy()

    @property
    def in_use_(self) -> PoolInUse | None:
        """The pool after the last round; None without one."""
        learned = self._learned
        if learned.in_use is None and learned.model is not None:
            assert self._compiled is not None
            learned.in_use = PoolInUse(self._compiled.pool_of(learned.model), _no_candidates(float(self.max_ratio)))
        return learned.in_use

    @in_use_.setter
    def in_use_(self, in_use: PoolInUse | None) -> None:
        self._learned = _LearnedRatio(None, self.state_, in_use)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_choice("pool", self.pool, ("auto", "none"))
        require_integer("memory", self.memory, at_least=0)
        check_candidates(self.candidates)
        if self.candidates and not self._has_pool:
            raise ParameterError(
                "candidates join the pool, which these settings do not have: use pool='auto' and leave out horizon, "
                "meta_range='paper' and scale_features=False."
            )

    @property
    def _has_pool(self) -> bool:
        # Departs from the paper: its ratio is that of the ensemble. Settings that reproduce the paper have no pool.
        is_paper = not self.scale_features or self.horizon is not None or self.meta_range == "paper"
        return self.pool == "auto" and not is_paper

    def _start(self, X: Any) -> None:
        super()._start(X)
        self.pooling_ = self.in_use_ = self._seen_batch = self._compiled = None
        if self._has_pool:
            given = start_candidates(self.candidates, X, float(self.max_ratio))
            self.pooling_ = self._make_pooling(int(self.memory), given)
            self.in_use_ = PoolInUse(self.pooling_.start(self.neutral_coef_, given.reference_ratios), given)

    def _make_pooling(self, n_slots: int, given: Candidates) -> RatioPool:
        self._is_free_of_blas = self._is_free_of_blas and not given.members
        pool = RatioPool(self.whole_reference_, float(self.max_ratio), n_slots, len(given.members))
        if (
            isinstance(self.rounds_, CompiledRounds)
            and isinstance(self.whole_reference_, NarrowReference)
            and not given.members
        ):
            self._compiled = OneModelRounds(self.rounds_, self.whole_reference_, float(self.max_ratio), pool)
        return pool

    @property
    def pool_(self) -> PoolState | None:
        """State of the pool, or None without one."""
        return None if self.in_use_ is None else self.in_use_.state

    @property
    def candidate_shares_(self) -> FloatArray:
        """Share of the pool that each given candidate has."""
        pool = self.pool_
        return np.empty(0) if pool is None else pool.proportions[N_SHAPES + len(pool.slots.use) :].copy()

    @property
    def is_pooled(self) -> bool:
        """Whether the ratio in use is a mixture of candidates that holds itself back."""
        return self.pooling_ is not None

    def pooled(self) -> tuple[FloatArray, float] | None:
        """Return the ratio of every reference row, not cut, and how far it counts; None without a pool."""
        model = self._learned.model
        if model is not None:
            assert self._compiled is not None
            return self._compiled.pooled(model), self._compiled.share_in_use(model)
        if self.in_use_ is None:
            return None
        state = self.in_use_.state
        return state.reference_ratios, 1.0 - float(state.proportions[0])

    @property
    def share_in_use(self) -> float:
        """Share of the pool on other candidates than the ratio 1; 1 without a pool."""
        pooled = self.pooled()
        return 1.0 if pooled is None else pooled[1]

    @property
    def reference_ratio_(self) -> FloatArray:
        """Current ratio of every reference row, cut at ``max_ratio``."""
        pooled = self.pooled()
        return self.estimated_ratios() if pooled is None else np.minimum(pooled[0], float(self.max_ratio))

    def estimated_ratios(self) -> FloatArray:
        """Return the estimate's own ratio of every reference row, cut at ``max_ratio``."""
        return super().reference_ratio_

    def remembered_regimes(self) -> list[RememberedRegime]:
        """Return the regimes in the pool's memory, in the order in which they were first seen."""
        pool = self.pool_
        if pool is None:
            return []
        last_look = pool.n_rounds - pool.look.n_rounds
        current = pool.slots.in_force(pool.proportions, last_look, pool.reference_ratios, pool.slot_ratios)
        found = []
        # A slot of a single look may hold what a jump passed through.
        for slot in np.flatnonzero(pool.slots.n_merged > 1).tolist():
            visits = pool.slots.visits[pool.slots.visits[:, 0] == slot, 1:].tolist()
            size = distance(pool.slot_ratios[slot], np.ones(len(pool.slot_ratios[slot])))
            if visits and slot == current:
                # It lasts until now, or has come back since the last look, which was of something else.
                has_lasted = visits[-1][1] >= last_look
                first = visits.pop()[0] if has_lasted else min(last_look + 1, pool.n_rounds)
                visits.append((first, pool.n_rounds))
            if visits and size >= _SMALLEST_REGIME:
                rounds = tuple((first, last) for first, last in visits)
                found.append(RememberedRegime(pool.slots.coefs[slot], rounds, size, slot == current))
        return sorted(found, key=lambda regime: regime.visits[0])

    def earlier_visit(self, this_round: int) -> tuple[int, int] | None:
        """Return when, before a change in this round, the regime in force now was in force the last time."""
        model = self._learned.model
        if model is not None:
            assert self._compiled is not None
            return model.memory.regimes.earlier_visit(self._compiled.shares_in_use(model), this_round)
        pool = self.pool_
        return None if pool is None else pool.slots.earlier_visit(pool.proportions, this_round)

    def _learn(self, X: Any, batch: FloatArray, step_size: float) -> FloatArray:
        if self._compiled is not None:
            learned = self._learned
            model = learned.model
            if model is None:
                assert learned.in_use is not None
                model = self._compiled.model_of(learned.ensemble, learned.in_use.state)
            after, of_batch = self._compiled.after(model, batch, step_size)
            self._learned, self._seen_batch = _LearnedRatio(after), (model, *of_batch)
            return np.empty(0)
        if self.pooling_ is None or self.in_use_ is None:
            return super()._learn(X, batch, step_size)
        pool, given = self.in_use_
        judgement = self.pooling_.judge(pool, batch, given.ratios(X) if given.members else None)
        self._seen_batch = judgement.seen
        self.state_ = self.rounds_.run(self.state_, batch, step_size)
        given = given.after_round(X) if given.members else given
        state, is_whole = self.state_, self.gradient_reference_ is self.whole_reference_
        ratios = self.rounds_.reference_ratios(state, UNCUT) if is_whole else self._uncut_ratios()
        pool = self.pooling_.settle(pool, judgement, state.coef, ratios, given.reference_ratios)
        self.in_use_ = PoolInUse(pool, given)
        return np.empty(0)

    def batch_ratio(self) -> FloatArray:
        """Return what ``predict_ratio`` would have returned for the batch of the last round, before that round.

        It can be asked for once: a large batch need not stay in memory.
        """
        assert self.pooling_ is not None
        assert self._seen_batch is not None
        seen, self._seen_batch = self._seen_batch, None
        if not isinstance(seen, SeenRows):
            assert self._compiled is not None
            seen = self._compiled.seen(*seen)
        return self.pooling_.mixed(seen)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return state | {"_seen_batch": None} if "_seen_batch" in state else state

    def _uncut_ratios(self) -> FloatArray:
        if self.gradient_reference_ is not self.whole_reference_:
            return self.whole_reference_.ratios(self.state_.coef, UNCUT)
        return self.rounds_.reference_ratios(self.state_, UNCUT)

    def _ratio(self, X: Any) -> FloatArray:
        in_use = self.in_use_
        if self.pooling_ is None or in_use is None:
            return super()._ratio(X)
        state, given = in_use
        with nullcontext() if self._is_free_of_blas else one_blas_thread():
            features, _ = self.features_.transform(X)
            return self.pooling_.ratios(state, features, given.ratios(X) if given.members else None)

    def state_to_plain(self) -> dict[str, Any]:
        """Return the learned state without the reference, as nested dicts of arrays and numbers."""
        given = {} if self.in_use_ is None else {"candidates": self.in_use_.given.state_to_plain()}
        return super().state_to_plain() | {"pool": to_plain(self.pool_)} | given

    def state_from_plain(self, plain: dict[str, Any], X: Any) -> None:
        """Restore the state that ``state_to_plain`` returned, on the same validated reference."""
        super().state_from_plain(plain, X)
        stored = plain.get("pool")
        self.pooling_ = self.in_use_ = self._seen_batch = self._compiled = None
        if stored is not None:
            computed = {name: np.empty((0, 0)) for name in ("slot_ratios", "given_ratios", "reference_ratios")}
            state = from_plain(PoolState, stored | computed)
            given = resume_candidates(self.candidates, plain.get("candidates", []), X, float(self.max_ratio))
            self.pooling_ = self._make_pooling(len(state.slots.use), given)
            if not self.pooling_.fits(state):
                raise CheckpointError("The pool of the saved ratio does not fit its reference: save the model again.")
            self.in_use_ = PoolInUse(self.pooling_.restored(state, self._uncut_ratios(), given.reference_ratios), given)
