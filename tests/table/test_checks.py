"""Traps in tables: what is left out, what is only told, and what stays."""

import numpy as np
import polars as pl
import pytest

from accous.exceptions import DataError
from accous.table.columns import Choices
from accous.table.fit import ReferenceTable, read_reference
from accous.table.readers import open_table

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


def read(columns: dict, labels=LABELS, *, is_ordered: bool | None = None, **choices) -> ReferenceTable:
    pl.DataFrame({**columns, "x": X, "y": labels}).write_csv("rows.csv")
    return read_reference(open_table("rows.csv"), "y", Choices(**choices), skips_bad=False, is_ordered=is_ordered)


@pytest.mark.parametrize(
    ("name", "values", "kind", "text"),
    [
        ("when", np.where(X > 0, "July", "August"), "calendar", "2 of the 12 months (August, July)"),
        ("Month", np.where(X > 0, "Feb", "Mar"), "calendar", "2 of the 12 months"),
        ("Month", np.array(["FEB", "Feb.", "mar"])[SHUFFLED % 3], "calendar", "2 of the 12 months (FEB, mar)"),
        ("on", np.where(X > 0, "mon", "tue"), "calendar", "2 of the 7 weekdays"),
        ("time_of_year", np.where(X > 0, "Spring", "Summer"), "calendar", "2 of the 4 seasons"),
        ("season", 1 + SHUFFLED % 2, "calendar", "2 of the 4 seasons (1, 2)"),
        ("day_of_week", SHUFFLED % 3, "calendar", "3 of the 7 weekdays"),
        ("month_no", 1 + SHUFFLED % 5, "calendar", "5 of the 12 months (1, 2, 3, 4, ...)"),
        ("week_number", 20 + SHUFFLED % 9, "calendar", "9 of the 53 weeks"),
        ("agent", SHUFFLED % 40, "code", "--categorical agent or --drop agent"),
        ("StoreCode", 7 * (SHUFFLED % 40), "code", "40 different whole numbers"),
    ],
)
def test_parts_of_a_calendar_and_codes_stay_with_a_remark(name, values, kind, text):
    reference = read({name: values})
    assert [(remark.kind, remark.column) for remark in reference.remarks] == [(kind, name)]
    assert text in reference.remarks[0].text
    assert name in reference.encoder.used_columns
    assert not read({name: values}, keep=(name,)).remarks


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
        ("season", 2010 + SHUFFLED % 3),
    ],
)
def test_whole_calendars_and_amounts_get_no_remark(name, values):
    assert not read({name: values}).remarks


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("step", ROWS, "counter"),
        ("share", ROWS // 10 / 19, "counter"),
        ("meter", 1000 - np.cumsum(np.abs(X)), "counter"),
        ("customer_id", SHUFFLED * 37, "id"),
        ("CustomerID", SHUFFLED * 37, "id"),
        ("anything", SHUFFLED, "id"),
        ("", SHUFFLED * 5, "id"),
        ("Unnamed: 0", SHUFFLED * 5, "id"),
        ("token", [f"t{row * 7919 % 1000:03}" for row in ROWS], "id"),
        ("at", 1_700_000_000 + 60 * SHUFFLED + 0.5, "time"),
        ("at_ms", (1_700_000_000 + 60 * SHUFFLED) * 1000, "time"),
        ("on", [20240101 + 100 * (row % 12) + row % 28 for row in SHUFFLED], "time"),
        ("Year", 2019 + SHUFFLED % 4, "time"),
    ],
)
def test_ids_counters_and_times_are_left_out_with_a_remark(name, values, kind):
    reference = read({name: values})
    shown = name or "column_1"
    assert [(remark.kind, remark.column) for remark in reference.remarks] == [(kind, shown)]
    assert f"Column {shown!r} is left out: " in reference.remarks[0].text
    assert reference.encoder.used_columns == ["x"]
    assert reference.X.shape == (N_ROWS, 1)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("income", INCOMES),
        ("id_photo_width", 600 + SHUFFLED % 50),
        ("temperature", ROWS / 20 + RANDOM.normal(size=N_ROWS)),
        ("hour", ROWS % 24),
        ("model_year", 1990 + SHUFFLED % 30),
        ("altitude", 1900 + SHUFFLED % 150),
        ("price", np.where(SHUFFLED % 2 == 0, 7e8, 8e8)),
        ("reading", 20241301 + SHUFFLED % 60),
    ],
)
def test_measurements_stay_features(name, values):
    reference = read({name: values})
    assert reference.remarks == []
    assert name in reference.encoder.used_columns


