"""Coverage of recent rows by the reference, single columns, and columns that mislead."""

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
    columns_of_label,
    follows_rows,
    largest_rare_count,
    rare_classes,
    smallest_rare_count,
)
from accous.diagnostics.drift import ComparedReference, ReferenceNeighbours


def normal(seed, n_rows, n_columns, mean=0.0):
    return np.random.default_rng(seed).normal(mean, size=(n_rows, n_columns))


# --- rows outside the joint distribution ------------------------------------------------------------------------


@pytest.mark.parametrize("n_columns", [1, 12, 200])
def test_one_row_in_twenty_is_outside_without_a_shift(n_columns):
    shares = []
    for seed in range(20):
        neighbours = ReferenceNeighbours(normal(seed, 400, n_columns))
        shares.append(neighbours.is_outside(normal(seed + 100, 500, n_columns)).mean())
    assert 0.035 < np.mean(shares) < 0.065


def test_the_distance_is_that_of_a_search_for_neighbours():
    reference, rows = normal(0, 1000, 5), normal(1, 500, 5, 0.5)
    order = np.random.default_rng(0).permutation(1000)
    scaled = (reference - reference.mean(axis=0)) / reference.std(axis=0)
    search = NearestNeighbors(n_neighbors=5).fit(scaled[order[:500]])
    limit = np.quantile(search.kneighbors(scaled[order[500:]])[0][:, -1] ** 2, 0.95)
    found = search.kneighbors((rows - reference.mean(axis=0)) / reference.std(axis=0))[0][:, -1] ** 2
    np.testing.assert_array_equal(ReferenceNeighbours(reference).is_outside(rows), found > limit)


def test_a_hole_in_the_reference_is_outside_although_every_column_is_in_its_range():
    signs = np.random.default_rng(0).choice([-3.0, 3.0], size=1000)
    reference = signs[:, None] + 0.3 * normal(1, 1000, 2)
    crossed = np.array([3.0, -3.0]) + 0.3 * normal(2, 500, 2)
    assert ReferenceNeighbours(reference).is_outside(crossed).all()


def test_a_constant_column_that_moves_is_outside_and_far_values_do_not_overflow():
    reference = np.column_stack((normal(0, 200, 1), np.ones(200)))
    neighbours = ReferenceNeighbours(reference)
    rows = np.array([[0.0, 1.0], [0.0, 1.0 + 1e-12], [1e300, 1.0], [-1e300, 1.0]])
    np.testing.assert_array_equal(neighbours.is_outside(rows), [False, True, True, True])


def test_a_rare_mark_does_not_outweigh_the_other_columns():
    rng = np.random.default_rng(0)
    marks = np.eye(200)[rng.integers(0, 200, size=1000)]
    reference = np.column_stack((rng.normal(size=1000), marks))
    moved = np.column_stack((rng.normal(6.0, size=200), np.eye(200)[rng.integers(0, 200, size=200)]))
    assert ReferenceNeighbours(reference).is_outside(moved).mean() > 0.9


def test_repeated_rows_are_inside():
    reference = np.random.default_rng(0).integers(0, 2, size=(300, 3)).astype(float) * 1e3 + 7.1
    assert not ReferenceNeighbours(reference).is_outside(reference).any()
    assert not ReferenceNeighbours(reference[:2]).is_outside(reference[:2]).any()


# --- drift strength ---------------------------------------------------------------------------------------------


def test_strength_is_that_of_a_held_out_regression():
    reference, recent = normal(0, 1000, 6), normal(1, 500, 6, 0.3)
    X, y = np.concatenate((reference, recent)), np.repeat([0, 1], (1000, 500))
    areas = []
    for fold in (0, 1):
        is_held = np.arange(1500) % 2 == fold
        model = LogisticRegression(C=0.1, class_weight="balanced").fit(X[~is_held], y[~is_held])
        areas.append(roc_auc_score(y[is_held], model.decision_function(X[is_held])))
    assert ComparedReference(reference).drift_to(recent) == pytest.approx(2.0 * np.mean(areas) - 1.0, abs=0.03)


