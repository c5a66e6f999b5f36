"""The compiled loops against their plain twins: any shape, extreme scores, hard matrices, read-only arrays."""

import math
import pickle
import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.special import softmax

from accous.core.compiled import Workspaces
from accous.core.ensemble import (
    ADAPT_ML_PROD,
    MAX_NARROW_COLUMNS,
    CompiledRounds,
    CompiledStack,
    EnsembleState,
    MatrixReference,
    MetaState,
    NarrowReference,
    PaperRounds,
    make_narrow_reference,
    prepare_reference,
)
from accous.core.kernels_rows import BLOCK, evaluate_ratios, fit_logistic, sum_gradients, to_blocks
from accous.core.kernels_states import CHECKSUM_WORD, checksum
from accous.core.kernels_weights import effective_rows, make_features, total_variation, weigh_reference
from accous.core.learners import NewtonStack
from accous.core.losses import Logistic
from accous.core.regression import (
    FULL,
    ONE_ROUND,
    Point,
    _objective,
    _penalty,
    _solve_by_newton,
    _targets,
    descend_from,
    leave_one_out_scores,
    make_narrow_classes,
    make_narrow_design,
    make_problem,
    principal_axes,
    solve,
    solve_compiled,
)
from accous.model.safeguards import shrink
from tests.builders import LOSSES, Setup
from tests.needs import needs_compilation

AROUND_BLOCKS = [1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 1]

seeds = st.integers(0, 2**32 - 1)
widths = st.integers(1, 21)
row_counts = st.integers(1, 3 * BLOCK)


def narrow(features):
    return NarrowReference(features, to_blocks(features))


def assert_close(found, wanted, tolerance=1e-12):
    """Equal up to a tolerance relative to the largest entry."""
    assert np.all(np.isfinite(found))
    np.testing.assert_allclose(found, wanted, rtol=0.0, atol=tolerance * max(1.0, float(np.abs(wanted).max(initial=0))))


# --- blocks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_rows", AROUND_BLOCKS)
@pytest.mark.parametrize("d", [1, 5])
def test_blocks_hold_the_rows_and_zeros(n_rows, d):
    rows = np.random.default_rng(0).normal(size=(n_rows, d))
    blocks = to_blocks(rows)
    assert blocks.shape == (math.ceil(n_rows / BLOCK), d, BLOCK)
    assert blocks.flags.c_contiguous
    back = blocks.swapaxes(1, 2).reshape(-1, d)
    np.testing.assert_array_equal(back[:n_rows], rows)
    assert not back[n_rows:].any()


# --- the exponential ----------------------------------------------------------------------------------------------


def exponentials(scores):
    """e^-score by the kernel."""
    ratios = np.empty((math.ceil(len(scores) / BLOCK), BLOCK))
    evaluate_ratios(to_blocks(scores[:, None]), np.ones(1), np.inf, ratios)
    return ratios.reshape(-1)[: len(scores)]


def test_the_exponential_is_exact_to_the_last_digits():
    rng = np.random.default_rng(0)
    scores = np.concatenate(
        (np.linspace(-700.0, 700.0, 20_001), rng.normal(size=20_000), 10.0 ** -np.arange(0.0, 300.0))
    )
    exact = np.exp(-scores.astype(np.longdouble))
    assert np.abs(exponentials(scores) / exact - 1.0).max() < 4e-16


@pytest.mark.parametrize("score", [-709.0, -710.0, -1e5, -1e308, 708.0, 709.0, 746.0, 1e5, 1e308])
def test_the_exponential_of_extreme_scores_is_finite_and_positive(score):
    (value,) = exponentials(np.array([score]))
    assert 0.0 < value < np.inf
    assert value > 1e307 if score < 0 else value < 1e-307


# --- gradients and ratios -----------------------------------------------------------------------------------------


@given(seed=seeds, n_rows=row_counts, d=widths, n_coefs=st.integers(0, 13), n_batch=st.integers(1, 70))
@example(seed=0, n_rows=1, d=1, n_coefs=0, n_batch=1)
@example(seed=0, n_rows=BLOCK, d=13, n_coefs=12, n_batch=1)
@example(seed=0, n_rows=BLOCK + 1, d=4, n_coefs=11, n_batch=31)
@example(seed=0, n_rows=3 * BLOCK - 1, d=8, n_coefs=5, n_batch=32)
def test_gradients_equal_their_twin(seed, n_rows, d, n_coefs, n_batch):
    rng = np.random.default_rng(seed)
    features, batch = rng.normal(size=(n_rows, d)), rng.normal(size=(n_batch, d))
    coefs, coef = rng.normal(size=(n_coefs, d)), rng.normal(size=d)
    wanted = MatrixReference(features, Logistic()).gradients(coefs, coef, batch)
    assert_close(narrow(features).gradients(coefs, coef, batch), wanted)


