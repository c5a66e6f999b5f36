"""Does the reference cover the recent rows: calibrated without a shift, and clear about what is new."""

import numpy as np
import pytest
from scipy.stats import binom, hypergeom
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors

from accous.diagnostics.coverage import (
    LEVEL,
    NOTHING_FOUND,
    SMALLEST_CHANGE,
    ColumnRanges,
    Coverage,
    Finding,
    largest_rare_count,
    smallest_rare_count,
)
from accous.diagnostics.drift import ComparedReference, ReferenceNeighbours, drift_strength


def normal(seed: int, n_rows: int, n_columns: int, mean: float = 0.0):
    return np.random.default_rng(seed).normal(mean, size=(n_rows, n_columns))


# --- rows outside the joint distribution ------------------------------------------------------------------------


@pytest.mark.parametrize("n_columns", [1, 12, 200])
def test_one_row_in_twenty_is_outside_without_a_shift(n_columns: int) -> None:
    shares = []
    for seed in range(20):
        neighbours = ReferenceNeighbours(normal(seed, 400, n_columns))
        shares.append(neighbours.is_outside(normal(seed + 100, 500, n_columns)).mean())
    assert 0.035 < np.mean(shares) < 0.065


def test_the_distance_is_that_of_a_search_for_neighbours() -> None:
    reference, rows = normal(0, 1000, 5), normal(1, 500, 5, 0.5)
    order = np.random.default_rng(0).permutation(1000)
    scaled = (reference - reference.mean(axis=0)) / reference.std(axis=0)
    search = NearestNeighbors(n_neighbors=5).fit(scaled[order[:500]])
    limit = np.quantile(search.kneighbors(scaled[order[500:]])[0][:, -1] ** 2, 0.95)
    found = search.kneighbors((rows - reference.mean(axis=0)) / reference.std(axis=0))[0][:, -1] ** 2
    np.testing.assert_array_equal(ReferenceNeighbours(reference).is_outside(rows), found > limit)


def test_a_hole_in_the_reference_is_outside_although_every_column_is_in_its_range() -> None:
    signs = np.random.default_rng(0).choice([-3.0, 3.0], size=1000)
    reference = signs[:, None] + 0.3 * normal(1, 1000, 2)
    crossed = np.array([3.0, -3.0]) + 0.3 * normal(2, 500, 2)
    assert ReferenceNeighbours(reference).is_outside(crossed).all()


def test_a_constant_column_that_moves_is_outside_and_far_values_do_not_overflow() -> None:
    reference = np.column_stack((normal(0, 200, 1), np.ones(200)))
    neighbours = ReferenceNeighbours(reference)
    rows = np.array([[0.0, 1.0], [0.0, 1.0 + 1e-12], [1e300, 1.0], [-1e300, 1.0]])
    np.testing.assert_array_equal(neighbours.is_outside(rows), [False, True, True, True])


def test_a_rare_mark_does_not_outweigh_the_other_columns() -> None:
    rng = np.random.default_rng(0)
    marks = np.eye(200)[rng.integers(0, 200, size=1000)]
    reference = np.column_stack((rng.normal(size=1000), marks))
    moved = np.column_stack((rng.normal(6.0, size=200), np.eye(200)[rng.integers(0, 200, size=200)]))
    assert ReferenceNeighbours(reference).is_outside(moved).mean() > 0.9


def test_repeated_rows_are_inside() -> None:
    reference = np.random.default_rng(0).integers(0, 2, size=(300, 3)).astype(float) * 1e3 + 7.1
    assert not ReferenceNeighbours(reference).is_outside(reference).any()
    assert not ReferenceNeighbours(reference[:2]).is_outside(reference[:2]).any()


# --- drift strength ---------------------------------------------------------------------------------------------


def test_strength_is_that_of_a_held_out_regression() -> None:
    reference, recent = normal(0, 1000, 6), normal(1, 500, 6, 0.3)
    X, y = np.concatenate((reference, recent)), np.repeat([0, 1], (1000, 500))
    areas = []
    for fold in (0, 1):
        is_held = np.arange(1500) % 2 == fold
        model = LogisticRegression(C=0.1, class_weight="balanced").fit(X[~is_held], y[~is_held])
        areas.append(roc_auc_score(y[is_held], model.decision_function(X[is_held])))
    assert drift_strength(reference, recent) == pytest.approx(2.0 * np.mean(areas) - 1.0, abs=0.03)


@pytest.mark.parametrize("n_columns", [1, 12, 100, 2000])
def test_strength_is_near_zero_without_a_shift_and_one_where_rows_are_told_apart(n_columns: int) -> None:
    reference = normal(0, 500, n_columns)
    assert drift_strength(reference, normal(1, 300, n_columns)) < 0.15
    assert drift_strength(reference, normal(1, 300, n_columns, 5.0)) > 0.99
    same = [drift_strength(reference, normal(2, 300, n_columns, 0.1)) for _ in range(2)]
    assert same[0] == same[1]


