"""What is done with each column is decided by the reference, explicit, and the same after it was saved."""

import json

import numpy as np
import polars as pl
import pytest

from accous.exceptions import DataError
from accous.table.columns import CategoryColumn, Choices, ColumnEncoder, DateColumn, LeftOutColumn, NumberColumn

N_ROWS = 200


def texts(values) -> pl.Series:
    return pl.Series([None if value is None else str(value) for value in values], dtype=pl.String)


REFERENCE = pl.DataFrame(
    {
        "number": texts([None if row % 10 == 0 else row % 17 for row in range(N_ROWS)]),
        "level": texts(["abc"[row % 3] if row % 50 else f"rare {row}" for row in range(N_ROWS)]),
        "day": texts([f"2024-01-{1 + row % 28:02d}" for row in range(N_ROWS)]),
        "moment": texts([f"2023-{1 + row % 12:02d}-03T{row % 24:02d}:30:00" for row in range(N_ROWS)]),
        "constant": texts(["same"] * N_ROWS),
        "zero": texts([0.0] * N_ROWS),
        "nothing": texts([None] * N_ROWS),
        "name": texts([f"person {row}" for row in range(N_ROWS)]),
    }
)


@pytest.fixture
def encoder() -> ColumnEncoder:
    return ColumnEncoder.learn(REFERENCE, Choices())


def test_columns_are_read_as_what_they_are(encoder):
    plans = {plan.name: plan for plan in encoder.plans}
    assert isinstance(plans["number"], NumberColumn)
    assert plans["number"].marks_missing
    assert isinstance(plans["level"], CategoryColumn)
    assert sorted(plans["level"].levels) == ["a", "b", "c"]
    assert (plans["level"].has_other, plans["level"].n_rare) == (True, 4)
    assert plans["day"] == DateColumn("day", "%Y-%m-%d", ["week"])
    assert plans["moment"].cycles == ["week", "day"]  # the reference spans eleven months
    assert {name for name, plan in plans.items() if isinstance(plan, LeftOutColumn)} == {
        "constant",
        "zero",
        "nothing",
        "name",
    }


def test_features_are_finite_scaled_and_survive_json(encoder):
    features = encoder.encode(REFERENCE)
    assert features.X.shape == (N_ROWS, len(encoder.feature_names))
    assert np.isfinite(features.X).all()
    assert features.X[:, 0].mean() == pytest.approx(0.0, abs=1e-12)
    assert features.X[:, 0].std() == pytest.approx(1.0)
    again = ColumnEncoder.from_json(json.loads(json.dumps(encoder.to_json())))
    assert again == encoder
    assert np.array_equal(again.encode(REFERENCE).X, features.X)


def test_rows_are_encoded_one_by_one_as_all_at_once(encoder):
    whole = encoder.encode(REFERENCE).X
    for row in range(0, N_ROWS, 23):
        assert np.array_equal(encoder.encode(REFERENCE[row : row + 1]).X[0], whole[row])


def test_unknown_levels_share_the_feature_of_rare_ones(encoder):
    row = REFERENCE[:1].with_columns(level=pl.lit("unheard of"))
    features = encoder.encode(row)
    names = encoder.feature_names
    assert features.X[0, names.index("level = (other)")] == 1.0
    assert features.n_unknown.tolist() == [1]
    assert encoder.encode(REFERENCE[:1]).n_unknown.tolist() == [0]


def test_dates_without_their_cycle_in_the_reference_are_left_out():
    frame = pl.DataFrame({"x": texts(range(40)), "day": texts([f"2024-01-0{1 + row % 3}" for row in range(40)])})
    plan = ColumnEncoder.learn(frame, Choices()).plans[1]
    assert plan == LeftOutColumn("day", "a date, and the reference spans only 2 days")


def test_what_the_user_decides_is_done():
    encoder = ColumnEncoder.learn(REFERENCE, Choices(drop=("level",), categorical=("number",)))
    plans = {plan.name: plan for plan in encoder.plans}
    assert isinstance(plans["number"], CategoryColumn)
    assert plans["level"] == LeftOutColumn("level", "dropped with --drop")
    with pytest.raises(DataError, match="There is no column 'more'"):
        ColumnEncoder.learn(REFERENCE, Choices(drop=("more",)))


def test_extreme_numbers_stay_finite(encoder):
    row = REFERENCE[:1].with_columns(number=pl.lit("1e300"))
    assert np.isfinite(encoder.encode(row).X).all()


@pytest.mark.parametrize(("mean", "shown"), [(0.5, "(x - 0.5) / 2"), (-0.01696, "(x + 0.01696) / 2")])
def test_a_mean_below_zero_is_added(mean, shown):
    plan = NumberColumn(name="a", median=0.0, mean=mean, deviation=2.0, marks_missing=False)
    assert plan.summary().startswith(shown)


@pytest.mark.parametrize(
    ("cycles", "shown"), [(["week"], "week, two features;"), (["week", "day"], "day, two features each;")]
)
def test_the_features_of_one_position_are_not_counted_each(cycles, shown):
    assert shown in DateColumn("day", "", cycles).summary()