@pytest.mark.parametrize("size", [37.0, 700.0, 1e5, 1e150])
@pytest.mark.parametrize("n_batch", [1, 40])
def test_gradients_of_extreme_scores_equal_their_twin(size, n_batch):
    rng = np.random.default_rng(1)
    features, batch = rng.choice([-1.0, 1.0], size=(BLOCK + 7, 3)), rng.choice([-1.0, 1.0], size=(n_batch, 3))
    coefs = size * rng.choice([-1.0, 0.5, 1.0], size=(4, 3))
    wanted = MatrixReference(features, Logistic()).gradients(coefs, -coefs[0], batch)
    assert_close(narrow(features).gradients(coefs, -coefs[0], batch), wanted)


@pytest.mark.parametrize("n_rows", AROUND_BLOCKS)
def test_at_zero_equal_rows_of_reference_and_batch_cancel_exactly(n_rows):
    rows = np.random.default_rng(2).normal(size=(n_rows, 5))
    gradients = narrow(rows).gradients(np.zeros((3, 5)), np.zeros(5), rows)
    np.testing.assert_array_equal(gradients, 0.0)


@given(seed=seeds, n_rows=row_counts, d=widths, max_ratio=st.floats(1.1, 1e6))
def test_ratios_equal_their_twin(seed, n_rows, d, max_ratio):
    rng = np.random.default_rng(seed)
    features, coef = rng.normal(size=(n_rows, d)), 5.0 * rng.normal(size=d)
    found = narrow(features).ratios(coef, max_ratio)
    assert found.shape == (n_rows,)
    assert found.max() <= max_ratio
    np.testing.assert_allclose(found, Logistic().ratio(features @ coef, max_ratio), rtol=1e-12)


@given(seed=seeds, n_rows=row_counts, d=widths)
@example(seed=0, n_rows=BLOCK + 1, d=13)
def test_covariances_with_the_score_equal_their_twin(seed, n_rows, d):
    rng = np.random.default_rng(seed)
    features, coef = rng.normal(1.0, size=(n_rows, d)), rng.normal(size=d)
    wanted = (features - features.mean(axis=0)).T @ (features @ coef) / n_rows
    assert_close(MatrixReference(features, Logistic()).score_covariances(coef), wanted)
    assert_close(narrow(features).score_covariances(coef), wanted)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("d", [1, MAX_NARROW_COLUMNS, MAX_NARROW_COLUMNS + 1])
def test_the_switch_takes_the_logistic_loss_on_few_columns(loss, d):
    prepared = prepare_reference(np.ones((2, d)), LOSSES[loss])
    assert isinstance(prepared, NarrowReference) == (loss == "logistic" and d <= MAX_NARROW_COLUMNS)


# --- the refit ----------------------------------------------------------------------------------------------------


def narrow_problem(rng, n_rows, d, C):
    X, weights = rng.normal(size=(n_rows, d)), rng.exponential(size=n_rows)
    labels = (X[:, 0] + rng.logistic(size=n_rows) > 0.0).astype(np.int64)
    problem = make_problem(X, labels, 2, C)
    return problem, make_narrow_design(problem.design, problem.centre, _targets(problem), _penalty(d + 1)), weights


@given(seed=seeds, n_rows=row_counts, d=widths, C=st.sampled_from([1e-2, 1.0, 100.0]), distance=st.floats(0.0, 2.0))
@example(seed=0, n_rows=1, d=1, C=1.0, distance=1.0)
@example(seed=0, n_rows=BLOCK + 1, d=12, C=1.0, distance=0.1)
def test_the_refit_reaches_the_optimum_of_its_twin(seed, n_rows, d, C, distance):
    rng = np.random.default_rng(seed)
    problem, design, weights = narrow_problem(rng, n_rows, d, C)
    start = distance * rng.normal(size=(1, d + 1))
    coefs = start.copy()
    if not design.fit(coefs, weights, C):
        np.testing.assert_array_equal(coefs, start)
        return
    scaled, twin = C * weights, _solve_by_newton(problem, weights, problem.to_design(start))
    values = [_objective(problem, scaled, each, problem.design @ each.T) for each in (problem.to_design(coefs), twin)]
    assert values[0] - values[1] <= 1e-13 * (scaled.sum() + abs(values[1]))