@pytest.mark.parametrize("n_columns", [1, 12, 100, 2000])
def test_strength_is_near_zero_without_a_shift_and_one_where_rows_are_told_apart(n_columns):
    reference = normal(0, 500, n_columns)
    assert ComparedReference(reference).drift_to(normal(1, 300, n_columns)) < 0.15
    assert ComparedReference(reference).drift_to(normal(1, 300, n_columns, 5.0)) > 0.99
    same = [ComparedReference(reference).drift_to(normal(2, 300, n_columns, 0.1)) for _ in range(2)]
    assert same[0] == same[1]


def test_strength_with_constant_columns_and_huge_values():
    reference = np.column_stack((normal(0, 300, 1), np.ones(300)))
    assert ComparedReference(reference).drift_to(np.column_stack((normal(1, 300, 1), np.full(300, 1.0 + 1e-6)))) > 0.95
    assert ComparedReference(np.ones((300, 2))).drift_to(np.ones((100, 2))) == 0.0
    assert ComparedReference(reference).drift_to(np.full((100, 2), 1e300)) > 0.99


# --- single columns ---------------------------------------------------------------------------------------------


def test_a_count_is_rare_where_the_hypergeometric_distribution_says_so():
    least = smallest_rare_count(500, 1000, 0, 24)
    # Of the rows that show it, each is a recent one with probability of about 1/3.
    assert (1.0 / 3.0) ** least < LEVEL / 24 < (1.0 / 3.0) ** (least - 2)
    assert smallest_rare_count(500, 1_000_000, 500_000, 1) >= binom.isf(LEVEL, 500, 0.5)
    assert largest_rare_count(500, 1000, 0, 1) < 0
    assert largest_rare_count(500, 1000, 500, 1) == 500 - smallest_rare_count(500, 1000, 500, 1)