def test_a_column_that_would_be_left_out_can_be_kept_or_read_as_a_category():
    assert read({"step": ROWS}, keep=("step",)).encoder.used_columns == ["step", "x"]
    assert read({"step": ROWS // 20}, categorical=("step",)).encoder.used_columns == ["step", "x"]


def test_rows_without_order_have_no_counters_but_ids():
    columns = {"share": ROWS // 10 / 19, "step": ROWS}
    assert [remark.kind for remark in read(columns).remarks] == ["counter", "counter"]
    assert [(remark.kind, remark.column) for remark in read(columns, is_ordered=False).remarks] == [("id", "step")]


def test_counters_are_found_in_the_order_of_time_not_of_the_file():
    columns = {"when": SHUFFLED + 0.5, "share": SHUFFLED // 10 / 19}
    assert [remark.column for remark in read(columns, time="when").remarks] == ["share"]
    assert [remark.column for remark in read(columns, drop=("when",)).remarks] == []


def test_a_few_rows_have_no_traps():
    pl.DataFrame({"id": range(20), "y": [0, 1] * 10}).write_csv("rows.csv")
    reference = read_reference(open_table("rows.csv"), "y", Choices(), skips_bad=False)
    assert reference.encoder.used_columns == ["id"]
    assert reference.remarks == []


def test_a_table_of_counters_alone_is_refused():
    pl.DataFrame({"id": ROWS, "y": LABELS}).write_csv("rows.csv")
    with pytest.raises(DataError, match="an id or a counter"):
        read_reference(open_table("rows.csv"), "y", Choices(), skips_bad=False)


@pytest.mark.parametrize("values", [np.where(LABELS == "yes", "paid", "open"), np.where(LABELS == "yes", X**2 + 1, -1)])
def test_a_column_that_gives_the_label_away_stays_with_a_remark(values):
    reference = read({"outcome": values})
    assert [(remark.kind, remark.column) for remark in reference.remarks] == [("label", "outcome")]
    assert "alone predicts the label of 100.0% of the rows" in reference.remarks[0].text
    assert "outcome" in reference.encoder.used_columns
    assert read({"outcome": values}, drop=("outcome",)).remarks == []


def test_a_class_with_few_rows_is_named():
    labels = np.where(ROWS < 9, "odd", LABELS)
    texts = [remark.text for remark in read({}, labels).remarks]
    assert len(texts) == 1
    assert "Class 'odd' has only 9 rows" in texts[0]
    assert read({}, np.where(ROWS < 10, "odd", LABELS)).remarks == []


SORTED = {
    "price": np.sort(np.exp(X)).round(6),
    "height": np.sort(170.0 + 10.0 * X).round(6)[::-1],
    "stage": 4 + ROWS // 70,
}


@pytest.mark.parametrize("name", SORTED)
def test_a_column_that_the_table_is_merely_sorted_by_stays_with_a_remark(name):
    """Without a known order, only a column that rises evenly is a counter."""
    reference = read({name: SORTED[name]})
    assert reference.encoder.used_columns == [name, "x"]
    assert [(remark.kind, remark.column) for remark in reference.remarks] == [("sorted", name)]
    assert "say --ordered, and it is left out" in reference.remarks[0].text
    ordered = read({name: SORTED[name]}, is_ordered=True)
    assert [(remark.kind, remark.column) for remark in ordered.remarks] == [("counter", name)]
    assert ordered.encoder.used_columns == ["x"]
    unordered = read({name: SORTED[name]}, is_ordered=False)
    assert (unordered.remarks, unordered.encoder.used_columns) == ([], [name, "x"])


def test_a_date_column_makes_the_order_known_and_a_rising_column_a_counter():
    days = [f"2024-{1 + row // 28:02}-{1 + row % 28:02}" for row in ROWS]
    reference = read({"day": days, "price": SORTED["price"]})
    assert ("counter", "price") in [(remark.kind, remark.column) for remark in reference.remarks]
    assert "price" not in reference.encoder.used_columns