def test_the_refit_seldom_gives_up_and_then_leaves_the_start():
    rng = np.random.default_rng(3)
    for _ in range(100):
        _, design, weights = narrow_problem(rng, 300, 5, 1.0)
        assert design.fit(rng.normal(size=(1, 6)), weights, 1.0)
    coefs = np.full((1, 6), 1e9)
    assert not design.fit(coefs, weights, 1.0)
    np.testing.assert_array_equal(coefs, 1e9)


# --- the refit with several classes -------------------------------------------------------------------------------


def several_classes(rng, n_rows, d, n_classes, C):
    """The problem with many coefficients as with few: in principal axes, for the plain descent."""
    X, weights = rng.normal(size=(n_rows, d)) * np.geomspace(3.0, 0.1, d), rng.exponential(size=n_rows)
    labels = (X @ rng.normal(size=(d, n_classes)) + rng.gumbel(size=(n_rows, n_classes))).argmax(axis=1)
    problem = make_problem(X + 5.0, labels, n_classes, C)
    if problem.axes is not None:
        return problem, weights
    axes, ones = principal_axes(problem.design[:, :-1]), np.ones((n_rows, 1))
    design = np.concatenate((problem.design[:, :-1] @ axes, ones), axis=1)
    return replace(problem, design=design, axes=axes, mean_squares=np.square(design).mean(axis=0)), weights


def excess(problem, weights, found, wanted):
    """By how much the objective at some coefficients is above that at others, relative to the weights."""
    scaled = problem.C * weights
    values = [
        _objective(problem, scaled, each, problem.design @ each.T)
        for each in (problem.to_design(found), problem.to_design(wanted))
    ]
    return (values[0] - values[1]) / (scaled.sum() + abs(values[1]))


@given(seed=seeds, n_rows=row_counts, d=widths, n_classes=st.integers(3, 12), distance=st.floats(0.0, 1.0))
@example(seed=0, n_rows=1, d=1, n_classes=3, distance=1.0)
@example(seed=0, n_rows=5, d=13, n_classes=10, distance=0.0)
@example(seed=0, n_rows=BLOCK + 1, d=12, n_classes=10, distance=0.1)
def test_the_refit_of_many_classes_ends_where_its_twin_ends(seed, n_rows, d, n_classes, distance):
    """Few coefficients, too, without their Hessian; rows fewer than columns; classes without rows."""
    rng = np.random.default_rng(seed)
    problem, weights = several_classes(rng, n_rows, d, n_classes, 1.0)
    penalty = _penalty(problem.design.shape[1])
    narrow = make_narrow_classes(problem.design, problem.axes, problem.centre, problem.labels, n_classes, penalty)
    coefs = distance * rng.normal(size=(n_classes, d + 1)) / math.sqrt(d)
    start = problem.to_design(coefs)
    wanted = descend_from(problem, weights, Point(start, start @ problem.design.T)).coefs
    assert narrow.fit(coefs, weights, 1.0, FULL, max_steps=1000)
    assert abs(excess(problem, weights, coefs, problem.from_design(wanted))) < 1e-9


def assert_same_shares(problem, found, wanted, tolerance):
    """Of every class in every row."""
    shares = (softmax(problem.scores(coefs), axis=1) for coefs in (found, wanted))
    np.testing.assert_allclose(*shares, rtol=0.0, atol=tolerance)


@pytest.mark.parametrize(("n_classes", "d"), [(3, 40), (10, 12), (11, 30)])
def test_refits_of_many_classes_take_the_steps_of_their_twin_from_round_to_round(n_classes, d):
    """Also where the last step is made without looking at where it ends."""
    problem, _ = several_classes(np.random.default_rng(2), 600, d, n_classes, 1.0)
    assert problem.narrow is not None
    coefs = np.zeros((n_classes, d + 1))
    assert problem.narrow.fit(coefs, np.ones(600), 1.0, FULL, max_steps=500)
    start = problem.to_design(coefs)
    point = Point(start, start @ problem.design.T)
    for t in range(10):
        weights = np.exp(np.sin(t / 4.0) * problem.design[:, 0] / 3.0)
        assert problem.narrow.fit(coefs, weights, 1.0, ONE_ROUND, max_steps=9)
        point = descend_from(problem, weights, point, ONE_ROUND)
        assert_same_shares(problem, coefs, problem.from_design(point.coefs), 1e-6)


