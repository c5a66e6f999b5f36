"""The quadratic program of kernel mean matching: against scipy, and by its optimality conditions."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import LinearConstraint, minimize
from scipy.spatial.distance import cdist

from accous.core.ratio_problems import BoxProblem, DenseMatrix, FactoredMatrix, project_onto_mass, solve_box_qp
from tests.budgets import examples


def kernel_problem(n_rows, n_batch, *, width=1.0, loc=1.0, n_columns=2, ridge=0.0, upper=5.0, seed=0):
    """Kernel mean matching of normal rows to a batch around `loc`."""
    rng = np.random.default_rng(seed)
    rows, batch = rng.normal(size=(n_rows, n_columns)), rng.normal(loc, size=(n_batch, n_columns))
    pull = n_rows * np.exp(-cdist(rows, batch, "sqeuclidean") / (2.0 * width**2)).mean(axis=1)
    kernels = np.exp(-cdist(rows, rows, "sqeuclidean") / (2.0 * width**2))
    pull.flags.writeable = kernels.flags.writeable = False
    return BoxProblem(DenseMatrix(kernels), pull, ridge, upper, None)


def dense(problem):
    """K + lambda I, entry by entry."""
    size = len(problem.linear)
    return problem.matrix.block(np.arange(size)) + problem.ridge * np.eye(size)


def objective(problem, point):
    return float(0.5 * point @ dense(problem) @ point - problem.linear @ point)


def by_scipy(problem, masses):
    """The same minimum, slowly: an interior point method that knows nothing of ours."""
    matrix, size = dense(problem), len(problem.linear)
    # A feasible start, at which the method also stays feasible.
    low, high = (0.0, size * problem.upper) if masses is None else masses
    constraints = [] if masses is None else [LinearConstraint(np.ones((1, size)), low, high)]
    found = minimize(
        lambda w: (0.5 * w @ matrix @ w - problem.linear @ w, matrix @ w - problem.linear),
        np.full(size, 0.5 * (low + high) / size),
        jac=True,
        bounds=[(0.0, problem.upper)] * size,
        constraints=constraints,
        method="SLSQP",
        options={"maxiter": 2000, "ftol": 1e-15},
    )
    return np.clip(found.x, 0.0, problem.upper)


def violation(problem, point, masses, atol=1e-9):
    """By how much the best multiplier of the mass fails the optimality conditions.

    With g the gradient: g_i + nu is 0 between the bounds, not below 0 at 0, not above 0 at B; nu is 0 inside the range
    of masses, not below 0 at its upper end and not above 0 at its lower end.
    """
    gradient = dense(problem) @ point - problem.linear
    edge = atol * problem.upper
    above_low, below_high = point > edge, point < problem.upper - edge
    # nu >= -g_i - v wherever the entry can grow, nu <= -g_i + v wherever it can shrink.
    at_least = (-gradient[below_high]).max(initial=-np.inf)
    at_most = (-gradient[above_low]).min(initial=np.inf)
    total, room = point.sum(), atol * max(1.0, len(point) * problem.upper)
    can_be_positive = masses is not None and total >= masses[1] - room
    can_be_negative = masses is not None and total <= masses[0] + room
    if not can_be_positive:
        at_most = min(at_most, 0.0)
    if not can_be_negative:
        at_least = max(at_least, 0.0)
    return float(max(0.0, 0.5 * (at_least - at_most)) if np.isfinite(at_least - at_most) else 0.0)


def assert_feasible(problem, point, masses):
    assert point.min() >= 0.0
    assert point.max() <= problem.upper
    if masses is not None:
        rounding = 1e-10 * len(point) * problem.upper
        assert masses[0] - rounding <= point.sum() <= masses[1] + rounding


def assert_solved(problem, point, masses, tolerance):
    assert_feasible(problem, point, masses)
    rounding = 1e-11 * len(point) * problem.upper
    assert violation(problem, point, masses) <= tolerance + rounding


# --- against scipy --------------------------------------------------------------------------------------------


@pytest.mark.every_pair
@pytest.mark.parametrize("n_batch", [1, 4, 40])
@pytest.mark.parametrize("ridge", [0.0, 0.1, 3.0])
@pytest.mark.parametrize("share_of_mass", [None, (1.0, 1.0), (0.8, 1.1), (0.2, 0.25), (1.4, 1.4)])
def test_small_problems_have_scipys_minimum(n_batch, ridge, share_of_mass):
    for seed, upper in enumerate((1.5, 4.0)):
        problem = kernel_problem(14, n_batch, ridge=ridge, upper=upper, seed=seed)
        masses = None if share_of_mass is None else (14.0 * share_of_mass[0], 14.0 * share_of_mass[1])
        point, _ = solve_box_qp(problem, np.ones(14), 1e-9, masses)
        expected = by_scipy(problem, masses)
        assert_solved(problem, point, masses, 1e-9)
        assert_feasible(problem, expected, masses)
        scale = 1.0 + abs(objective(problem, expected))
        assert objective(problem, point) <= objective(problem, expected) + 1e-8 * scale
        if ridge > 0.0:  # else the minimum need not be at one point only
            np.testing.assert_allclose(point, expected, rtol=0.0, atol=2e-4)


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0, 1.9])
def test_the_multiplier_says_what_more_mass_is_worth(share):
    problem = kernel_problem(30, 10, ridge=0.5, upper=2.0)
    mass, step = 30.0 * share, 1e-3

    def best(total):
        return objective(problem, solve_box_qp(problem, np.ones(30), 1e-10, (total, total))[0])

    _, multiplier = solve_box_qp(problem, np.ones(30), 1e-10, (mass, mass))
    slope = (best(mass + step) - best(mass - step)) / (2.0 * step)
    assert multiplier == pytest.approx(-slope, rel=1e-3, abs=1e-4)


# --- answers known by hand ------------------------------------------------------------------------------------


def by_hand(linear, *, ridge=0.0, upper=2.0):
    return BoxProblem(DenseMatrix(np.eye(len(linear))), np.array(linear), ridge, upper, None)


@pytest.mark.parametrize(
    ("linear", "masses", "expected", "multiplier"),
    [
        ([3.0, 1.0, 0.0], None, [2.0, 1.0, 0.0], 0.0),
        ([3.0, 1.0, -1.0], None, [2.0, 1.0, 0.0], 0.0),
        ([1.0, 1.0, 1.0], (1.5, 1.5), [0.5, 0.5, 0.5], 0.5),
        ([1.0, 0.5, 0.0], (3.0, 3.0), [1.5, 1.0, 0.5], -0.5),
        ([9.0, 1.0, 0.0], (2.5, 2.5), [2.0, 0.5, 0.0], 0.5),
        ([1.0, 0.5, 0.0], (1.0, 2.0), [1.0, 0.5, 0.0], 0.0),
        ([1.0, 0.5, 0.0], (3.0, 4.0), [1.5, 1.0, 0.5], -0.5),
        ([1.0, 1.0, 1.0], (0.5, 1.5), [0.5, 0.5, 0.5], 0.5),
    ],
)
def test_with_the_identity_every_entry_is_known(linear, masses, expected, multiplier):
    point, nu = solve_box_qp(by_hand(linear), np.zeros(3), 1e-12, masses)
    np.testing.assert_allclose(point, expected, rtol=0.0, atol=1e-12)
    assert nu == pytest.approx(multiplier, abs=1e-12)


def test_mass_and_ridge_of_the_problem_and_one_entry_by_hand():
    cases = [
        (replace(by_hand([1.0, 0.5, 0.0]), mass=3.0), None, [1.5, 1.0, 0.5]),
        (by_hand([3.0, 1.0, 0.5], ridge=1.0), None, [1.5, 0.5, 0.25]),
        *((by_hand([0.7]), masses, [one]) for masses, one in ((None, 0.7), ((0.2, 0.2), 0.2), ((0.9, 2.0), 0.9))),
    ]
    for problem, masses, expected in cases:
        arguments = () if masses is None else (masses,)
        point, _ = solve_box_qp(problem, np.zeros(len(expected)), 1e-12, *arguments)
        np.testing.assert_allclose(point, expected, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("upper", [1.1, 1.7, 3.0])
@pytest.mark.parametrize("n_rows", [1, 7, 100])
def test_all_entries_at_a_bound(n_rows, upper):
    problem = kernel_problem(n_rows, 5, ridge=0.3, upper=upper)
    full = n_rows * upper
    np.testing.assert_array_equal(solve_box_qp(problem, np.ones(n_rows), 1e-9, (0.0, 0.0))[0], 0.0)
    point, _ = solve_box_qp(problem, np.ones(n_rows), 1e-9, (full, full))
    np.testing.assert_allclose(point, upper, rtol=1e-12)
    assert point.max() <= upper
    wants_all = replace(problem, linear=np.full(n_rows, 1e6))
    np.testing.assert_array_equal(solve_box_qp(wants_all, np.ones(n_rows), 1e-9)[0], upper)
    np.testing.assert_allclose(solve_box_qp(wants_all, np.ones(n_rows), 1e-9, (0.0, full))[0], upper, rtol=1e-12)
    wants_none = replace(problem, linear=np.full(n_rows, -1e6))
    np.testing.assert_array_equal(solve_box_qp(wants_none, np.ones(n_rows), 1e-9)[0], 0.0)


# --- optimality conditions ------------------------------------------------------------------------------------


@pytest.mark.every_pair
@pytest.mark.parametrize("n_batch", [1, 20, 300])
@pytest.mark.parametrize("share_of_mass", [None, (1.0, 1.0), (0.9, 1.05)])
@pytest.mark.parametrize("upper", [1.05, 1.5, 10.0, 1000.0])
@pytest.mark.parametrize("n_columns", [1, 2, 5])
@pytest.mark.parametrize("ridge", ["usual", 0.0, 1e-6, 1e-2])
def test_hundreds_of_rows(n_batch, share_of_mass, upper, n_columns, ridge):
    # The kernel matrix of one column has a rank of about 15 to all digits: without a ridge, no factorisation works.
    n_rows = 250 if ridge == "usual" else 100
    masses = None if share_of_mass is None else (n_rows * share_of_mass[0], n_rows * share_of_mass[1])
    for seed, loc in enumerate((0.0, 1.0, 4.0, 8.0)):
        settings = {"loc": loc, "n_columns": n_columns, "upper": upper, "seed": seed}
        problem = kernel_problem(n_rows, n_batch, ridge=n_rows / n_batch if ridge == "usual" else ridge, **settings)
        point, _ = solve_box_qp(problem, np.ones(n_rows), 1e-6 * n_rows, masses)
        assert_solved(problem, point, masses, 1e-6 * n_rows)


@pytest.mark.parametrize("ridge", [0.0, 0.5])
def test_rows_that_occur_several_times(ridge):
    once = kernel_problem(12, 6, width=0.7, upper=4.0)
    copies = np.repeat(np.arange(12), 5)
    problem = replace(once, matrix=DenseMatrix(dense(once)[np.ix_(copies, copies)]), linear=5.0 * once.linear[copies])
    problem = replace(problem, ridge=ridge)
    point, _ = solve_box_qp(problem, np.ones(60), 1e-8, (60.0, 60.0))
    assert_solved(problem, point, (60.0, 60.0), 1e-8)
    if ridge > 0.0:  # then copies share their weight evenly
        np.testing.assert_allclose(point.reshape(12, 5), point.reshape(12, 5)[:, :1].repeat(5, axis=1), atol=1e-7)


def test_the_zero_matrix_is_a_knapsack():
    problem = BoxProblem(DenseMatrix(np.zeros((4, 4))), np.array([1.0, 4.0, 3.0, 2.0]), 1e-6, 1.0, None)
    point, _ = solve_box_qp(problem, np.zeros(4), 1e-7, (2.5, 2.5))
    np.testing.assert_allclose(point, [0.0, 1.0, 1.0, 0.5], rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("n_rows", [401, 700])
@pytest.mark.parametrize("share_of_mass", [None, (1.0, 1.0)])
def test_conjugate_gradients_for_more_rows_than_are_factorised(n_rows, share_of_mass):
    masses = None if share_of_mass is None else (float(n_rows), float(n_rows))
    problem = kernel_problem(n_rows, 200, ridge=5.0, upper=100.0, loc=0.3)
    point, _ = solve_box_qp(problem, np.ones(n_rows), 1e-7 * n_rows, masses)
    assert np.count_nonzero((point > 0.0) & (point < 100.0)) > 400
    assert_solved(problem, point, masses, 1e-7 * n_rows)


@st.composite
def box_problems(draw):
    """Problems of a few entries: kernels of any rank, any mass, bounds that bite or not; and a start."""
    size, n_columns = draw(st.integers(1, 8)), draw(st.integers(1, 2))
    numbers = st.integers(-30, 30).map(lambda value: value / 10.0)
    # Rows on a grid: some coincide, and then the matrix is singular.
    rows = draw(hnp.arrays(np.float64, (size, n_columns), elements=st.integers(-3, 3).map(float)))
    width = draw(st.sampled_from([0.1, 1.0, 5.0, 50.0]))
    linear = draw(hnp.arrays(np.float64, size, elements=numbers))
    start = draw(hnp.arrays(np.float64, size, elements=numbers))
    upper = draw(st.sampled_from([0.3, 1.0, 1.1, 4.0, 1000.0]))
    ridge = draw(st.sampled_from([0.0, 1e-4, 0.5, 20.0]))
    ends = sorted(draw(st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0))))
    masses = draw(st.sampled_from([None, (ends[0], ends[0]), (ends[0], ends[1]), (0.0, 0.0), (1.0, 1.0), (0.0, 1.0)]))
    scaled = None if masses is None else (masses[0] * size * upper, masses[1] * size * upper)
    kernels = np.exp(-cdist(rows, rows, "sqeuclidean") / (2.0 * width**2))
    return BoxProblem(DenseMatrix(kernels), linear, ridge, upper, None), scaled, start


@examples(150)
@given(case=box_problems())
def test_any_small_problem_is_solved(case):
    problem, masses, start = case
    tolerance = 1e-7 * (1.0 + np.abs(dense(problem)).sum(axis=1).max() * problem.upper)
    point, _ = solve_box_qp(problem, start, tolerance, masses)
    assert_solved(problem, point, masses, tolerance)


@examples(50)
@given(case=box_problems())
def test_a_factored_matrix_is_its_dense_twin(case):
    problem, masses, start = case
    tolerance = 1e-9 * (1.0 + np.abs(dense(problem)).sum(axis=1).max() * problem.upper)
    values = problem.matrix.block(np.arange(len(start)))
    eigenvalues, eigenvectors = np.linalg.eigh(values)
    twin = replace(problem, matrix=FactoredMatrix(eigenvectors * np.sqrt(np.maximum(eigenvalues, 0.0))))
    np.testing.assert_allclose(twin.matrix.block(np.arange(len(start))), values, rtol=0.0, atol=1e-13)
    np.testing.assert_allclose(problem.matrix.times(start), values @ start, rtol=0.0, atol=1e-10)
    np.testing.assert_allclose(twin.matrix.times(start), values @ start, rtol=0.0, atol=1e-10)
    point, _ = solve_box_qp(problem, start, tolerance, masses)
    other, _ = solve_box_qp(twin, start, tolerance, masses)
    scale = 1.0 + abs(objective(problem, point))
    assert objective(problem, other) == pytest.approx(objective(problem, point), abs=1e-5 * scale)
    if problem.ridge >= 0.5:
        np.testing.assert_allclose(other, point, rtol=0.0, atol=4.0 * len(point) * tolerance / problem.ridge)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_mostly_empty_vector_is_multiplied_right(order):
    values = np.array(dense(kernel_problem(30, 3)), order=order)
    vector = np.zeros(30)
    for n_filled in (0, 1, 9, 11, 30):
        vector[:n_filled] = np.arange(1.0, n_filled + 1.0)
        np.testing.assert_allclose(DenseMatrix(values).times(vector), values @ vector, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("ridge", [0.0, 2.0])
def test_the_start_does_not_matter(ridge):
    problem = kernel_problem(60, 10, ridge=ridge, upper=6.0)
    rng = np.random.default_rng(3)
    starts = [np.zeros(60), np.ones(60), np.full(60, 6.0), rng.normal(size=60) * 10.0, rng.permutation(60) / 10.0]
    for start in starts:
        start.flags.writeable = False
    points = [solve_box_qp(problem, start, 1e-8, (60.0, 60.0))[0] for start in starts]
    values = [objective(problem, point) for point in points]
    np.testing.assert_allclose(values, values[0], rtol=1e-9)
    if ridge > 0.0:
        np.testing.assert_allclose(points, np.tile(points[0], (5, 1)), rtol=0.0, atol=1e-7)


# --- the projection -------------------------------------------------------------------------------------------


def by_bisection(point, upper, mass):
    """The shift whose mass is right, between two neighbouring floats."""
    low, high = -point.max() - 1.0, upper - point.min() + 1.0
    while low < (middle := low + (high - low) / 2.0) < high:
        if np.clip(point + middle, 0.0, upper).sum() < mass:
            low = middle
        else:
            high = middle
    return np.clip(point + high, 0.0, upper)


@given(
    point=hnp.arrays(np.float64, st.integers(1, 12), elements=st.floats(-1e3, 1e3)),
    upper=st.floats(1e-2, 1e3),
    share=st.sampled_from([0.0, 1.0]) | st.floats(0.0, 1.0),
)
def test_the_projection_is_that_of_bisection(point, upper, share):
    mass = share * len(point) * upper
    projected = project_onto_mass(point, upper, mass)
    scale = np.abs(point).max() + upper
    assert np.all((projected >= 0.0) & (projected <= upper))
    assert projected.sum() == pytest.approx(mass, abs=1e-13 * len(point) * scale)
    np.testing.assert_allclose(projected, by_bisection(point, upper, mass), rtol=0.0, atol=1e-12 * scale)


def test_ties_stay_and_a_point_with_the_mass_is_its_own_projection():
    point = np.array([0.0, 0.4, 1.5, 2.0])
    point.flags.writeable = False
    np.testing.assert_allclose(project_onto_mass(point, 2.0, point.sum()), point, rtol=0.0, atol=1e-15)
    np.testing.assert_allclose(project_onto_mass(np.array([1.0, 1.0, -5.0]), 2.0, 3.0), [1.5, 1.5, 0.0], atol=1e-15)
    np.testing.assert_allclose(project_onto_mass(np.zeros(4), 1.0, 3.0), 0.75, atol=1e-15)
