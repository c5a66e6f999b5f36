"""A reference of less than a day or a week is remarked on; one of whole weeks, and one without dates, is not."""

from datetime import datetime, timedelta

import polars as pl
import pytest

from accous.cli import main
from accous.table.checks import NO_ORDER, RowOrder, remarks_on_span

START = datetime(2024, 5, 31, 8, 0)


def remarks(hours, *, order=None, as_text=False):
    times = pl.Series("time", [START + timedelta(hours=hour) for hour in hours])
    frame = pl.DataFrame([times.dt.strftime("%Y-%m-%d %H:%M") if as_text else times])
    return [remark.text for remark in remarks_on_span(frame, order or RowOrder("time", "time"))]


@pytest.mark.parametrize("as_text", [False, True], ids=["typed", "texts"])
def test_a_part_of_a_day_leaves_hours_out(as_text):
    (text,) = remarks(range(10), as_text=as_text)
    assert text.startswith(
        "The reference covers less than a day, 2024-05-31 08:00 to 2024-05-31 17:00. Rows of other h"
    )


def test_a_part_of_a_week_leaves_weekdays_out():
    (text,) = remarks(range(72))
    assert text.startswith("The reference covers less than a week, 2024-05-31 08:00 to 2024-06-03 07:00. Rows of other")


def test_a_whole_day_is_not_called_a_part_of_it():
    assert "less than a week" in remarks(range(24))[0]


@pytest.mark.parametrize(
    "hours",
    [range(0, 5 * 24, 24), range(24 * 30), [0] * 5, range(0, 2_000, 720)],
    ids=["working days", "month", "one", "months"],
)
def test_whole_weeks_and_a_single_time_are_not_remarked_on(hours):
    assert not remarks(hours)


def test_numbers_and_rows_in_no_order_have_no_span():
    assert not remarks(range(10), order=NO_ORDER)
    assert not remarks_on_span(pl.DataFrame({"step": [1, 2, 3]}), RowOrder("time", "step"))


def test_fit_prints_the_remark(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    times = [START + timedelta(minutes=minute) for minute in range(60)]
    values = [float(minute % 7) for minute in range(60)]
    frame = pl.DataFrame({"time": times, "x": values, "label": [value > 3 for value in values]})
    frame.write_csv("reference.csv")
    assert main(["fit", "reference.csv", "--label", "label", "-o", "model"]) == 0
    assert "The reference covers less than a day, 2024-05-31 08:00 to 2024-05-31 08:59." in capsys.readouterr().err