@given(seed=seeds, n_rows=row_counts, d=st.integers(1, 8), n_classes=st.integers(3, 9), distance=st.floats(0.0, 2.0))
@example(seed=0, n_rows=1, d=1, n_classes=3, distance=1.0)
@example(seed=0, n_rows=BLOCK + 1, d=8, n_classes=7, distance=0.1)
def test_few_coefficients_of_several_classes_reach_the_optimum_of_newtons_method(seed, n_rows, d, n_classes, distance):
    rng = np.random.default_rng(seed)
    X, weights = rng.normal(size=(n_rows, d)), rng.exponential(size=n_rows)
    labels = (X @ rng.normal(size=(d, n_classes)) + rng.gumbel(size=(n_rows, n_classes))).argmax(axis=1)
    problem = make_problem(X, labels, n_classes, 1.0)
    start = distance * rng.normal(size=(n_classes, d + 1))
    coefs = solve_compiled(problem, weights, start)
    if coefs is None:  # a class without rows
        assert n_rows < BLOCK or np.bincount(labels, minlength=n_classes).min() == 0
        return
    wanted = problem.from_design(_solve_by_newton(problem, weights, problem.to_design(start)))
    assert excess(problem, weights, coefs, wanted) < 1e-13
    if np.bincount(labels, minlength=n_classes).min() > 0:
        assert_same_shares(problem, coefs, wanted, 1e-9)


def test_a_refit_of_several_classes_that_takes_too_long_leaves_the_start():
    problem, weights = several_classes(np.random.default_rng(0), 300, 12, 10, 1.0)
    coefs = np.ones((10, 13))
    assert problem.narrow is not None
    assert not problem.narrow.fit(coefs, weights, 1.0, FULL, max_steps=1)
    np.testing.assert_array_equal(coefs, 1.0)
    assert not problem.narrow.fit(coefs, np.full(300, 1e308), 1.0, FULL, max_steps=100)
    np.testing.assert_array_equal(coefs, 1.0)


@pytest.mark.parametrize("distance", [0.0, 1.0, 30.0, 1e3])
def test_from_far_away_a_refit_of_many_classes_finds_the_optimum(distance):
    """There the first length that is tried does not do."""
    problem, weights = several_classes(np.random.default_rng(1), 300, 12, 10, 1.0)
    near, far = np.zeros((10, 13)), distance * np.random.default_rng(2).normal(size=(10, 13))
    assert problem.narrow is not None
    for coefs in (near, far):
        assert problem.narrow.fit(coefs, weights, 1.0, FULL, max_steps=500)
    assert_same_shares(problem, far, near, 1e-5)


@pytest.mark.parametrize(("n_rows", "d", "n_classes"), [(2, 94, 4), (3, 94, 4), (4, 60, 6), (10, 30, 12)])
def test_the_search_along_a_direction_comes_to_an_end_where_classes_have_no_rows(n_rows, d, n_classes):
    """There the slope jumps from one plateau to another, and Newton's method goes back and forth."""
    n_done = 0
    for seed in range(107):
        rng = np.random.default_rng(seed)
        X, labels = rng.normal(size=(n_rows, d)), rng.integers(0, n_classes, n_rows)
        problem, weights = make_problem(X, labels, n_classes, 1.0), rng.exponential(size=n_rows)
        start = rng.normal(size=(n_classes, d + 1))
        found = solve_compiled(problem, weights, np.asfortranarray(start))
        if found is not None:
            wanted = solve(replace(problem, narrow=None), weights, start)
            assert excess(problem, weights, found, wanted) < 1e-6
            n_done += 1
    assert n_done > 100


# --- fits without a row -------------------------------------------------------------------------------------------


