"""Checks of a reference: its order in time, columns that mislead, copies of rows, and the time that it covers."""

from datetime import datetime, timedelta
from functools import partial

import numpy as np
import polars as pl
import pytest

from accous import AdaptiveClassifier
from accous.exceptions import DataError
from accous.model.order import Order, OrderKind
from accous.table.checks import find_order, put_in_order, remarks_on_repeats, remarks_on_span
from accous.table.columns import Choices
from accous.table.fit import ReferenceTable, hold_out_rows, read_reference
from accous.table.readers import open_table
from tests.cli.tables import make_tables

N_ROWS = 200
ROWS = np.arange(N_ROWS)
RANDOM = np.random.default_rng(5)
X = RANDOM.normal(size=N_ROWS).round(6)
LABELS = np.where(X + RANDOM.normal(size=N_ROWS) > 0, "yes", "no")
SHUFFLED = RANDOM.permutation(ROWS)
INCOMES = RANDOM.permutation(ROWS) * 37 + 20_000


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def read(
    frame: pl.DataFrame, *, skips_bad: bool = False, is_ordered: bool | None = None, **choices: object
) -> ReferenceTable:
    frame.write_csv("rows.csv")
    return read_reference(open_table("rows.csv"), "y", Choices(**choices), skips_bad=skips_bad, is_ordered=is_ordered)


def read_columns(columns: dict, labels=LABELS, **how: object) -> ReferenceTable:
    return read(pl.DataFrame({**columns, "x": X, "y": labels}), **how)


def remarks_of(reference: ReferenceTable) -> list[tuple[str, str | None]]:
    return [(remark.kind, remark.column) for remark in reference.remarks]


# --- columns that mislead ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "values", "kind", "count"),
    [
        ("when", np.where(X > 0, "July", "August"), "calendar", "2 of the 12"),
        ("Month", np.array(["FEB", "Feb.", "mar"])[SHUFFLED % 3], "calendar", "2 of the 12"),
        ("on", np.where(X > 0, "mon", "tue"), "calendar", "2 of the 7"),
        ("time_of_year", np.where(X > 0, "Spring", "Summer"), "calendar", "2 of the 4"),
        ("season", 1 + SHUFFLED % 2, "calendar", "2 of the 4"),
        ("day_of_week", SHUFFLED % 3, "calendar", "3 of the 7"),
        ("month_no", 1 + SHUFFLED % 5, "calendar", "5 of the 12"),
        ("week_number", 20 + SHUFFLED % 9, "calendar", "9 of the 53"),
        ("agent", SHUFFLED % 40, "code", "--drop agent"),
        ("StoreCode", 7 * (SHUFFLED % 40), "code", "40 different"),
    ],
)
def test_parts_of_a_calendar_and_codes_stay_with_a_remark(name, values, kind, count):
    reference = read_columns({name: values})
    assert remarks_of(reference) == [(kind, name)]
    assert count in reference.remarks[0].text
    assert name in reference.encoder.used_columns
    assert not read_columns({name: values}, keep=(name,)).remarks


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("month", 1 + SHUFFLED % 12),
        ("weekday", SHUFFLED % 5),
        ("on", np.array(["mon", "tue", "wed", "thu", "fri"])[SHUFFLED % 5]),
        ("verb", np.where(X > 0, "may", "must")),
        ("stays_in_week_nights", SHUFFLED % 9),
        ("ProductRelated", SHUFFLED % 40),
        ("age_of_user", 20 + SHUFFLED % 40),
        ("agent", SHUFFLED % 5),
        ("income", INCOMES),
        ("id_photo_width", 600 + SHUFFLED % 50),
        ("temperature", ROWS / 20 + RANDOM.normal(size=N_ROWS)),
        ("hour", ROWS % 24),
        ("price", np.where(SHUFFLED % 2 == 0, 7e8, 8e8)),
        ("reading", 20241301 + SHUFFLED % 60),
        *((name, 1_000_000_000 + 7919 * SHUFFLED) for name in ("balance", "price")),
    ],
)
def test_whole_calendars_amounts_and_measurements_stay_without_a_remark(name, values):
    reference = read_columns({name: values})
    assert not reference.remarks
    assert name in reference.encoder.used_columns


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("step", ROWS, "counter"),
        ("share", ROWS // 10 / 19, "counter"),
        ("meter", 1000 - np.cumsum(np.abs(X)), "counter"),
        ("customer_id", SHUFFLED * 37, "id"),
        ("CustomerID", SHUFFLED * 37, "id"),
        ("house id", np.maximum(SHUFFLED, 9) * 37, "id"),  # some come twice
        ("anything", SHUFFLED, "id"),
        ("", SHUFFLED * 5, "id"),
        ("Unnamed: 0", SHUFFLED * 5, "id"),
        ("token", [f"t{row * 7919 % 1000:03}" for row in ROWS], "id"),
        ("comment", [f"came {row} minutes too late" for row in ROWS], "text"),
        ("at", 1_700_000_000 + 60 * SHUFFLED + 0.5, "time"),
        ("at_ms", (1_700_000_000 + 60 * SHUFFLED) * 1000, "time"),
        ("on", [20240101 + 100 * (row % 12) + row % 28 for row in SHUFFLED], "time"),
        ("Year", 2019 + SHUFFLED % 4, "time"),
    ],
)
def test_ids_counters_and_times_are_left_out_with_a_remark(name, values, kind):
    reference = read_columns({name: values})
    assert remarks_of(reference) == [(kind, name or "column_1")]
    assert reference.encoder.used_columns == ["x"]
    assert reference.X.shape == (N_ROWS, 1)