def test_strength_with_constant_columns_and_huge_values() -> None:
    reference = np.column_stack((normal(0, 300, 1), np.ones(300)))
    assert drift_strength(reference, np.column_stack((normal(1, 300, 1), np.full(300, 1.0 + 1e-6)))) > 0.95
    assert drift_strength(np.ones((300, 2)), np.ones((100, 2))) == 0.0
    assert drift_strength(reference, np.full((100, 2), 1e300)) > 0.99


# --- single columns ---------------------------------------------------------------------------------------------


def test_a_count_is_rare_where_the_hypergeometric_distribution_says_so() -> None:
    least = smallest_rare_count(500, 1000, 0, 24)
    # Of the rows that show it, each is a recent one with probability of about 1/3.
    assert (1.0 / 3.0) ** least < LEVEL / 24 < (1.0 / 3.0) ** (least - 2)
    assert smallest_rare_count(500, 1_000_000, 500_000, 1) >= binom.isf(LEVEL, 500, 0.5)
    assert largest_rare_count(500, 1000, 0, 1) < 0
    assert largest_rare_count(500, 1000, 500, 1) == 500 - smallest_rare_count(500, 1000, 500, 1)


@pytest.mark.parametrize(("n_recent", "n_reference"), [(500, 1000), (3, 40), (200, 12), (500, 1_000_000)])
def test_the_least_rare_count_is_the_first_that_scipy_calls_rare(n_recent: int, n_reference: int) -> None:
    for n_hits in {0, 1, n_reference // 50, n_reference // 3, n_reference}:
        least = smallest_rare_count(n_recent, n_reference, n_hits, 7)
        counts = np.arange(1, n_recent + 1)
        chances = hypergeom.sf(counts - 1, n_reference + n_recent, n_hits + counts, n_recent)
        is_rare = (chances <= LEVEL / 7) & (counts > (n_hits / n_reference + SMALLEST_CHANGE) * n_recent)
        assert least == (counts[is_rare].min() if is_rare.any() else n_recent + 1)


def test_a_column_that_leaves_its_range_is_named() -> None:
    reference = np.column_stack((normal(0, 1000, 2), np.random.default_rng(1).uniform(18, 90, 1000)))
    ranges = ColumnRanges.of(reference, ["a", "b", "age"])
    rows = reference[:500].copy()
    assert ranges.findings(rows) == ()
    rows[:50, 2] = 120.0
    (finding,) = ranges.findings(rows)
    assert (finding.column, finding.kind, finding.share) == ("age", "outside", 0.1)
    assert finding.sentence.startswith("Column 'age' ranged from 18")
    assert "above it in 10.0% of the recent rows" in finding.sentence


def test_a_constant_that_moves_is_named_with_its_values() -> None:
    ranges = ColumnRanges.of(np.ones((1000, 1)), ["c"])
    (finding,) = ranges.findings(np.full((500, 1), 2.0))
    assert finding == Finding(
        "c", "new values", 1.0, 0.0, "Column 'c' was always 1 in the reference and is 2 in all recent rows."
    )
    (part,) = ranges.findings(np.concatenate((np.ones((400, 1)), np.arange(100.0)[:, None] + 2.0)))
    assert "has other values, such as 101, in 20.0% of the recent rows" in part.sentence
    assert ranges.findings(np.append(np.ones(499), 2.0)[:, None]) == ()


def test_quiet_streams_give_hardly_any_finding() -> None:
    n_found = 0
    for seed in range(300):
        rows = np.random.default_rng(seed).standard_t(3, size=(1500, 10))
        n_found += len(ColumnRanges.of(rows[:1000], list("abcdefghij")).findings(rows[1000:]))
    assert n_found <= 2


def test_one_event_for_each_column_and_onset() -> None:
    watch = NOTHING_FOUND
    moved = [("new values", "c", 0.5)]
    for number, rare in enumerate([[]] * 3 + [moved] * 5 + [[]] * 2 + [moved] + [[]] * 9 + [moved] * 2, start=1):
        watch = watch.look(number, number, rare)
    assert [(event.round, event.kind, event.features) for event in watch.events] == [
        (4, "new values", ("c",)),
        (21, "new values", ("c",)),
    ]


def test_rows_of_a_table_and_sentences() -> None:
    coverage = Coverage(500, 0.1, 0.2, (Finding("a", "outside", 0.25, 0.002, "Column 'a' left."),))
    assert coverage.sentences == ["Column 'a' left."]
    assert coverage.rows() == [("a", "outside", "25.0%", "0.2%")]


def test_a_reference_that_is_compared_again_gives_the_same_bits() -> None:
    reference = np.column_stack((normal(0, 1500, 3), np.ones(1500)))
    compared = ComparedReference(reference)
    for seed in (1, 2, 1):
        recent = np.column_stack((normal(seed, 200, 3, 0.3), np.full(200, 1.0 + seed)))
        assert compared.drift_to(recent) == drift_strength(reference, recent)
