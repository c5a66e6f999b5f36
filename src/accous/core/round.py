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
from accous.core.compiled import AnyFloats, SingleArray
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
from accous.core.kernels_pool import (
    add_to_look,
    filter_batches,
    filter_batches_of_keys,
    pool_references,
    pool_references_of_keys,
)
from accous.core.kernels_rows import BLOCK, evaluate_ratios_of_keys, read_batches, read_batches_of_keys, to_blocks
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
    mixed_shapes,
    shape_cuts,
)

N_FILTERS = len(SWITCHING) + len(DECAYS)
_RATES = (SWITCHING, DECAYS, FLOOR, FILTER_SHARE, PRIOR_COUNT)
_NO_BLOCKS, _NO_GIVEN = np.empty((0, 1, BLOCK)), np.empty((0, 0))
_CAUTIOUS_PRIOR = cautious_prior(0)[:N_CAUTIOUS]
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
        names = "filter_weights", "posteriors", "counts", "proportions", "means"
        cautious = "cautious_weights", "cautious_posteriors", "cautious_counts", "cautious_proportions", "means"
        return np.array([[self.parts[name][0] for name in each] for each in (names, cautious)])


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
    holds : array of shape (n_models,)
        How far each pool is held back.
    factors, slot_ratios : arrays of shape (n_models, n_slots, ...)
        What each slot multiplies the shapes by, and its ratio of the reference.
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
    holds: FloatArray
    factors: FloatArray
    slot_ratios: FloatArray

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
        self._gradient_room = np.empty((2, MOST_LEARNERS + 1, self._n_coefs)), np.empty((max(2, n_blocks), BLOCK))
        self._pool_room = np.empty(N_SHAPES), np.empty(N_SHAPES), np.empty(self._n_reference)
        self._filter_room = np.empty((MANY_ROWS, n_all)), np.empty(n_all), np.empty(N_FILTERS)

    def run(
        self, models: RoundArrays, active: IntArray, batch: FloatArray, starts: IntArray, steps: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Run a round of each active model, in place, up to the new thetas; return ratios of the rows before it.

        Parameters
        ----------
        models : RoundArrays
        active : array of shape (n_active,)
        batch : array of shape (n_rows, d)
            Features of all rows, one model after the other.
        starts : array of shape (n_active + 1,)
            Where the rows of each model begin; each has at least one.
        steps : array of shape (n_active,)
            gamma of each model.

        Returns
        -------
        ratios, slot_ratios : arrays of shape (n_rows,) and (n_slots, n_rows)
            At the theta of each row's model, and at those of its slots.
        """
        n_rows, reference, most = len(batch), self._gradient_reference, models.coefs.shape[1] + 1
        # With a small reference, sum the batch in the same way: if both are equal, so are their terms.
        has_few = self._is_single or (n_rows < MANY_ROWS and self._has_many_rows)
        (points, sums), scores = self._gradient_room
        likelihoods, *room = self._filter_room
        if n_rows > len(likelihoods):
            likelihoods = np.empty((n_rows, likelihoods.shape[1]))
        if n_rows > scores.size:
            scores = np.empty((-(-n_rows // BLOCK), BLOCK))
        gradients = np.empty((len(active), most, self._n_coefs))
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
            models.slots,
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
            models.factors,
            models.priors,
            _CAUTIOUS_PRIOR,
            models.parts,
            self._places,
            *_RATES,
            likelihoods,
            *room,
            models.log_likelihoods,
        )
        run_learners_of = run_learners_of_keys if self._is_single else run_learners
        self._learners.run(run_learners_of, active, gradients, models.of_learners, steps)
        return ratios, slot_ratios

    def ratios(self, models: RoundArrays, active: IntArray) -> FloatArray:
        """Return the ratios of the reference at the theta of each active model, with padding."""
        return self._ratios_at(active, models.coef)

    def _ratios_at(self, indices: IntArray, coefs: FloatArray) -> FloatArray:
        blocks = self._reference.blocks
        ratios = np.empty((len(indices), blocks.shape[0], BLOCK))
        evaluate_ratios_of_keys(indices, blocks, coefs, UNCUT, ratios)
        return ratios.reshape(len(indices), blocks.shape[0] * BLOCK)

    def ratios_at(self, coef: FloatArray) -> FloatArray:
        """Return the ratios of the reference at a theta."""
        return self._ratios_at(_FIRST, coef[None])[0, : self._n_reference]

    def pool(
        self, models: RoundArrays, active: IntArray, ratios: FloatArray, holds: FloatArray | None = None
    ) -> FloatArray:
        """Return the pooled ratio of the reference, (n_active, n_reference), given what ``ratios`` returns.

        It is that in use, unless ``holds`` says how far the pools are to be held back.
        """
        holds = models.holds if holds is None else holds
        pooled = np.empty((len(active), self._n_reference))
        pool = pool_references_of_keys if self._is_single else pool_references
        pool(
            *(active, ratios, self.cuts, models.parts, self._places, N_CAUTIOUS, holds, models.slot_ratios),
            *(*self._pool_room, pooled),
        )
        return pooled

    def ratios_of_slot(self, slot: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return a slot's ratios of the reference, and what it multiplies the shapes by."""
        coef, shares = slot[: self._n_coefs], np.ascontiguousarray(slot[self._n_coefs :])
        mixed, means = mixed_shapes(self.ratios_at(coef), self.cuts, shares)
        return mixed, shares / means


# --- One model, in double precision: every round makes a new state, and the one before stays as it was


class OneModel(NamedTuple):
    """A model after a round.

    Attributes
    ----------
    n_rounds : int
    arrays : RoundArrays
        Of one model. Its pool is not held back there: ``hold`` is.
    slots : Slots
        The regimes that the pool remembers.
    excess, hold : float
        As in `accous.core.pool.PoolState`.
    look_rounds, look_rows : int
        Of the look in progress, as in `accous.core.pool.LookSums`, like the next two.
    look_ratios, look_before : arrays of shape (n_reference,)
    pooled : array of shape (n_reference,)
        The ratio of the reference in use.
    """

    n_rounds: int
    arrays: RoundArrays
    slots: Slots
    excess: float
    hold: float
    look_rounds: int
    look_rows: int
    look_ratios: FloatArray
    look_before: FloatArray
    pooled: FloatArray


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
        n_rows, arrays = len(batch), self._copied(model)
        of_batch = self.run(arrays, _FIRST, batch, *_starts_and_steps(n_rows, step_size))
        of_reference = self.ratios(arrays, _FIRST)
        pooled, sums = self.pool(arrays, _FIRST, of_reference)[0], np.empty(self._n_reference)
        moved = add_to_look(pooled, model.look_ratios, max(model.look_rounds, 1), sums)
        is_left = model.look_rows >= LEAST_ROWS and moved > LARGEST_MOVE
        n_rounds, look_rounds, look_rows = model.n_rounds + 1, model.look_rounds + 1, model.look_rows + n_rows
        if is_left:
            # The look ends before this round, which begins the next one.
            look_rounds, look_rows, sums = model.look_rounds, model.look_rows, model.look_ratios
            shares, surprise = (
                arrays.parts[0, self._shares].copy(),
                arrays.log_likelihoods - model.arrays.log_likelihoods,
            )
            arrays.log_likelihoods[:] = model.arrays.log_likelihoods
        else:
            self._note(arrays, arrays.parts[0, self._shares])
        after = OneModel(
            *(n_rounds, arrays, model.slots, model.excess, model.hold, look_rounds, look_rows),
            *(sums, model.look_before, pooled),
        )
        is_over = is_left or look_rounds == LONGEST_LOOK
        if is_over:
            after = self._with_pool(after, self._ratio_pool.look_back(self.pool_of(after), n_rounds - is_left))
        if is_left:
            self._note(after.arrays, shares)
            after.arrays.log_likelihoods[:] = surprise
            after = after._replace(look_rounds=1, look_rows=n_rows, look_ratios=pooled)
        if is_over or after.hold:
            # The ratio in use is a function of the state, so that a model that was saved goes on with the same bits.
            in_use = self.pool(after.arrays, _FIRST, of_reference, np.array([after.hold]))
            after = after._replace(pooled=in_use[0])
        return after, of_batch

    def seen(self, model: OneModel, ratios: FloatArray, slot_ratios: FloatArray) -> SeenRows:
        """Return a batch as its candidates saw it, given the model before the round and what ``after`` returned."""
        row, hold = model.arrays.parts[0], model.hold
        shares = row[self._shares]
        if hold:
            shares = (1.0 - hold) * shares
            shares[:N_CAUTIOUS] += hold * row[self._cautious]
        return SeenRows(ratios, slot_ratios, slot_ratios[:0], row[self._means], model.arrays.factors[0], shares)

    def share_in_use(self, model: OneModel) -> float:
        """Return the share of the pool on other candidates than the ratio 1."""
        row, hold = model.arrays.parts[0], model.hold
        share = float(row[self._shares.start])
        return 1.0 - (share if not hold else (1.0 - hold) * share + hold * float(row[self._cautious.start]))

    def _note(self, arrays: RoundArrays, shares: FloatArray) -> None:
        """Add the theta and the proportions after a round to the sums of the look."""
        row = arrays.parts[0]
        look_coef, look_shares = row[self._look_coef], row[self._look_shares]
        look_coef += arrays.coef[0]
        look_shares += shares

    def _copied(self, model: OneModel) -> RoundArrays:
        """Return arrays for a round to write into, with room for the learners of the next round."""
        old = model.arrays
        most = count_learners(model.n_rounds + 2, self.settings.min_interval)
        if most > old.coefs.shape[1]:
            wider = (None if each is None else _widened(each, most) for each in old[4:10])
            old = RoundArrays._make((*old[:4], *wider, *old[10:]))
        written = [each.copy() for each in old[:12] if each is not None]  # all but triangles
        return RoundArrays._make((*written[:7], None, *written[7:], *old[12:]))

    def ensemble_of(self, model: OneModel) -> EnsembleState:
        """Return the ensemble of a model."""
        return state_of_arrays(model.arrays.of_learners, 0, self.settings)

    def pool_of(self, model: OneModel) -> PoolState:
        """Return the pool of a model."""
        arrays = model.arrays
        part = {name: self._layout.of(name, arrays.parts)[0] for name in self._layout.parts}
        names = "weights", "posteriors", "counts", "proportions"
        filters = Filters(part["filter_weights"], *(part[name] for name in names[1:]))
        cautious = Filters(part["cautious_weights"], *(np.zeros(each.shape) for each in filters.arrays[1:]))
        for name, padded in zip(names[1:], cautious.arrays[1:], strict=True):
            padded[..., :N_CAUTIOUS] = part[f"cautious_{name}"]
        look = LookSums(
            n_rounds=model.look_rounds,
            n_rows=model.look_rows,
            coef=part["look_coef"],
            ratios=model.look_ratios,
            proportions=part["look_proportions"],
            log_likelihood=float(arrays.log_likelihoods[0]),
            before=model.look_before,
        )
        return PoolState(
            n_rounds=model.n_rounds,
            coef=arrays.coef[0],
            means=part["means"],
            prior=arrays.priors[0],
            filters=filters,
            cautious=cautious,
            excess=model.excess,
            hold=model.hold,
            slots=model.slots,
            look=look,
            slot_ratios=arrays.slot_ratios[0],
            given_ratios=np.empty((0, self._n_reference)),
            reference_ratios=model.pooled,
        )

    def model_of(self, ensemble: EnsembleState, pool: PoolState) -> OneModel:
        """Return the model of an ensemble and its pool."""
        if ensemble.n_rounds == 0:
            ensemble = self._rounds.open_first(ensemble)
        learners = learner_arrays(ensemble, self.settings.min_interval)
        n_rounds, n_learners, largest_margins, *of_learners = learners
        of_pool = np.zeros((1, self._layout.length)), np.empty(0), np.empty(0), np.zeros(1), np.empty(0), np.empty(0)
        arrays = RoundArrays._make((n_rounds, largest_margins, np.zeros(1), n_learners, *of_learners, *of_pool))
        names = "weights", "posteriors", "counts", "proportions"
        for name in names:
            part = self._layout.of(f"cautious_{name}", arrays.parts)[0]
            part[:] = getattr(pool.cautious, name)[..., : part.shape[-1]]
        arrays.parts[0, self._means] = pool.means
        model = OneModel(
            *(ensemble.n_rounds, arrays, pool.slots, pool.excess, pool.hold, pool.look.n_rounds, pool.look.n_rows),
            *(pool.look.ratios, pool.look.before, pool.reference_ratios),
        )
        return self._with_pool(model, pool)

    def _with_pool(self, model: OneModel, pool: PoolState) -> OneModel:
        """Return the model with what a look of the pool changes, which is written into its arrays."""
        arrays, slots, look = model.arrays, pool.slots, pool.look
        written = {
            "filter_weights": pool.filters.weights,
            "posteriors": pool.filters.posteriors,
            "counts": pool.filters.counts,
            "proportions": pool.filters.proportions,
            "look_coef": look.coef,
            "look_proportions": look.proportions,
        }
        for name, values in written.items():
            self._layout.of(name, arrays.parts)[0] = values
        arrays.log_likelihoods[0] = look.log_likelihood
        columns = slots.coefs, slots.shares, slots.n_merged[:, None], slots.use[:, None]
        arrays = arrays._replace(
            slots=np.concatenate(columns, axis=1)[None],
            priors=pool.prior[None],
            factors=slots.factors[None],
            slot_ratios=pool.slot_ratios[None],
        )
        return model._replace(
            arrays=arrays,
            slots=slots,
            excess=pool.excess,
            hold=pool.hold,
            look_rounds=look.n_rounds,
            look_rows=look.n_rows,
            look_ratios=look.ratios,
            look_before=look.before,
        )


@lru_cache(maxsize=64)
def _starts_and_steps(n_rows: int, step_size: float) -> tuple[IntArray, FloatArray]:
    """Return where the rows of the only model begin and end, and its step size, as arrays."""
    return np.array([0, n_rows]), np.array([step_size])


def _widened(of_learners: AnyFloats, most: int) -> FloatArray:
    """Return arrays of learners with room for more of them."""
    wider = np.zeros((1, most, *of_learners.shape[2:]))
    wider[:, : of_learners.shape[1]] = of_learners
    return wider