@pytest.mark.parametrize(("n_recent", "n_reference"), [(500, 1000), (3, 40), (200, 12), (500, 1_000_000)])
def test_the_least_rare_count_is_the_first_that_scipy_calls_rare(n_recent, n_reference):
    for n_hits in {0, 1, n_reference // 50, n_reference // 3, n_reference}:
        least = smallest_rare_count(n_recent, n_reference, n_hits, 7)
        counts = np.arange(1, n_recent + 1)
        chances = hypergeom.sf(counts - 1, n_reference + n_recent, n_hits + counts, n_recent)
        is_rare = (chances <= LEVEL / 7) & (counts > (n_hits / n_reference + SMALLEST_CHANGE) * n_recent)
        assert least == (counts[is_rare].min() if is_rare.any() else n_recent + 1)


def test_a_column_that_leaves_its_range_is_named():
    reference = np.column_stack((normal(0, 1000, 2), np.random.default_rng(1).uniform(18, 90, 1000)))
    ranges = ColumnRanges.of(reference, ["a", "b", "age"])
    rows = reference[:500].copy()
    assert ranges.findings(rows) == ()
    rows[:50, 2] = 120.0
    (finding,) = ranges.findings(rows)
    assert (finding.column, finding.kind, finding.share) == ("age", "outside", 0.1)


def test_a_constant_that_moves_is_named_with_its_values():
    ranges = ColumnRanges.of(np.ones((1000, 1)), ["c"])
    for rows, share in ((np.full((500, 1), 2.0), 1.0), (np.append(np.ones(400), np.arange(100.0) + 2.0)[:, None], 0.2)):
        (finding,) = ranges.findings(rows)
        assert (finding.column, finding.kind, finding.share, finding.expected) == ("c", "new values", share, 0.0)
        assert f"{rows.max():.0f}" in finding.sentence
    assert ranges.findings(np.append(np.ones(499), 2.0)[:, None]) == ()


def test_quiet_streams_give_hardly_any_finding():
    n_found = 0
    for seed in range(300):
        rows = np.random.default_rng(seed).standard_t(3, size=(1500, 10))
        n_found += len(ColumnRanges.of(rows[:1000], list("abcdefghij")).findings(rows[1000:]))
    assert n_found <= 2


def test_one_event_for_each_column_and_onset():
    watch = NOTHING_FOUND
    moved = [("new values", "c", 0.5)]
    for number, rare in enumerate([[]] * 3 + [moved] * 5 + [[]] * 2 + [moved] + [[]] * 9 + [moved] * 2, start=1):
        watch = watch.look(number, number, rare)
    assert [(event.round, event.kind, event.features) for event in watch.events] == [
        (4, "new values", ("c",)),
        (21, "new values", ("c",)),
    ]


def test_a_reference_that_is_compared_again_gives_the_same_bits():
    reference = np.column_stack((normal(0, 1500, 3), np.ones(1500)))
    compared = ComparedReference(reference)
    for seed in (1, 2, 1):
        recent = np.column_stack((normal(seed, 200, 3, 0.3), np.full(200, 1.0 + seed)))
        assert compared.drift_to(recent) == ComparedReference(reference).drift_to(recent)


# --- counters, and columns that determine the label -------------------------------------------------------------

ROWS = np.arange(300.0)
NOISE = np.random.default_rng(0).normal(size=300)


COUNTERS = {
    "rows": ROWS,
    "falling": -ROWS,
    "normalised, with ties": ROWS // 48 / 943,
    "one missing": np.where(ROWS == 100, np.nan, ROWS),
    "out of order": ROWS + 30 * (ROWS % 2),
    "three months": 3 + ROWS // 100,
    "parts of months": np.searchsorted([20, 290], ROWS),
    "five months": np.searchsorted([5, 110, 200, 290], ROWS) - 4.0,
    "countdown": np.where(ROWS == 100, np.nan, 10 * (3 - ROWS // 100)),
}
MEASUREMENTS = {
    "trend with steps back": ROWS + 5.0 * NOISE,
    "hour": ROWS % 24,
    "temperature": np.round(20 + ROWS / 10 + NOISE),
    "one step": (ROWS > 150).astype(float),
    "constant": np.full(300, 3.0),
    "shuffled": np.random.default_rng(1).permutation(ROWS),
    "mostly missing": np.where(ROWS < 100, np.nan, ROWS),
    "few rows": ROWS[:20],
    "month over the new year": (10 + ROWS // 60) % 12,
    "two rare values at the end": np.where(ROWS < 298, 0.0, ROWS - 297),
    "no whole steps": np.searchsorted([100, 200], ROWS) / 2,
    "unequal steps": np.array([0.0, 1.0, 3.0])[(ROWS // 100).astype(int)],
    "a step back": np.where(ROWS == 150, 0.0, ROWS // 100),
}


@pytest.mark.parametrize("name", [*COUNTERS, *MEASUREMENTS])
def test_counters_follow_the_rows_and_measurements_do_not(name):
    assert follows_rows((COUNTERS | MEASUREMENTS)[name]) == (name in COUNTERS)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_columns_that_determine_the_label_are_found_among_others(n_classes):
    random = np.random.default_rng(2)
    labels = random.integers(0, n_classes, 1000)
    codes = labels + n_classes * random.integers(0, 5, 1000)  # several values per class, mixed along the column
    close = labels + 0.8 * random.normal(size=1000)
    leak = np.exp(3.0 * (labels + random.random(1000)))
    X = np.column_stack((random.normal(size=1000), codes, close, leak))
    found = dict(columns_of_label(X, labels))
    assert found.keys() == {1, 3}
    assert min(found.values()) > 0.99


def test_a_good_column_does_not_determine_the_label():
    random = np.random.default_rng(3)
    x = random.normal(size=2000)
    assert columns_of_label(x[:, None], (x + 0.05 * random.normal(size=2000) > 0).astype(int)) == []


def test_nothing_determines_a_label_that_is_nearly_always_the_same():
    labels = (np.arange(400) % 25 == 0).astype(int)
    assert columns_of_label(labels[:, None].astype(float), labels) == []


def test_rare_classes_have_one_to_nine_rows():
    assert rare_classes(np.repeat([0, 2, 3, 4], [9, 10, 1, 50])).tolist() == [0, 3]
