"""The order in time of a reference: where it comes from, and what follows it."""

import numpy as np
import polars as pl
import pytest

from accous import AdaptiveClassifier
from accous.exceptions import DataError
from accous.table.checks import find_order
from accous.table.columns import Choices
from accous.table.fit import ReferenceTable, cross_validate, read_reference
from accous.table.readers import open_table

N_ROWS = 60
RANDOM = np.random.default_rng(0)
DAYS = [str(np.datetime64("2024-03-01") + day) for day in range(N_ROWS)]
SHUFFLED_DAYS = [DAYS[7 * day % N_ROWS] for day in range(N_ROWS)]


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def make_model(encoder):
    return AdaptiveClassifier(standardize=False)


def table(**columns: list) -> pl.DataFrame:
    return pl.DataFrame({"x": RANDOM.normal(size=N_ROWS), **columns, "y": np.arange(N_ROWS) % 2})


def read(frame: pl.DataFrame, *, skips_bad: bool = False, is_ordered: bool | None = None, **choices) -> ReferenceTable:
    frame.write_csv("rows.csv")
    return read_reference(open_table("rows.csv"), "y", Choices(**choices), skips_bad=skips_bad, is_ordered=is_ordered)


def found(frame: pl.DataFrame, choices: Choices | None = None) -> str | None:
    return find_order(frame, choices or Choices(), is_ordered=None).column


def shuffled(values: list, seed: int = 0) -> list:
    return [values[row] for row in np.random.default_rng(seed).permutation(len(values))]


def test_a_date_column_that_rises_gives_the_order_beside_others_that_do_not():
    assert found(table(born=shuffled(DAYS), day=DAYS)) == "day"
    late = [*DAYS[:10], DAYS[12], DAYS[10], DAYS[11], *DAYS[13:]]
    assert found(table(born=shuffled(DAYS), day=late)) == "day"


def test_of_several_that_rise_the_finest_is_taken():
    months = [f"{day[:7]}-01" for day in DAYS]
    assert found(table(month=months, day=DAYS)) == "day"


def test_the_only_date_column_gives_the_order_and_of_several_without_order_none_does():
    assert found(table(day=shuffled(DAYS))) == "day"
    assert found(table(day=shuffled(DAYS), born=shuffled(DAYS, 1))) is None


def test_dates_that_are_always_the_same_dropped_or_categories_give_no_order():
    assert found(table(day=["2024-03-01"] * N_ROWS)) is None
    assert found(table(day=DAYS), Choices(drop=("day",))) is None
    assert found(table(day=DAYS), Choices(categorical=("day",))) is None
    assert found(table(number=list(range(N_ROWS)))) is None


def test_typed_dates_give_the_order_too():
    assert found(table(day=DAYS).with_columns(pl.col("day").str.to_date())) == "day"


def test_the_rows_are_sorted_by_a_number_and_it_is_no_feature():
    times = shuffled([float(row) for row in range(N_ROWS)])
    frame = table(when=times)
    reference = read(frame, time="when")
    expected = frame.sort("when")
    assert reference.order.to_json() == {"by": "time", "column": "when"}
    assert np.allclose(reference.frame["x"].cast(pl.Float64), expected["x"])
    assert reference.y.tolist() == expected["y"].to_list()
    assert reference.encoder.feature_names == ["x"]
    scale = expected["x"].std(ddof=0)
    assert np.allclose(reference.X[:, 0], (expected["x"].to_numpy() - expected["x"].mean()) / scale)


def test_a_date_is_sorted_by_and_its_place_in_the_week_stays_a_feature():
    reference = read(table(day=shuffled(DAYS)), time="day")
    assert reference.frame["day"].to_list() == DAYS
    assert "day: sine of week" in reference.encoder.feature_names


def test_rows_of_one_time_keep_their_order_and_a_row_without_time_follows_the_one_before():
    frame = table(when=[2, None, 1, *[1] * (N_ROWS - 3)])
    assert np.allclose(
        read(frame, time="when").frame["x"].cast(pl.Float64), np.concatenate((frame["x"][2:], frame["x"][:2]))
    )


