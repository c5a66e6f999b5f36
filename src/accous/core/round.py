"""One compiled round of models that share a reference: of one model in double precision, of many keys in single.

Four loops make a round: they read the batch (gradients of all learners, ratios of the rows), judge the candidates of
the pool by it, make the learners' steps, and mix the candidates into the ratio of the reference. All work on arrays
whose first axis is the model. What a round is in plain numpy stands in :mod:`accous.core.ensemble` and
:mod:`accous.core.pool`.
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from accous.arrays import FloatArray, IntArray
from accous.core.compiled import AnyFloats, SingleArray, Workspaces, empty_aligned
from accous.core.ensemble import (
    MANY_ROWS,
    MOST_LEARNERS,
    CompiledRounds,
    EnsembleSettings,
    EnsembleState,
    LearnerKernel,
    NarrowReference,
    learner_arrays,
    state_of_arrays,
)
from accous.core.kernels_learners import run_learners, run_learners_of_keys
from accous.core.kernels_pool import filter_batches, filter_batches_of_keys, pool_in_use, pool_round
from accous.core.kernels_rows import BLOCK, read_batches, read_batches_of_keys, to_blocks
from accous.core.pool import (
    DECAYS,
    FILTER_SHARE,
    FLOOR,
    LARGEST_MOVE,
    LEAST_ROWS,
    LONGEST_LOOK,
    N_CAUTIOUS,
    N_SHAPES,
    PRIOR_COUNT,
    SWITCHING,
    UNCUT,
    Filters,
    LookSums,
    PoolState,
    RatioPool,
    SeenRows,
    Slots,
    cautious_prior,
    hold_for,
    prior_of,
    shape_cuts,
)

N_FILTERS = len(SWITCHING) + len(DECAYS)
_RATES = (SWITCHING, DECAYS, FLOOR, FILTER_SHARE, PRIOR_COUNT)
_NO_BLOCKS, _NO_GIVEN = np.empty((0, 1, BLOCK)), np.empty((0, 0))
_CAUTIOUS_PRIOR = cautious_prior(0)[:N_CAUTIOUS]
# The parts of a row that are the arrays of `Filters`, in their order.
_OF_FILTERS = "filter_weights", "posteriors", "counts", "proportions"
_OF_CAUTIOUS = "cautious_weights", "cautious_posteriors", "cautious_counts", "cautious_proportions"
_FIRST = np.zeros(1, dtype=np.int64)


def count_learners(this_round: int, min_interval: int) -> int:
    """Return how many intervals are active in a round.

    Examples
    --------
    >>> from accous.core.round import count_learners
    >>> [count_learners(this_round, min_interval=4) for this_round in (3, 4, 20)]
    [0, 1, 3]
    """
    return max(0, this_round.bit_length() - min_interval.bit_length() + 1)


class Layout:
    """Where each part of a model lies in its row.

    Parameters
    ----------
    n_coefs : int
        d, features of the ratio, with the intercept.
    n_slots : int
    others : dict of tuple of int
        Shapes of more parts, which a round does not use.
    """

    def __init__(self, n_coefs: int, n_slots: int, others: dict[str, tuple[int, ...]]) -> None:
        n_all, n_switching, n_decays = N_SHAPES + n_slots, len(SWITCHING), len(DECAYS)
        shapes: dict[str, tuple[int, ...]] = {
            "filter_weights": (N_FILTERS,),
            "posteriors": (n_switching, n_all),
            "counts": (n_decays, n_all),
            "cautious_weights": (N_FILTERS,),
            "cautious_posteriors": (n_switching, N_CAUTIOUS),
            "cautious_counts": (n_decays, N_CAUTIOUS),
            "proportions": (n_all,),
            "cautious_proportions": (N_CAUTIOUS,),
            "means": (N_SHAPES,),
            "look_coef": (n_coefs,),
            "look_proportions": (n_all,),
        }
        self.parts: dict[str, tuple[int, tuple[int, ...]]] = {}
        self.length = 0
        for name, shape in (shapes | others).items():
            self.parts[name] = self.length, shape
            self.length += math.prod(shape)

    def of(self, name: str, rows: Any) -> Any:
        """Return one part of all models, (n_models, ...); writing into it changes the rows."""
        start, shape = self.parts[name]
        return rows[:, start : start + math.prod(shape)].reshape(len(rows), *shape)

    @cached_property
    def places(self) -> IntArray:
        """Where the parts of all filters begin, and those of the cautious ones, as the compiled loops read them."""
        return np.array([[self.parts[name][0] for name in (*each, "means")] for each in (_OF_FILTERS, _OF_CAUTIOUS)])


class RoundArrays(NamedTuple):
    """What a round reads and writes; the first axis of each array is the model.

    Attributes
    ----------
    n_rounds, largest_margins, log_likelihoods, n_learners : arrays of shape (n_models,)
        The third is summed since the last look of the pool.
    coefs : array of shape (n_models, most_learners, d)
    matrices, roots, triangles : arrays or None
        A and a root of its inverse, (n_models, most_learners, d, d), or the lower triangle of A alone.
    log_potentials, squares : arrays of shape (n_models, most_learners)
        The meta-learner's.
    coef : array of shape (n_models, d)
        The ensemble's theta.
    parts : array of shape (n_models, n_parts)
        See `Layout`.
    slots : array of shape (n_models, n_slots, slot_width)
        Remembered ratios: theta, shares of the shapes, looks merged, and use.
    priors : array of shape (n_models, n_candidates)
    factors : array of shape (n_models, n_slots, n_shapes)
        What each slot multiplies the shapes by.
    """

    n_rounds: FloatArray
    largest_margins: FloatArray
    log_likelihoods: FloatArray
    n_learners: IntArray
    coefs: AnyFloats
    matrices: FloatArray | None
    roots: FloatArray | None
    triangles: SingleArray | None
    log_potentials: FloatArray
    squares: FloatArray
    coef: FloatArray
    parts: AnyFloats
    slots: AnyFloats
    priors: FloatArray
    factors: FloatArray

    @property
    def of_learners(self) -> tuple[Any, ...]:
        """The arrays of the learners, as `accous.core.ensemble.LearnerKernel` takes them."""
        return (self.n_rounds, self.n_learners, self.largest_margins, *self[4:11])


class CompiledRound:
    """Runs the rounds of models that share a reference.

    Parameters
    ----------
    settings : EnsembleSettings
    gradient_reference : NarrowReference
        The reference rows that gradients are summed over.
    reference : NarrowReference
        All reference rows.
    max_ratio : float
    layout : Layout
    n_slots : int
    is_single : bool
        Whether the models are in single precision.
    """

    def __init__(
        self,
        settings: EnsembleSettings,
        gradient_reference: NarrowReference,
        reference: NarrowReference,
        max_ratio: float,
        layout: Layout,
        n_slots: int,
        *,
        is_single: bool,
    ) -> None:
        self.cuts, self.settings = shape_cuts(max_ratio), settings
        self._gradient_reference, self._reference = gradient_reference, reference
        self._places, self._n_slots, self._is_single = layout.places, n_slots, is_single
        self._n_coefs = reference.features.shape[1]
        self._n_reference = len(reference.features)
        self._has_many_rows = len(gradient_reference.features) >= MANY_ROWS
        self._learners = LearnerKernel(settings)
        self.log_counts = self._learners.log_counts
        # Workspace: the loops write there first and keep Python's lock, so that threads may share it.
        n_blocks, n_all = gradient_reference.blocks.shape[0], N_SHAPES + n_slots
        self._gradient_room = np.empty((2, MOST_LEARNERS + 1, self._n_coefs)), empty_aligned(max(2, n_blocks), BLOCK)
        self._filter_room = np.empty((MANY_ROWS, n_all)), np.empty(n_all), np.empty(N_FILTERS)

    def run(
        self,
        models: RoundArrays | OneModelArrays,
        active: IntArray,
        batch: FloatArray,
        starts: IntArray,
        steps: FloatArray,
        memory: RoundArrays | PoolMemory,
        room: tuple[FloatArray, Any] | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """Run a round of each active model, in place, up to the new thetas; return ratios of the rows before it.

        Parameters
        ----------
        models : RoundArrays or OneModelArrays
        active : array of shape (n_active,)
        batch : array of shape (n_rows, d)
            Features of all rows, one model after the other.
        starts : array of shape (n_active + 1,)
            Where the rows of each model begin; each has at least one.
        steps : array of shape (n_active,)
            gamma of each model.
        memory : RoundArrays or PoolMemory
            Where the slots of the models are.
        room : tuple, optional
            Workspace for gradients and learners.

        Returns
        -------
        ratios, slot_ratios : arrays of shape (n_rows,) and (n_slots, n_rows)
            At the theta of each row's model, and at those of its slots.
        """
        n_rows, reference, most = len(batch), self._gradient_reference, models.coefs.shape[1] + 1
        # With a small reference, sum the batch in the same way: if both are equal, so are their terms.
        has_few = self._is_single or (n_rows < MANY_ROWS and self._has_many_rows)
        (points, sums), scores = self._gradient_room
        likelihoods, *for_filters = self._filter_room
        if n_rows > len(likelihoods):
            likelihoods = np.empty((n_rows, likelihoods.shape[1]))
        if n_rows > scores.size:
            scores = np.empty((-(-n_rows // BLOCK), BLOCK))
        gradients, of_learners = room or (np.empty((len(active), most, self._n_coefs)), None)
        ratios, slot_ratios = np.empty(n_rows), np.empty((self._n_slots, n_rows))
        (read_batches_of_keys if self._is_single else read_batches)(
            active,
            reference.blocks,
            _NO_BLOCKS if has_few else to_blocks(-batch),
            batch,
            starts,
            models.coefs,
            models.n_learners,
            models.coef,
            memory.slots,
            -0.5 / len(reference.features),
            UNCUT,
            points,
            scores,
            sums,
            gradients,
            ratios,
            slot_ratios,
        )
        (filter_batches_of_keys if self._is_single else filter_batches)(
            active,
            starts,
            ratios,
            slot_ratios,
            _NO_GIVEN,
            self.cuts,
            memory.factors,
            memory.priors,
            _CAUTIOUS_PRIOR,
            models.parts,
            self._places,
            *_RATES,
            likelihoods,
            *for_filters,
            models.log_likelihoods,
        )
        run_learners_of = run_learners_of_keys if self._is_single else run_learners
        self._learners.run(run_learners_of, active, gradients, models.of_learners, steps, of_learners)
        return ratios, slot_ratios


# --- One model, in double precision: every round makes a new state, and the one before stays as it was


class PoolMemory(NamedTuple):
    """What only a look of the pool changes, at most every 16 rounds.

    Attributes
    ----------
    regimes : Slots
    excess, hold : float
        As in `accous.core.pool.PoolState`.
    before : array of shape (n_reference,)
        The ratio of the look before.
    slots, priors, factors : arrays
        The regimes and their prior as the loops read them; see `RoundArrays`.
    slot_ratios : array of shape (n_slots, n_reference)
    """

    regimes: Slots
    excess: float
    hold: float
    before: FloatArray
    slots: FloatArray
    priors: FloatArray
    factors: FloatArray
    slot_ratios: FloatArray


class OneModel(NamedTuple):
    """A model after a round.

    Attributes
    ----------
    n_rounds : int
    most : int
        For how many learners there is room.
    numbers : array
        All that a round writes, one part after the other; see `OneModelArrays`.
    memory : PoolMemory
    look_rounds, look_rows : int
        Of the look in progress, as in `accous.core.pool.LookSums`.
    """

    n_rounds: int
    most: int
    numbers: FloatArray
    memory: PoolMemory
    look_rounds: int
    look_rows: int


class OneModelArrays:
    """The numbers of a model as the arrays that the loops write into.

    Parameters
    ----------
    numbers : array
    sizes : tuple of int
        Room for learners, d, length of a `Layout`, and reference rows.
    """

    def __init__(self, numbers: FloatArray, sizes: tuple[int, int, int, int]) -> None:
        most, d, n_parts, n_reference = sizes
        self.numbers, self._used = numbers, 0
        self.n_rounds, self.largest_margins, self.log_likelihoods = self._take(1), self._take(1), self._take(1)
        self.n_learners = self._take(1).view(np.int64)
        self.coefs = self._take(1, most, d)
        matrices, roots = self._take(1, most, d, d), self._take(1, most, d, d)
        potentials = self._take(1, most), self._take(1, most)
        self.coef, self.parts = self._take(1, d), self._take(1, n_parts)
        self.pooled = self._take(1, n_reference)
        counts = self.n_rounds, self.n_learners, self.largest_margins
        self.of_learners = (*counts, self.coefs, matrices, roots, None, *potentials, self.coef)

    @staticmethod
    def count(sizes: tuple[int, int, int, int]) -> int:
        """Return how many numbers there are."""
        most, d, n_parts, n_reference = sizes
        return 4 + most * (d + 2 * d * d + 2) + d + n_parts + n_reference

    def _take(self, *shape: int) -> FloatArray:
        start, self._used = self._used, self._used + math.prod(shape)
        return self.numbers[start : self._used].reshape(shape)

    def take_over(self, others: OneModelArrays) -> None:
        """Copy the numbers of a model that has no more room for learners than this one."""
        same = "n_rounds largest_margins log_likelihoods n_learners coef parts pooled"
        for name in same.split():
            getattr(self, name)[...] = getattr(others, name)
        for written, read in zip(self.of_learners[3:9], others.of_learners[3:9], strict=True):
            if written is not None and read is not None:
                written[:, : read.shape[1]] = read


class _Room(OneModelArrays):
    """Arrays that the rounds write into, and the model whose numbers they hold, which then need not be copied."""

    def __init__(self, sizes: tuple[int, int, int, int], learners: LearnerKernel, n_blocks: int) -> None:
        super().__init__(np.zeros(self.count(sizes)), sizes)
        self.sizes = sizes
        self.model: OneModel | None = None
        self.workspace = np.empty((1, sizes[0] + 1, sizes[1])), learners.make_room(self.of_learners)
        self.ratios = empty_aligned(2, n_blocks, BLOCK)


class OneModelRounds(CompiledRound):
    """Runs the rounds of one model.

    Parameters
    ----------
    rounds : CompiledRounds
        The rounds of the ensemble.
    reference : NarrowReference
        All reference rows.
    max_ratio : float
    pool : RatioPool
        Without given candidates.
    """

    def __init__(self, rounds: CompiledRounds, reference: NarrowReference, max_ratio: float, pool: RatioPool) -> None:
        assert isinstance(rounds.reference, NarrowReference)
        layout = Layout(reference.features.shape[1], pool.n_slots, {})
        super().__init__(rounds.settings, rounds.reference, reference, max_ratio, layout, pool.n_slots, is_single=False)
        self._rounds, self._ratio_pool, self._layout = rounds, pool, layout
        names = "look_coef", "look_proportions", "proportions", "cautious_proportions", "means"
        self._look_coef, self._look_shares, self._shares, self._cautious, self._means = (
            slice(layout.parts[name][0], layout.parts[name][0] + layout.parts[name][1][0]) for name in names
        )
        of_shares = self._shares.start, self._shares.stop
        self._look_places = np.array((*of_shares, self._look_coef.start, self._look_shares.start))
        self._pool_room = np.empty(N_SHAPES), np.empty(N_SHAPES), empty_aligned(self._n_reference)
        self._rooms = Workspaces()

    def after(
        self, model: OneModel, batch: FloatArray, step_size: float
    ) -> tuple[OneModel, tuple[FloatArray, FloatArray]]:
        """Return the model after a round, and ratios of the batch before it, for ``seen``; ``model`` is not changed.

        Parameters
        ----------
        model : OneModel
        batch : array of shape (n_batch, d)
            Features of the batch, at least one row.
        step_size : float
        """
        n_rows, room, memory = len(batch), self._room_of(model), model.memory
        before = room.log_likelihoods[0]
        of_batch = self.run(room, _FIRST, batch, *_starts_and_steps(n_rows, step_size), memory, room.workspace)
        n_rounds, look_rounds, look_rows = model.n_rounds + 1, model.look_rounds + 1, model.look_rows + n_rows
        is_last, may_end = look_rounds == LONGEST_LOOK, model.look_rows >= LEAST_ROWS
        coef, largest_move = room.coef[0], LARGEST_MOVE if may_end else math.inf
        of_model, of_look = self._of_model(room, memory, memory.hold), (self._look_places, model.look_rounds)
        if not pool_round(
            self._reference.blocks,
            coef,
            UNCUT,
            room.ratios,
            *of_model,
            *of_look,
            largest_move,
            is_last,
        ):
            return self._left(room, model, n_rows, float(before)), of_batch
        if is_last:
            memory, look_rounds, look_rows = self._look_back(room, memory, n_rounds, look_rounds, look_rows), 0, 0
            self._mix(room, memory, memory.hold)
        return self._close(
            room, OneModel(n_rounds, room.sizes[0], room.numbers.copy(), memory, look_rounds, look_rows)
        ), of_batch

    def _close(self, room: _Room, model: OneModel) -> OneModel:
        """Return the model that a room holds, once others may use the room."""
        room.model = model
        self._rooms.append(room)
        return model

    def _left(self, room: _Room, model: OneModel, n_rows: int, before: float) -> OneModel:
        """Return the model after a round whose ratio has moved: the look ends before it, and it begins the next one."""
        row, n_rounds = room.parts[0], model.n_rounds + 1
        shares, surprise = row[self._shares].copy(), float(room.log_likelihoods[0]) - before
        room.log_likelihoods[0] = before
        memory = self._look_back(room, model.memory, model.n_rounds, model.look_rounds, model.look_rows)
        row[self._look_coef], row[self._look_shares] = room.coef[0], shares
        room.log_likelihoods[0] = surprise
        self._mix(room, memory, memory.hold)
        return self._close(room, OneModel(n_rounds, room.sizes[0], room.numbers.copy(), memory, 1, n_rows))

    def _look_back(self, room: _Room, memory: PoolMemory, last_round: int, n_rounds: int, n_rows: int) -> PoolMemory:
        """End a look of so many rounds and rows, in place; return the memory after it."""
        row = room.parts[0]
        look = LookSums(
            n_rounds=n_rounds,
            n_rows=n_rows,
            coef=row[self._look_coef] / n_rounds,
            proportions=row[self._look_shares] / n_rounds,
            log_likelihood=float(room.log_likelihoods[0]) / n_rounds,
            before=memory.before,
        )
        row[self._look_coef] = row[self._look_shares] = room.log_likelihoods[0] = 0.0
        found = self._ratio_pool.remember(look, memory.regimes, memory.slot_ratios, memory.excess, last_round)
        prior, hold = memory.priors[0], hold_for(found.excess)
        if found.put is not None:
            prior = prior_of(found.slots.is_used)
            if not found.is_same:
                filters = self._filters_of(room.parts).without(N_SHAPES + found.put, prior)
                self._write_filters(room.parts, filters)
        return _memory(found.slots, found.excess, hold, found.ratios, prior, found.slot_ratios)

    def _room_of(self, model: OneModel) -> _Room:
        """Return arrays that hold the model, with room for the learners of the next round."""
        most = max(model.most, count_learners(model.n_rounds + 2, self.settings.min_interval))
        try:
            room: _Room = self._rooms.pop()
        except IndexError:
            room = self._make_room(most)
        if room.sizes[0] != most:
            room = self._make_room(most)
        if room.model is not model:
            if model.most == most:
                room.numbers[:] = model.numbers
            else:
                room.take_over(self.arrays_of(model))
        room.model = None
        return room

    def _make_room(self, most: int) -> _Room:
        return _Room(self._sizes(most), self._learners, len(self._reference.blocks))

    def _mix(self, room: _Room, memory: PoolMemory, hold: float) -> None:
        """Write the pooled ratio of the reference, which is a function of the state, held back so far."""
        pool_in_use(room.ratios[0].reshape(-1), *self._of_model(room, memory, hold))

    def _of_model(self, arrays: OneModelArrays, memory: PoolMemory, hold: float) -> tuple[Any, ...]:
        """Return what the loops need to mix the candidates of a model."""
        of_pool = arrays.parts[0], self._places, N_CAUTIOUS, hold, memory.slot_ratios
        return self.cuts, *of_pool, *self._pool_room, arrays.pooled[0]

    def _sizes(self, most: int) -> tuple[int, int, int, int]:
        return most, self._n_coefs, self._layout.length, self._n_reference

    def arrays_of(self, model: OneModel) -> OneModelArrays:
        """Return the numbers of a model as arrays."""
        return OneModelArrays(model.numbers, self._sizes(model.most))

    def pooled(self, model: OneModel) -> FloatArray:
        """Return the ratio of the reference in use."""
        return model.numbers[-self._n_reference :]

    def seen(self, model: OneModel, ratios: FloatArray, slot_ratios: FloatArray) -> SeenRows:
        """Return a batch as its candidates saw it, given the model before the round and what ``after`` returned."""
        means, shares = self._parts_of(model)[self._means], self.shares_in_use(model)
        return SeenRows(ratios, slot_ratios, slot_ratios[:0], means, model.memory.factors[0], shares)

    def shares_in_use(self, model: OneModel) -> FloatArray:
        """Return the shares of the pool that the candidates have."""
        row, hold = self._parts_of(model), model.memory.hold
        shares = row[self._shares]
        if hold:
            shares = (1.0 - hold) * shares
            shares[:N_CAUTIOUS] += hold * row[self._cautious]
        return shares

    def share_in_use(self, model: OneModel) -> float:
        """Return the share of the pool on other candidates than the ratio 1."""
        row, hold = self._parts_of(model), model.memory.hold
        share = row.item(self._shares.start)
        return 1.0 - ((1.0 - hold) * share + hold * row.item(self._cautious.start) if hold else share)

    def coef_of(self, model: OneModel) -> FloatArray:
        """Return the ensemble's theta."""
        end = len(model.numbers) - self._n_reference - self._layout.length
        return model.numbers[end - self._n_coefs : end]

    def _parts_of(self, model: OneModel) -> FloatArray:
        """Return the row of a `Layout`, without the views of all other arrays."""
        end = len(model.numbers) - self._n_reference
        return model.numbers[end - self._layout.length : end]

    def ensemble_of(self, model: OneModel) -> EnsembleState:
        """Return the ensemble of a model."""
        return state_of_arrays(self.arrays_of(model).of_learners, 0, self.settings)

    def _filters_of(self, parts: FloatArray) -> Filters:
        return Filters(*(self._layout.of(name, parts)[0] for name in _OF_FILTERS))

    def _write_filters(self, parts: FloatArray, filters: Filters) -> None:
        for name, values in zip(_OF_FILTERS, filters.arrays, strict=True):
            self._layout.of(name, parts)[0] = values

    def _sums_of(self, model: OneModel) -> LookSums:
        """Return the sums of the look in progress."""
        arrays = self.arrays_of(model)
        return LookSums(
            n_rounds=model.look_rounds,
            n_rows=model.look_rows,
            coef=arrays.parts[0, self._look_coef],
            proportions=arrays.parts[0, self._look_shares],
            log_likelihood=float(arrays.log_likelihoods[0]),
            before=model.memory.before,
        )

    def pool_of(self, model: OneModel) -> PoolState:
        """Return the pool of a model."""
        arrays, memory = self.arrays_of(model), model.memory
        filters = self._filters_of(arrays.parts)
        weights, *others = (self._layout.of(name, arrays.parts)[0] for name in _OF_CAUTIOUS)
        cautious = Filters(weights, *(np.zeros(each.shape) for each in filters.arrays[1:]))
        for padded, part in zip(cautious.arrays[1:], others, strict=True):
            padded[..., :N_CAUTIOUS] = part
        return PoolState(
            n_rounds=model.n_rounds,
            coef=arrays.coef[0],
            means=arrays.parts[0, self._means],
            prior=memory.priors[0],
            filters=filters,
            cautious=cautious,
            excess=memory.excess,
            hold=memory.hold,
            slots=memory.regimes,
            look=self._sums_of(model),
            slot_ratios=memory.slot_ratios,
            given_ratios=np.empty((0, self._n_reference)),
            reference_ratios=arrays.pooled[0],
        )

    def model_of(self, ensemble: EnsembleState, pool: PoolState) -> OneModel:
        """Return the model of an ensemble and its pool."""
        if ensemble.n_rounds == 0:
            ensemble = self._rounds.open_first(ensemble)
        learners = learner_arrays(ensemble, self.settings.min_interval)
        sizes = self._sizes(learners[3].shape[1])
        arrays = OneModelArrays(np.zeros(OneModelArrays.count(sizes)), sizes)
        for written, read in zip(arrays.of_learners, learners, strict=True):
            if written is not None:
                written[...] = read
        for name, values in zip(_OF_CAUTIOUS, pool.cautious.arrays, strict=True):
            part = self._layout.of(name, arrays.parts)[0]
            part[:] = values[..., : part.shape[-1]]
        self._write_filters(arrays.parts, pool.filters)
        row, look = arrays.parts[0], pool.look
        row[self._means], arrays.pooled[0] = pool.means, pool.reference_ratios
        row[self._look_coef], row[self._look_shares] = look.coef, look.proportions
        arrays.log_likelihoods[0] = look.log_likelihood
        memory = _memory(pool.slots, pool.excess, pool.hold, look.before, pool.prior, pool.slot_ratios)
        return OneModel(ensemble.n_rounds, sizes[0], arrays.numbers, memory, look.n_rounds, look.n_rows)


def _memory(
    regimes: Slots, excess: float, hold: float, before: FloatArray, prior: FloatArray, slot_ratios: FloatArray
) -> PoolMemory:
    columns = regimes.coefs, regimes.shares, regimes.n_merged[:, None], regimes.use[:, None]
    slots = np.concatenate(columns, axis=1, dtype=np.float64)[None]
    return PoolMemory(regimes, excess, hold, before, slots, prior[None], regimes.factors[None], slot_ratios)


@lru_cache(maxsize=64)
def _starts_and_steps(n_rows: int, step_size: float) -> tuple[IntArray, FloatArray]:
    """Return where the rows of the only model begin and end, and its step size, as arrays."""
    return np.array([0, n_rows]), np.array([step_size])
