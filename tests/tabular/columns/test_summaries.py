"""Columns that are numbered share a line; all others have one of their own."""

from accous.cli.options import columns_table
from accous.table.columns import CategoryColumn, LeftOutColumn, NumberColumn, shown_lines, summarize


def number(name: str, mean: float = 0.0) -> NumberColumn:
    return NumberColumn(name, 0.0, mean, 2.0, True)


def test_few_columns_have_a_line_each():
    plans = [number(f"x{place}") for place in range(12)]
    lines = summarize(plans)
    assert [line.columns for line in lines] == [plan.name for plan in plans]
    assert [line.what for line in lines] == [plan.summary() for plan in plans]


def test_many_share_one_and_what_is_different_does_not():
    plans = [number("age"), *(number(f"v_{place}", place) for place in range(400))]
    plans[9] = LeftOutColumn("v_8", "always the same value")
    category = CategoryColumn(name="v_400", levels=["a"], has_other=False, has_missing=False, rare=[], n_rare=0)
    plans += [category, number("w_401"), number("w_403")]
    lines = summarize(plans)
    assert [line.columns for line in lines] == ["age", "v_0 to v_399", "v_400", "w_401", "w_403"]
    assert lines[1].kind == "399 numbers"
    assert lines[1].n_features == 2 * 399
    assert lines[1].what == (
        "each (x - mean) / deviation: means 0 to 399, deviations 2 to 2; 1 left out: always the same value"
    )


def test_a_table_for_the_terminal_ends():
    plans = [number(f"{place} of many") for place in range(300)]
    table = columns_table(shown_lines(plans))
    assert table.row_count == 61
    assert list(table.columns[0].cells)[-1].plain == "240 more"
    assert list(table.columns[2].cells)[-1] == str(2 * 240)
