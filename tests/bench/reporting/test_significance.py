"""The tests against scipy's and against slow, obvious versions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from accous_bench.reporting.significance import detectable_effect, holm, paired_test

errors = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=12)
p_values = st.lists(st.floats(0, 1), max_size=12)


def slow_holm(p: list[float]) -> list[float]:
    """Reject from the smallest on: the adjusted value of each is the level at which it would just be rejected."""
    adjusted = [0.0] * len(p)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p)), key=lambda index: p[index])):
        largest = max(largest, min(1.0, p[index] * (len(p) - rank)))
        adjusted[index] = largest
    return adjusted


@pytest.mark.parametrize("n", [3, 5, 20])
def test_paired_test_is_scipys(n: int) -> None:
    generator = np.random.default_rng(n)
    ours = generator.normal(0.3, 0.02, n)
    others = ours + generator.normal(0.01, 0.01, n)
    result = paired_test(others, ours)
    assert result is not None
    assert result.n == n
    assert result.difference == pytest.approx(np.mean(others) - np.mean(ours))
    assert result.std == pytest.approx(np.std(others - ours, ddof=1))
    assert result.p == pytest.approx(stats.ttest_rel(others, ours).pvalue)


def test_positive_difference_means_that_the_other_errs_more() -> None:
    result = paired_test([0.4, 0.5], [0.3, 0.3])
    assert result is not None
    assert result.difference == pytest.approx(0.15)


def test_edges_of_the_paired_test() -> None:
    assert paired_test([], []) is None
    assert paired_test([0.3], [0.2]) == (1, pytest.approx(0.1), None, None)
    same = paired_test([0.1, 0.2, 0.3], [0.1, 0.2, 0.3])
    assert same is not None
    assert same.p == 1.0
    shifted = paired_test([0.25, 0.5, 0.75], [0.0, 0.25, 0.5])
    assert shifted is not None
    assert shifted.p is None
    pair = paired_test([0.3, 0.35], [0.2, 0.21])
    assert pair is not None
    assert pair.p is None


@given(errors)
def test_p_is_a_probability_and_the_same_from_both_sides(pairs: list[tuple[float, float]]) -> None:
    others, ours = zip(*pairs, strict=True)
    there, back = paired_test(others, ours), paired_test(ours, others)
    assert there is not None
    assert back is not None
    assert (there.p is None) == (back.p is None)
    if there.p is not None:
        assert 0.0 <= there.p <= 1.0
        assert back.p == pytest.approx(there.p)
    assert back.difference == pytest.approx(-there.difference)


@given(p_values)
def test_holm_is_the_slow_one(p: list[float]) -> None:
    assert holm(p) == pytest.approx(slow_holm(p))


@given(p_values)
def test_holm_keeps_the_order_and_never_lowers(p: list[float]) -> None:
    adjusted = holm(p)
    assert all(0.0 <= raw <= after <= 1.0 for raw, after in zip(p, adjusted, strict=True))
    in_order = [after for _, after in sorted(zip(p, adjusted, strict=True))]
    assert in_order == sorted(in_order)


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([0.02]) == [0.02]
    assert holm([]) == []


@pytest.mark.parametrize(("n", "level"), [(5, 0.05), (5, 0.01), (10, 0.05), (20, 0.05)])
def test_effect_is_detected_with_that_power(n: int, level: float) -> None:
    effect = detectable_effect(n, level)
    assert effect is not None
    differences = np.random.default_rng(0).normal(effect, 1.0, (20_000, n))
    p = stats.ttest_1samp(differences, 0.0, axis=1).pvalue
    assert np.mean(p < level) == pytest.approx(0.8, abs=0.012)


def test_more_seeds_detect_less() -> None:
    effects = [detectable_effect(n) for n in (2, 3, 5, 10, 50)]
    assert effects == sorted(effects, reverse=True)
    assert detectable_effect(1) is None