@given(seed=seeds, n_rows=st.integers(60, 3 * BLOCK), d=widths, C=st.sampled_from([1e-2, 1.0, 100.0]))
@example(seed=0, n_rows=BLOCK + 1, d=12, C=1.0)
def test_scores_without_a_row_equal_their_twin(seed, n_rows, d, C):
    rng = np.random.default_rng(seed)
    problem, design, weights = narrow_problem(rng, n_rows, d, C)
    weights[rng.random(n_rows) < 0.1] = 0.0
    coefs = rng.normal(size=(1, d + 1)) / math.sqrt(d)
    found = design.leave_one_out(coefs, weights, C)
    assert found is not None
    wanted = leave_one_out_scores(replace(problem, narrow=None), weights, coefs)
    np.testing.assert_allclose(found, wanted[:, 0], rtol=1e-8, atol=1e-10)


def test_scores_without_a_row_are_left_to_numpy_where_the_hessian_is_nearly_singular():
    column = 1e9 * np.random.default_rng(4).normal(size=50)
    problem = make_problem(np.stack((column, column), axis=1), (column > 0.0).astype(np.int64), 2, C=1.0)
    coefs, weights = np.array([[1e-9, 0.0, 0.0]]), np.ones(50)
    assert problem.narrow is not None
    assert problem.narrow.leave_one_out(coefs, weights, 1.0) is None
    assert np.all(np.isfinite(leave_one_out_scores(problem, weights, coefs)))


# --- feature maps -------------------------------------------------------------------------------------------------


@given(seed=seeds, n_rows=st.integers(0, 40), d=widths, has_intercept=st.booleans(), is_bounded=st.booleans())
def test_features_equal_their_twin(seed, n_rows, d, has_intercept, is_bounded):
    rng, bound, divisor = np.random.default_rng(seed), 2.0, 3.0
    rows, mean, scale = rng.normal(size=(n_rows, d)), rng.normal(size=d), rng.uniform(0.5, 2.0, d)
    features, ones = np.empty((n_rows, d + has_intercept)), np.ones((n_rows, 1))
    n_long = make_features(rows, mean, scale, 2.5, bound, 1e-12, divisor, is_bounded, features, np.zeros(len(rows)))
    mapped = np.clip((rows - mean) / scale, -2.5, 2.5)
    wanted = np.hstack((mapped, ones)) if has_intercept and is_bounded else mapped
    norms = np.linalg.norm(wanted, axis=1, keepdims=True)
    wanted = wanted / np.maximum(1.0, norms / bound) / divisor
    wanted = np.hstack((wanted, ones)) if has_intercept and not is_bounded else wanted
    assert_close(features, wanted)
    assert n_long == np.sum(norms > bound * (1.0 + 1e-12))


# --- one signature ------------------------------------------------------------------------------------------------


def gradient_arguments():
    rng = np.random.default_rng(5)
    inputs = [to_blocks(rng.normal(size=(10, 2))), rng.normal(size=(1, 2)), rng.normal(size=(3, 2)), rng.normal(size=2)]
    return [*inputs, 1.0, 1.0, np.empty((4, 2)), np.empty((2, BLOCK)), np.empty((4, 2))]


@needs_compilation
def test_read_only_inputs_are_taken_and_nothing_is_compiled_again():
    arguments = gradient_arguments()
    sum_gradients(*arguments)
    wanted = arguments[-1].copy()
    for array in arguments[:4]:
        array.setflags(write=False)
    sum_gradients(*arguments)
    np.testing.assert_array_equal(arguments[-1], wanted)
    assert len(sum_gradients._call.signatures) == 1


@needs_compilation
@pytest.mark.parametrize("change", [lambda a: a.astype(np.float32), np.asfortranarray, lambda a: a[:, ::-1]])
def test_arrays_of_another_kind_are_refused_not_compiled_for(change):
    arguments = gradient_arguments()
    arguments[2] = change(arguments[2])
    with pytest.raises(TypeError, match="No matching definition"):
        sum_gradients(*arguments)


# --- several thetas, weights, threads -----------------------------------------------------------------------------


@pytest.mark.parametrize("max_ratio", [100.0, 1e300])
def test_ratios_at_several_thetas_are_those_of_the_plain_reference(max_ratio):
    rng = np.random.default_rng(0)
    features, batch, coefs = rng.normal(size=(40, 3)), rng.normal(size=(7, 3)), 9.0 * rng.normal(size=(4, 3))
    coefs[0] = 0.0
    narrow_reference, plain = NarrowReference(features, to_blocks(features)), MatrixReference(features, Logistic())
    found = narrow_reference.batch_ratios_at_each(coefs[0], coefs, batch, max_ratio)
    for one, other in zip(found, plain.batch_ratios_at_each(coefs[0], coefs, batch, max_ratio), strict=True):
        assert_close(one, other)
    for number, coef in enumerate(coefs):
        np.testing.assert_array_equal(found[1][number], narrow_reference.batch_ratios(coef, batch, max_ratio))


