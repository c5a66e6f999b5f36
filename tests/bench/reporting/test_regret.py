"""The fitted exponent against known growth and against scipy's regression."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from accous_bench.reporting.aggregate import aggregate_rows
from accous_bench.reporting.regret import fitted_exponent, regret_series, theory_exponent
from tests.bench.reporting.rows import regret_rows


@given(st.floats(0.1, 1.5), st.floats(0.01, 100.0), st.integers(1, 5))
def test_exact_growth_is_found(exponent: float, level: float, n_seeds: int) -> None:
    regrets = {T: {seed: level * (1 + seed) * T**exponent for seed in range(n_seeds)} for T in (100, 200, 800)}
    found, error, n_slopes = fitted_exponent(regrets)
    assert found == pytest.approx(exponent)
    assert n_slopes == (n_seeds if n_seeds >= 3 else 0)
    if n_seeds != 2:  # two levels at once scatter around the one line
        assert error == pytest.approx(0.0, abs=1e-6)


def test_one_seed_gives_scipys_standard_error() -> None:
    regrets = {100: {0: 3.0}, 200: {0: 5.5}, 400: {0: 7.0}, 800: {0: 13.0}}
    expected = stats.linregress(np.log(list(regrets)), np.log([3.0, 5.5, 7.0, 13.0]))
    assert fitted_exponent(regrets) == (pytest.approx(expected.slope), pytest.approx(expected.stderr), 0)


def test_several_seeds_give_the_spread_of_their_slopes() -> None:
    generator = np.random.default_rng(0)
    lengths = np.array([100, 200, 400, 800])
    table = np.exp(generator.normal(0.0, 0.2, (4, 4))) * lengths[:, None] ** 0.5
    regrets = {int(T): dict(enumerate(row.tolist())) for T, row in zip(lengths, table, strict=True)}
    slopes = [stats.linregress(np.log(lengths), np.log(column)).slope for column in table.T]
    expected = np.mean(slopes), np.std(slopes, ddof=1) / np.sqrt(4)
    assert fitted_exponent(regrets) == (pytest.approx(expected[0]), pytest.approx(expected[1]), 4)


@pytest.mark.parametrize("regrets", [{}, {100: {0: 1.0}}, {100: {0: 1.0}, 200: {0: -1.0}}])
def test_too_few_regrets_have_no_exponent(regrets: dict[int, dict[int, float]]) -> None:
    assert fitted_exponent(regrets) == (None, None, 0)


def test_series_from_rows() -> None:
    series = regret_series(aggregate_rows(regret_rows()).outcomes)
    found = {(one.key.shift, one.contender): one.exponent for one in series}
    assert found == {
        ("fixed path", "OLRE"): pytest.approx(0.5, abs=1e-5),
        ("fixed path", "Accous"): pytest.approx(0.4, abs=1e-5),
        ("growing path", "OLRE"): pytest.approx(0.8, abs=1e-5),
        ("growing path", "Accous"): pytest.approx(0.7, abs=1e-5),
    }
    assert series[0].lengths == [500, 1000, 2000, 4000]
    assert series[0].means[0] == pytest.approx(1.15 * 500**0.5, rel=1e-5)


def test_the_theorys_exponents() -> None:
    assert theory_exponent("fixed path") == pytest.approx(1 / 3)
    assert theory_exponent("growing path") == pytest.approx(2 / 3)
    assert theory_exponent("Squ") is None