def test_a_dropped_column_can_still_give_the_order():
    reference = read(table(day=shuffled(DAYS)), time="day", drop=("day",))
    assert reference.frame["day"].to_list() == DAYS
    assert reference.encoder.feature_names == ["x"]


def test_a_time_that_cannot_be_read_makes_its_row_a_bad_one():
    frame = table(when=[*[str(row) for row in range(N_ROWS - 1)], "soon"])
    with pytest.raises(DataError, match=r"line 61, column 'when': the time cannot be read"):
        read(frame, time="when")
    reference = read(frame, time="when", skips_bad=True)
    assert len(reference.y) == N_ROWS - 1
    with pytest.raises(DataError, match="'colour' holds no time"):
        read(table(colour=["red", "blue"] * (N_ROWS // 2)), time="colour")


def test_bad_rows_are_named_by_their_place_in_the_file_not_in_time():
    frame = table(day=DAYS[::-1]).with_columns(
        x=pl.when(pl.int_range(pl.len()) == 4).then(pl.lit("oops")).otherwise(pl.col("x").cast(pl.String))
    )
    assert [bad.line for bad in read(frame, skips_bad=True).bad_rows] == [6]


def test_the_user_can_say_that_rows_are_in_order_or_have_none():
    frame = table(day=shuffled(DAYS))
    assert read(frame, is_ordered=True).order.to_json() == {"by": "rows", "column": None}
    unordered = read(frame, is_ordered=False)
    assert unordered.order.to_json() == {"by": None, "column": None}
    assert unordered.frame["day"].to_list() == frame["day"].to_list()


def changing(n_rows: int) -> pl.DataFrame:
    """The relation of x and y turns round at three fifths of the rows; one label in twenty is wrong."""
    random = np.random.default_rng(3)
    x = random.normal(size=n_rows)
    sign = np.where((np.arange(n_rows) < 0.6 * n_rows) ^ (random.random(n_rows) < 0.05), 1.0, -1.0)
    return pl.DataFrame({"x": x, "y": np.where(x * sign > 0, "a", "b")})


def test_cross_validation_in_order_of_time_predicts_blocks_from_the_blocks_before():
    frame = changing(500)
    in_order = cross_validate(read(frame, is_ordered=True), make_model, seed=0)
    # Blocks two and three are predicted right; four follows the turn, and five still has most rows before it.
    assert 1.0 - in_order.mean() == pytest.approx(0.5, abs=0.03)
    in_folds = cross_validate(read(frame, is_ordered=False), make_model, seed=0)
    assert 1.0 - in_folds.mean() == pytest.approx(0.6, abs=0.05)


def test_a_class_that_comes_late_is_an_error_until_it_has_been_seen():
    frame = pl.DataFrame({"x": np.arange(100.0) % 7, "y": ["a"] * 50 + ["b"] * 50})
    # Blocks: 20 rows right, 10 right and 10 wrong; two blocks of b, of which the fits have seen 10 and 30 rows.
    losses = cross_validate(read(frame, is_ordered=True), make_model, seed=0)
    assert losses is not None
    assert 30 / 80 <= 1.0 - losses.mean() <= 50 / 80


def test_too_few_rows_in_order_cannot_be_cross_validated():
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "y": ["a", "b", "a", "b"]})
    assert cross_validate(read(frame, is_ordered=True), make_model, seed=0) is None


@pytest.mark.parametrize(
    ("days", "columns"),
    [(DAYS, []), (DAYS[::-1], ["day"]), ([DAYS[7 * day % N_ROWS] for day in range(N_ROWS)], ["day"])],
)
def test_dates_that_are_not_in_order_are_told_where_the_rows_are_said_to_be(days, columns):
    remarks = [remark for remark in read(table(day=days), is_ordered=True).remarks if remark.kind == "order"]
    assert [remark.column for remark in remarks] == columns
    assert all("the dates in 'day' are not in order" in remark.text for remark in remarks)
    assert all(remark.kind != "order" for remark in read(table(day=days), is_ordered=False).remarks)


def test_another_date_may_have_any_order_beside_one_that_rises():
    frame = table(day=DAYS, born=DAYS[::-1])
    assert all(remark.kind != "order" for remark in read(frame, is_ordered=True).remarks)