@pytest.mark.parametrize("ratio", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("strength", [0.0, 12.0])
def test_weighing_in_one_pass_is_weighing_step_by_step(ratio, strength):
    rng = np.random.default_rng(5)
    base, before, fitted, compared = all_weights = rng.uniform(0.5, 2.0, size=(4, 300))
    all_weights *= 300.0 / all_weights.sum(axis=1, keepdims=True)
    ratios = ratio * rng.uniform(0.1, 5.0, size=300)
    weights, shrunk, shown = np.empty(300), np.empty(300), np.empty(5)
    weigh_reference(base, ratios, 2.0, before, fitted, compared, strength, weights, shrunk, shown)
    cut = np.minimum(ratios, 2.0)
    expected = base * cut * (base.sum() / (base @ cut)) if ratio else before
    np.testing.assert_allclose(weights, expected, rtol=1e-13)
    np.testing.assert_array_equal(shrunk, shrink(weights, base, strength))
    np.testing.assert_allclose(
        shown,
        [
            total_variation(weights, base),
            effective_rows(weights),
            effective_rows(shrunk),
            total_variation(shrunk, fitted),
            total_variation(weights, compared),
        ],
        rtol=1e-12,
    )


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_the_distance_of_weights_is_the_plain_one(scale):
    rng = np.random.default_rng(0)
    for n_rows in (1, 7, 1000):
        weights, others = scale * rng.exponential(size=n_rows), rng.exponential(size=n_rows)
        expected = 0.5 * np.abs(weights / weights.sum() - others / others.sum()).sum()
        assert total_variation(weights, others) == pytest.approx(expected, rel=1e-12, abs=1e-15)
        assert total_variation(weights, weights) == 0.0


def xxh64(content: bytes) -> int:
    """XXH64 with seed 0, as its specification has it."""
    p1, p2, p3, p4, p5 = (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
    full = (1 << 64) - 1

    def turned(word, bits):
        return (word << bits | word >> (64 - bits)) & full

    def mixed(lane, word):
        return turned((lane + word * p2) & full, 31) * p1 & full

    lanes, at = [p1 + p2 & full, p2, 0, -p1 & full], 0
    while at + 32 <= len(content):
        lanes = [mixed(lane, word) for lane, word in zip(lanes, struct.unpack_from("<4Q", content, at), strict=True)]
        at += 32
    found = p5
    if at:
        found = sum(map(turned, lanes, (1, 7, 12, 18))) & full
        for lane in lanes:
            found = ((found ^ mixed(0, lane)) * p1 + p4) & full
    found = (found + len(content)) & full
    for place in range(at, len(content) - 7, 8):
        found = (turned(found ^ mixed(0, struct.unpack_from("<Q", content, place)[0]), 27) * p1 + p4) & full
    rest = content[len(content) // 8 * 8 :]
    if len(rest) >= 4:
        found = (turned(found ^ struct.unpack("<I", rest[:4])[0] * p1 & full, 23) * p2 + p3) & full
        rest = rest[4:]
    for byte in rest:
        found = turned(found ^ byte * p5 & full, 11) * p1 & full
    found = (found ^ found >> 33) * p2 & full
    found = (found ^ found >> 29) * p3 & full
    return found ^ found >> 32


def test_the_checksum_of_a_state_is_xxh64_with_zero_in_its_place():
    assert xxh64(b"") == 0xEF46DB3751D8E999
    assert xxh64(b"Nobody inspects the spammish repetition") == 0xFBCEA83C8A378BF1
    for n_words in range(5, 25):
        words = np.random.default_rng(n_words).integers(2**64, size=n_words, dtype=np.uint64)
        found = checksum(words)
        words[CHECKSUM_WORD] = 0
        assert found == checksum(words) == xxh64(words.tobytes())


@needs_compilation
def test_other_threads_run_during_long_kernels_only():
    for each, is_long in ((sum_gradients, True), (fit_logistic, True), (total_variation, False)):
        each.compile()
        assert bool(each.__call__.targetoptions["nogil"]) is is_long


# --- the round of the learners ------------------------------------------------------------------------------------


def random_stack(rng, n_learners, d, ridge):
    """Learners of different age."""
    stack = NewtonStack.start(n_learners, 0.1 * rng.normal(size=d), ridge)
    for k in range(6):
        stack = stack.step(rng.normal(size=(n_learners, d)) * (np.arange(n_learners) >= k)[:, None], 0.5, 1e30)
    return stack


def state_of(coef, learners, meta, *, largest_margin):
    """A state in the middle of a stream."""
    numbers = {"n_rounds": 9, "lengths": np.arange(len(learners)), "weights": meta.rates}
    return EnsembleState(**numbers, coef=coef, learners=learners, meta=meta, largest_margin=largest_margin)


def move_both(state, settings, gradients, step_size):
    """The state after the steps of a round, compiled and plain."""
    reference = narrow(np.ones((1, gradients.shape[1])))
    compiled = CompiledStack(*state.learners.arrays)
    return [
        rounds(settings, reference, lambda *_: None)._move(replace(state, learners=learners), gradients, step_size)
        for rounds, learners in ((CompiledRounds, compiled), (PaperRounds, state.learners))
    ]


def assert_same_state(found, wanted, tolerance):
    for part in ("coefs", "matrices", "inverse_roots"):
        assert_close(getattr(found.learners, part), getattr(wanted.learners, part), tolerance)
    for part in ("log_potentials", "rates", "squares"):
        assert_close(getattr(found.meta, part), getattr(wanted.meta, part), tolerance)
    assert_close(found.coef, wanted.coef, tolerance)
    assert_close(found.weights, wanted.weights, tolerance)
    np.testing.assert_allclose(found.largest_margin, wanted.largest_margin, rtol=1e-12)
    assert found.n_rounds == wanted.n_rounds


@given(
    seed=seeds,
    n_learners=st.integers(1, 13),
    d=widths,
    radius=st.sampled_from([0.2, 2.0, 1e6]),
    meta_range=st.sampled_from(["paper", "running"]),
    ridge=st.sampled_from([0.1, 1.0, 10.0]),
)
def test_a_round_of_the_learners_equals_its_twin(seed, n_learners, d, radius, meta_range, ridge):
    rng = np.random.default_rng(seed)
    settings = Setup(radius=radius, meta_range=meta_range, ridge=ridge).settings(d)
    learners = random_stack(rng, n_learners, d, ridge)
    meta = MetaState(rng.normal(size=n_learners), rng.uniform(0.1, 0.5, n_learners), rng.exponential(size=n_learners))
    state = state_of(learners.coefs.mean(axis=0), learners, meta, largest_margin=0.01)
    gradients = rng.normal(size=(n_learners + 1, d))
    moved = move_both(state, settings, gradients, 1.5)
    assert_same_state(*moved, tolerance=1e-11 if radius < 1e6 else 1e-12)
    assert np.linalg.norm(moved[0].learners.coefs, axis=1).max() <= radius * (1.0 + 1e-12)


def test_margins_that_are_rounding_count_as_zero():
    settings = Setup(meta_range="running").settings(3)
    learners, meta = NewtonStack.start(4, np.ones(3), 1.0), ADAPT_ML_PROD.start(4, 10)
    state = state_of(learners.coefs[0] + 1e-16, learners, meta, largest_margin=0.0)
    moved = move_both(state, settings, np.ones((5, 3)), 1.0)
    np.testing.assert_array_equal(moved[0].meta.squares, 0.0)
    assert_same_state(*moved, tolerance=1e-15)


@pytest.mark.parametrize("n_rows", [5, 128, 1000])
def test_blocks_begin_with_a_cache_line_also_after_a_pickle(n_rows):
    rows = np.random.default_rng(0).normal(size=(n_rows, 3))
    reference = make_narrow_reference(rows)
    design = make_narrow_design(rows, np.zeros(2), rows[:, :1], np.ones(3))
    design.fit(np.zeros((1, 3)), np.ones(n_rows), 1.0)
    for each in (reference, design, *map(pickle.loads, map(pickle.dumps, (reference, design)))):
        assert each.blocks.__array_interface__["data"][0] % 64 == 0
        np.testing.assert_array_equal(each.blocks, reference.blocks)


def test_workspaces_are_used_again_and_not_pickled():
    rooms = Workspaces()
    room = rooms.take(lambda: np.empty(3))
    rooms.append(room)
    assert pickle.loads(pickle.dumps(rooms)) == []
    assert rooms.take(lambda: np.empty(3)) is room
    assert rooms == []