def test_a_column_that_would_be_left_out_can_be_kept_or_read_as_a_category():
    assert read_columns({"step": ROWS}, keep=("step",)).encoder.used_columns == ["step", "x"]
    assert read_columns({"step": ROWS // 20}, categorical=("step",)).encoder.used_columns == ["step", "x"]


def test_counters_are_found_in_the_order_of_time_and_rows_without_order_have_ids_alone():
    columns = {"share": ROWS // 10 / 19, "step": ROWS}
    assert remarks_of(read_columns(columns)) == [("counter", "share"), ("counter", "step")]
    assert remarks_of(read_columns(columns, is_ordered=False)) == [("id", "step")]
    columns = {"when": SHUFFLED + 0.5, "share": SHUFFLED // 10 / 19}
    assert remarks_of(read_columns(columns, time="when")) == [("counter", "share")]
    assert remarks_of(read_columns(columns, drop=("when",))) == []


def test_a_few_rows_are_not_checked_and_a_table_of_counters_alone_is_refused():
    reference = read(pl.DataFrame({"id": range(20), "y": [0, 1] * 10}))
    assert (reference.encoder.used_columns, reference.remarks) == (["id"], [])
    with pytest.raises(DataError, match="counter"):
        read(pl.DataFrame({"id": ROWS, "y": LABELS}))


@pytest.mark.parametrize("values", [np.where(LABELS == "yes", "paid", "open"), np.where(LABELS == "yes", X**2 + 1, -1)])
def test_a_column_that_gives_the_label_away_stays_with_a_remark(values):
    reference = read_columns({"outcome": values})
    assert remarks_of(reference) == [("label", "outcome")]
    assert "100.0%" in reference.remarks[0].text
    assert "outcome" in reference.encoder.used_columns
    assert read_columns({"outcome": values}, drop=("outcome",)).remarks == []


def test_a_class_with_few_rows_is_named():
    (remark,) = read_columns({}, np.where(ROWS < 9, "odd", LABELS)).remarks
    assert "'odd'" in remark.text
    assert read_columns({}, np.where(ROWS < 10, "odd", LABELS)).remarks == []


SORTED = {
    "price": np.sort(np.exp(X)).round(6),
    "height": np.sort(170.0 + 10.0 * X).round(6)[::-1],
    "stage": 4 + ROWS // 70,
}


@pytest.mark.parametrize("name", SORTED)
def test_a_column_that_the_table_is_merely_sorted_by_stays_with_a_remark(name):
    """Without a known order, only a column that rises evenly is a counter."""
    column = {name: SORTED[name]}
    for is_ordered, remarks, used in (
        (None, [("sorted", name)], [name, "x"]),
        (True, [("counter", name)], ["x"]),
        (False, [], [name, "x"]),
    ):
        reference = read_columns(column, is_ordered=is_ordered)
        assert (remarks_of(reference), reference.encoder.used_columns) == (remarks, used)
    # A date column makes the order known.
    days = [f"2024-{1 + row // 28:02}-{1 + row % 28:02}" for row in ROWS]
    assert ("counter", name) in remarks_of(read_columns({"day": days, **column}))


# --- the order in time ------------------------------------------------------------------------------------------

N_DAYS = 60
DAYS = [str(np.datetime64("2024-03-01") + day) for day in range(N_DAYS)]
VALUES = np.random.default_rng(0).normal(size=N_DAYS)


def table(**columns: list) -> pl.DataFrame:
    return pl.DataFrame({"x": VALUES, **columns, "y": np.arange(N_DAYS) % 2})


def shuffled(values: list, seed: int = 0) -> list:
    return [values[row] for row in np.random.default_rng(seed).permutation(len(values))]


def written(form: str) -> list:
    return [datetime.fromisoformat(day).strftime(form) for day in DAYS]


# As spreadsheets and public data write them.
FORMS = ("%d-%m-%Y", "%m-%d-%Y %H:%M", "%d/%m/%Y %H:%M", "%m/%d/%Y %I:%M:%S %p", "%d.%m.%Y %H:%M:%S", "%Y%m%dT%H%M%S")
LATE = [*DAYS[:10], DAYS[12], DAYS[10], DAYS[11], *DAYS[13:]]


@pytest.mark.parametrize(
    ("columns", "choices", "expected"),
    [
        ({"born": shuffled(DAYS), "day": DAYS}, {}, "day"),
        ({"born": shuffled(DAYS), "day": LATE}, {}, "day"),
        ({"month": [f"{day[:7]}-01" for day in DAYS], "day": DAYS}, {}, "day"),  # the finest
        ({"day": shuffled(DAYS)}, {}, "day"),  # the only one
        ({"day": [datetime.fromisoformat(day) for day in DAYS]}, {}, "day"),
        *(({"day": written(form)}, {}, "day") for form in FORMS),
        ({"day": shuffled(DAYS), "born": shuffled(DAYS, 1)}, {}, None),
        ({"^day$": DAYS}, {}, "^day$"),  # a pattern to polars
        ({"day": ["2024-03-01"] * N_DAYS}, {}, None),
        ({"day": DAYS}, {"drop": ("day",)}, None),
        ({"day": DAYS}, {"categorical": ("day",)}, None),
        ({"number": list(range(N_DAYS))}, {}, None),
        ({"start_month": [1 + row // 8 for row in range(N_DAYS)], "born": shuffled(DAYS), "at": DAYS}, {}, "at"),
        ({"start_month": [1 + row // 8 for row in range(N_DAYS)]}, {}, "start_month"),
        ({"month": [8 - row // 8 for row in range(N_DAYS)]}, {}, "month"),  # the newest first
        ({"month": shuffled([1 + row // 8 for row in range(N_DAYS)])}, {}, None),
        ({"month": [1 + row // 8 for row in range(N_DAYS)]}, {"categorical": ("month",)}, None),
        ({"weekday": [1 + row // 9 for row in range(N_DAYS)]}, {}, None),
        ({"at": [1_700_000_000 + 3_600 * row for row in range(N_DAYS)]}, {}, "at"),
        *(({name: [1_700_000_000 + 3_600 * row for row in range(N_DAYS)]}, {}, None) for name in ("sum", "time_id")),
        ({"at": [1_700_000_000.5 + 3_600 * row for row in range(N_DAYS)]}, {}, None),
        ({"tenure_month": [1 + row // 8 for row in range(N_DAYS)]}, {}, None),
        ({"loan_month": [1 + row // 3 for row in range(N_DAYS)]}, {}, None),
    ],
)
def test_which_date_column_gives_the_order(columns, choices, expected):
    found = find_order(table(**columns), Choices(**choices), is_ordered=None)
    assert found == (None if expected is None else Order(OrderKind.COLUMN, column=expected))


def test_lists_are_no_times():
    with pytest.raises(DataError, match="'when' holds no"):
        put_in_order(table(when=[["a"]] * N_DAYS), Order(OrderKind.TIMES, column="when"))


def test_times_of_a_single_day_are_no_order_and_fit_says_so():
    hours = [datetime(2024, 5, 31, hour % 24) for hour in range(N_DAYS)]
    for frame, options in (
        (table(when=hours), {}),
        (table(when=hours), {"time": "when"}),
        (table(when=[7] * N_DAYS), {"time": "when"}),
    ):
        reference = read(frame, **options)
        assert reference.order.by is None
        assert reference.order.kind is (OrderKind.ONE_DAY if options else OrderKind.FEW_ROWS)


def test_the_rows_are_sorted_by_a_number_and_it_is_no_feature():
    frame = table(when=shuffled([float(row) for row in range(N_DAYS)]))
    reference, expected = read(frame, time="when"), frame.sort("when")
    assert reference.order == Order(OrderKind.TIMES, column="when")
    assert np.allclose(reference.frame["x"].cast(pl.Float64), expected["x"])
    assert reference.y.tolist() == expected["y"].to_list()
    assert reference.encoder.feature_names == ["x"]
    scale = expected["x"].std(ddof=0)
    assert np.allclose(reference.X[:, 0], (expected["x"].to_numpy() - expected["x"].mean()) / scale)


def test_a_date_is_sorted_by_and_stays_a_feature_unless_it_is_dropped():
    reference = read(table(day=shuffled(DAYS)), time="day")
    assert reference.frame["day"].to_list() == DAYS
    assert "day: sine of week" in reference.encoder.feature_names
    reference = read(table(day=shuffled(DAYS)), time="day", drop=("day",))
    assert reference.frame["day"].to_list() == DAYS
    assert reference.encoder.feature_names == ["x"]


def test_rows_of_one_time_keep_their_order_and_a_row_without_time_follows_the_one_before():
    frame = table(when=[2, None, 1, *[1] * (N_DAYS - 3)])
    found = read(frame, time="when").frame["x"].cast(pl.Float64)
    assert np.allclose(found, np.concatenate((frame["x"][2:], frame["x"][:2])))


def test_a_time_that_cannot_be_read_makes_its_row_a_bad_one():
    frame = table(when=[*[str(row) for row in range(N_DAYS - 1)], "soon"])
    with pytest.raises(DataError, match=r"line 61, column 'when'"):
        read(frame, time="when")
    assert len(read(frame, time="when", skips_bad=True).y) == N_DAYS - 1
    with pytest.raises(DataError, match="'colour'"):
        read(table(colour=["red", "blue"] * (N_DAYS // 2)), time="colour")


def test_bad_rows_are_named_by_their_place_in_the_file_not_in_time():
    is_bad = pl.int_range(pl.len()) == 4
    frame = table(day=DAYS[::-1]).with_columns(x=pl.when(is_bad).then(pl.lit("oops")).otherwise(pl.col("x").cast(str)))
    assert [bad.line for bad in read(frame, skips_bad=True).bad_rows] == [6]


def test_the_user_can_say_that_rows_are_in_order_or_have_none():
    frame = table(day=shuffled(DAYS))
    assert read(frame, is_ordered=True).order == Order(OrderKind.GIVEN)
    unordered = read(frame, is_ordered=False)
    assert unordered.order == Order(OrderKind.UNORDERED)
    assert unordered.frame["day"].to_list() == frame["day"].to_list()


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"day": DAYS}, []),
        ({"day": DAYS[::-1]}, ["day"]),
        ({"day": shuffled(DAYS)}, ["day"]),
        ({"day": DAYS, "born": DAYS[::-1]}, []),  # another date may have any order beside one that rises
    ],
)
def test_dates_that_are_not_in_order_are_told_where_the_rows_are_said_to_be(columns, told):
    found = remarks_of(read(table(**columns), is_ordered=True))
    assert [column for kind, column in found if kind == "order"] == told
    assert all(kind != "order" for kind, _ in remarks_of(read(table(**columns), is_ordered=False)))


# --- held-out rows ----------------------------------------------------------------------------------------------


def error(frame: pl.DataFrame, *, is_ordered: bool = True) -> float | None:
    reference = read(frame, is_ordered=is_ordered)
    split = reference.split()
    found = hold_out_rows(reference, lambda _: [partial(AdaptiveClassifier(standardize=False).fit, order=False)], split)
    if found is None:
        return None
    rows = np.concatenate([rest for _, rest in split])
    return np.mean(np.unique(reference.y)[found[0].argmax(axis=1)] != reference.y[rows])


def test_cross_validation_in_order_of_time_predicts_blocks_from_the_blocks_before():
    random = np.random.default_rng(3)
    x = random.normal(size=500)
    # The relation of x and y turns round at three fifths of the rows; one label in twenty is wrong.
    sign = np.where((np.arange(500) < 300) ^ (random.random(500) < 0.05), 1.0, -1.0)
    frame = pl.DataFrame({"x": x, "y": np.where(x * sign > 0, "a", "b")})
    # Rows up to the turn are predicted right; the next block follows it, and the last still has most rows before it.
    assert error(frame) == pytest.approx(2 / 3, abs=0.05)
    assert error(frame, is_ordered=False) == pytest.approx(0.4, abs=0.05)


def test_a_class_that_comes_late_is_an_error_until_it_has_been_seen_and_too_few_rows_have_no_error():
    # Blocks: 10 rows right and 10 wrong; two blocks of b, of which the fits have seen 10 and 30 rows.
    found = error(pl.DataFrame({"x": np.arange(100.0) % 7, "y": ["a"] * 50 + ["b"] * 50}))
    assert 10 / 60 <= found <= 50 / 60
    # No column of the first rows is usable.
    assert error(pl.DataFrame({"x": [1.0] * 60 + [2.0] * 40, "y": ["a", "b"] * 50})) is None


# --- the time that it covers ------------------------------------------------------------------------------------

START = datetime(2024, 5, 31, 8, 0)
BY_TIME = Order(OrderKind.TIMES, column="time")


@pytest.mark.parametrize(
    ("hours", "order", "covered"),
    [
        (range(10), BY_TIME, "day, 2024-05-31 08:00 to 2024-05-31 17:00."),
        (range(72), BY_TIME, "week, 2024-05-31 08:00 to 2024-06-03 07:00."),
        (range(24), BY_TIME, "week"),
        (range(0, 5 * 24, 24), BY_TIME, None),  # working days
        (range(24 * 30), BY_TIME, None),
        ([0] * 5, BY_TIME, None),
        (range(0, 2_000, 720), BY_TIME, None),
        (range(10), Order(OrderKind.UNORDERED), None),
    ],
)
@pytest.mark.parametrize("as_text", [False, True], ids=["typed", "texts"])
def test_less_than_a_day_or_a_week_is_remarked_on(hours, order, covered, as_text):
    times = pl.Series("time", [START + timedelta(hours=hour) for hour in hours])
    frame = pl.DataFrame([times.dt.strftime("%Y-%m-%d %H:%M") if as_text else times])
    found = [remark.text for remark in remarks_on_span(frame, order)]
    assert len(found) == (covered is not None)
    assert all(f"less than a {covered}" in text for text in found)
    assert not remarks_on_span(pl.DataFrame({"step": [1, 2, 3]}), Order(OrderKind.TIMES, column="step"))


def test_a_reference_tells_what_it_covers():
    times = [str(START + timedelta(minutes=minute)) for minute in range(N_DAYS)]
    texts = [remark.text for remark in read(table(time=times)).remarks]
    assert [text for text in texts if "2024-05-31 08:00 to 2024-05-31 08:59" in text]


# --- copies of rows ---------------------------------------------------------------------------------------------


def repeats(*parts: pl.DataFrame, is_whole: bool = True) -> list[str]:
    frame = pl.concat(parts)
    found = remarks_on_repeats(frame.drop("label"), frame["label"].to_numpy(), is_whole=is_whole)
    return [remark.text for remark in found]


@pytest.fixture(scope="module")
def reference():
    return make_tables()[0]


def test_a_file_that_was_joined_with_itself_is_remarked_on_from_a_tenth_of_the_rows(reference):
    for is_whole in (True, False):
        (text,) = repeats(reference, reference, is_whole=is_whole)
        assert text.startswith("300 of the 600 ")
    assert not repeats(reference[:270], reference[:30])
    assert repeats(reference[:269], reference[:31])[0].startswith("31 of the 300 ")
    assert not repeats(reference[:14], reference[:14])  # too few rows
    for column in ("id", "label"):  # an id, a time or a label makes rows different
        given = reference.with_columns(pl.col(column).cast(pl.String))
        assert not repeats(given, given.with_columns(pl.col(column) + " again"))


def test_rows_of_few_categories_are_not_copies_if_other_columns_are_dropped():
    for n_levels in (2, 4, 9, 14, 20):
        values = np.random.default_rng(n_levels).integers(0, n_levels, size=(400, 2))
        texts = [f"v{value}" for value in values[:, 1]]
        frame = pl.DataFrame({"a": values[:, 0], "b": texts, "label": values[:, 0] % 2})
        assert frame.n_unique() < 0.9 * frame.height
        assert repeats(frame)
        assert not repeats(frame, is_whole=False)
