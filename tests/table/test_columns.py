"""What is done with each column is decided by the reference, explicit, and the same after it was saved."""

import json
import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accous.exceptions import DataError
from accous.table.checks import remarks_on_repeats
from accous.table.columns import (
    DATE_FORMS,
    CategoryColumn,
    Choices,
    ColumnEncoder,
    DateColumn,
    LeftOutColumn,
    NumberColumn,
    PlainColumns,
    PlainRowEncoder,
    date_form,
    frame_of_rows,
    places_of_categories,
    plan_column,
    shown_lines,
    summarize,
)
from accous.table.readers import count_times, to_texts
from accous.table.rows import features_from_json, features_to_json

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


@pytest.mark.parametrize(
    ("first", "last", "cycles"),
    [
        ("2024-01-01 00:00", "2024-01-03 00:30", ["day"]),
        ("2024-01-01 00:00", "2024-01-14 12:00", ["day"]),
        ("2024-01-01 00:00", "2024-12-31 12:00", ["week", "day"]),
        ("2024-01-01 00:00", "2026-01-01 00:30", ["year", "week", "day"]),
    ],
)
def test_a_date_is_a_position_in_cycles_that_repeat_in_the_reference(first, last, cycles):
    column = pl.Series("day", [first, last] * 20)
    assert plan_column(column, Choices()).cycles == cycles


def test_columns_are_read_as_what_they_are(encoder):
    plans = {plan.name: plan for plan in encoder.plans}
    assert isinstance(plans["number"], NumberColumn)
    assert plans["number"].marks_missing
    assert isinstance(plans["level"], CategoryColumn)
    assert sorted(plans["level"].levels) == ["a", "b", "c"]
    assert (plans["level"].has_other, plans["level"].n_rare) == (True, 4)
    assert plans["day"] == DateColumn("day", "%Y-%m-%d", ["week"])
    assert plans["moment"].cycles == ["week", "day"]  # the reference spans eleven months
    left_out = {name for name, plan in plans.items() if isinstance(plan, LeftOutColumn)}
    assert left_out == {"constant", "zero", "nothing", "name"}


def test_features_are_finite_scaled_and_survive_json(encoder):
    features = encoder.encode(REFERENCE)
    assert features.X.shape == (N_ROWS, len(encoder.feature_names))
    assert np.isfinite(features.X).all()
    assert features.X[:, 0].mean() == pytest.approx(0.0, abs=1e-12)
    assert features.X[:, 0].std() == pytest.approx(1.0)
    again = ColumnEncoder.from_json(json.loads(json.dumps(encoder.to_json())))
    assert again == encoder
    assert np.array_equal(again.encode(REFERENCE).X, features.X)
    for row in range(0, N_ROWS, 23):  # one by one as all at once
        assert np.array_equal(encoder.encode(REFERENCE[row : row + 1]).X[0], features.X[row])


def test_unknown_levels_share_the_feature_of_rare_ones_and_extreme_numbers_stay_finite(encoder):
    row = REFERENCE[:1].with_columns(level=pl.lit("unheard of"), number=pl.lit("1e300"))
    features = encoder.encode(row)
    assert features.X[0, encoder.feature_names.index("level = (other)")] == 1.0
    assert np.isfinite(features.X).all()
    assert features.n_unknown.tolist() == [1]
    assert encoder.encode(REFERENCE[:1]).n_unknown.tolist() == [0]


def test_dates_without_their_cycle_in_the_reference_are_left_out():
    frame = pl.DataFrame({"x": texts(range(40)), "day": texts([f"2024-01-0{1 + row % 3}" for row in range(40)])})
    assert isinstance(ColumnEncoder.learn(frame, Choices()).plans[1], LeftOutColumn)


def test_numbers_that_are_too_large_are_refused_before_anything_is_computed_with_them():
    with pytest.raises(DataError, match="1e\\+308"):
        ColumnEncoder.learn(pl.DataFrame({"age": [1e308] * 6 + [2.0, 3.0]}), Choices())


def test_what_the_user_decides_is_done():
    encoder = ColumnEncoder.learn(REFERENCE, Choices(drop=("level",), categorical=("number",)))
    plans = {plan.name: plan for plan in encoder.plans}
    assert isinstance(plans["number"], CategoryColumn)
    assert isinstance(plans["level"], LeftOutColumn)
    with pytest.raises(DataError, match="'more'"):
        ColumnEncoder.learn(REFERENCE, Choices(drop=("more",)))


# --- what is said of them ---------------------------------------------------------------------------------------


def number(name: str, mean: float = 0.0) -> NumberColumn:
    return NumberColumn(name, 0.0, mean, 2.0, True)


@pytest.mark.parametrize(("mean", "shown"), [(0.5, "(x - 0.5) / 2"), (-0.01696, "(x + 0.01696) / 2")])
def test_a_mean_below_zero_is_added(mean, shown):
    assert number("a", mean).summary().startswith(shown)


def test_few_columns_have_a_line_each_and_many_that_are_numbered_share_one():
    plans = [number(f"x{place}") for place in range(12)]
    lines = summarize(plans)
    assert [(line.columns, line.what) for line in lines] == [(plan.name, plan.summary()) for plan in plans]
    plans = [number("age"), *(number(f"v_{place}", place) for place in range(400))]
    plans[9] = LeftOutColumn("v_8", "always the same value")
    category = CategoryColumn(name="v_400", levels=["a"], has_other=False, has_missing=False, rare=[], n_rare=0)
    plans += [category, number("w_401"), number("w_403")]
    lines = summarize(plans)
    assert [line.columns for line in lines] == ["age", "v_0 to v_399", "v_400", "w_401", "w_403"]
    assert (lines[1].kind, lines[1].n_features) == ("399 numbers", 2 * 399)
    assert "0 to 399" in lines[1].what


def test_lines_for_the_terminal_end():
    lines = shown_lines([number(f"{place} of many") for place in range(300)])
    assert len(lines) == 61
    assert (lines[-1][0], lines[-1][2]) == ("240 more", str(2 * 240))


# --- columns for trees ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mixed() -> pl.DataFrame:
    random = np.random.default_rng(3)
    return pl.DataFrame(
        {
            "size": [None if row % 7 == 0 else float(row % 11) for row in range(N_ROWS)],
            "colour": random.choice(["red", "blue", "green"], N_ROWS),
            "weight": random.normal(size=N_ROWS),
            "maker": [None if row % 9 == 0 else f"m{row % 4}" for row in range(N_ROWS)],
            "day": [f"2024-{1 + row // 20:02d}-{1 + row % 20:02d}" for row in range(N_ROWS)],
        }
    )


def test_every_column_is_one_again_and_what_was_missing_is_missing(mixed):
    encoder = ColumnEncoder.learn(mixed, Choices())
    plain = PlainColumns(encoder.blocks).fit_transform(encoder.encode(mixed).X)
    n_date = len(encoder.feature_names) - (2 + 3 + 1 + 5)
    assert plain.shape == (N_ROWS, 4 + n_date)
    np.testing.assert_array_equal(np.isnan(plain[:, 0]), mixed["size"].is_null().to_numpy())
    there = ~np.isnan(plain[:, 0])
    # A number keeps its order.
    assert np.corrcoef(plain[there, 0], mixed["size"].to_numpy()[there])[0, 1] > 0.999999
    for column, name in ((1, "colour"), (3, "maker")):
        codes, levels = plain[:, column].tolist(), mixed[name].fill_null("(missing)").to_list()
        # One code for each level, missing ones included, and one level for each code.
        assert len({*zip(codes, levels, strict=True)}) == len({*levels}) == len({*codes})
    assert places_of_categories(encoder.blocks) == [1, 3]
    # A category that the reference does not have is missing.
    new = mixed[:3].with_columns(pl.lit("violet").alias("colour"))
    assert np.isnan(PlainColumns(encoder.blocks).fit_transform(encoder.encode(new).X)[:, 1]).all()


@pytest.mark.parametrize("n_levels", [7, 8, 9, 30])
def test_trees_read_many_levels_as_ranks_by_frequency(n_levels):
    random = np.random.default_rng(n_levels)
    levels = [f"level {number}" for number in random.permutation(n_levels)]
    column = pl.Series("c", random.permutation([level for place, level in enumerate(levels) for _ in range(6 + place)]))
    frame = pl.DataFrame({"x": np.arange(float(len(column))), "c": column})
    encoder = ColumnEncoder.learn(frame, Choices())
    codes = PlainColumns(encoder.blocks).fit_transform(encoder.encode(frame).X)[:, 1]
    counts = [int((column == level).sum()) for level in column]
    slow = [len({other for other in counts if other > own}) for own in counts]
    np.testing.assert_array_equal(codes, slow)
    assert places_of_categories(encoder.blocks) == ([1] if n_levels <= 8 else [])
    assert ("rank by frequency" in encoder.plans[1].summary()) is (n_levels > 8)
    again = ColumnEncoder.from_json(json.loads(json.dumps(encoder.to_json())))
    assert again.blocks == encoder.blocks


@pytest.mark.parametrize(
    ("values", "what", "option_helps"),
    [
        ([f"person {row}" for row in range(N_ROWS)], "200 different values", False),
        (["Smith" if row % 3 == 0 else f"name {row}" for row in range(N_ROWS)], "134 different values", True),
        ([None if row % 50 else "holiday" for row in range(N_ROWS)], "4 rows of 200", False),
        ([f"the parcel number {row} came too late" for row in range(N_ROWS)], "free text: 7 words", False),
    ],
    ids=["names", "some frequent", "nearly empty", "sentences"],
)
def test_texts_are_left_out_with_what_they_are(values, what, option_helps):
    frame = pl.DataFrame({"x": np.arange(float(N_ROWS)), "c": texts(values)})
    plan = ColumnEncoder.learn(frame, Choices()).plans[1]
    assert isinstance(plan, LeftOutColumn)
    assert what in plan.reason
    assert ("--categorical c" in plan.reason) is option_helps
    # The option that the reason names does what it says, and where it names none, the option would not help.
    forced = ColumnEncoder.learn(frame, Choices(categorical=("c",))).plans[1]
    assert isinstance(forced, CategoryColumn) is option_helps


def test_numbers_alone_are_passed_on():
    X = np.arange(6.0).reshape(3, 2)
    assert PlainColumns((("numbers", 1), ("numbers", 1))).fit_transform(X) is X


# --- rows of plain values: without a frame, the features have the bits that a frame gives, or there are none ----


@pytest.fixture(scope="module")
def quick_encoder() -> ColumnEncoder:
    random = np.random.default_rng(3)
    frame = pl.DataFrame(
        {
            "a": random.normal(size=60) * 1e3 + 7,
            "colour": [*["red", "blue"] * 29, "green", "grey"],
            "gaps": [None if number % 7 == 0 else number / 3 for number in range(60)],
            "same": [5] * 60,
        }
    )
    return ColumnEncoder.learn(frame, Choices()).with_records(frame)


@pytest.fixture(scope="module")
def encoder_of_numbers() -> ColumnEncoder:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"a": rng.normal(3.0, 1e-3, size=50), "b": rng.integers(0, 9, size=50)})
    return ColumnEncoder.learn(frame, Choices()).with_records(frame)


NUMBERS = st.one_of(
    st.floats(allow_nan=False), st.integers(), st.booleans(), st.none(), st.sampled_from(["7", "x", ""])
)
TEXTS = st.one_of(
    st.sampled_from(["red", "blue", "green", "grey", "pink", " red", "NA", "nan"]),
    # As any text, which Hypothesis would make by encoding every character there is.
    st.text(st.characters(exclude_categories=["Cs"])),
    st.integers(),
)
PLAIN_ROW = st.fixed_dictionaries(
    {"a": NUMBERS, "colour": TEXTS, "gaps": NUMBERS}, optional={"same": NUMBERS, "other": TEXTS}
)


@given(rows=st.lists(PLAIN_ROW, min_size=1, max_size=4))
def test_the_bits_are_those_of_a_frame_or_there_are_none(quick_encoder, rows):
    quick = PlainRowEncoder(quick_encoder).encode(rows)
    whole = quick_encoder.encode(frame_of_rows(rows, ["a", "gaps"], ["colour", "same"]))
    if quick is None:
        return
    assert whole.bad_values == []
    assert quick.X.tobytes() == whole.X.tobytes()
    assert quick.marks.hits.tobytes() == whole.marks.hits.tobytes()
    assert quick.marks.hits.shape == whole.marks.hits.shape
    assert quick.marks.values == whole.marks.values == {}
    assert quick.n_missing.tolist() == whole.n_missing.tolist()
    assert quick.n_unknown.tolist() == whole.n_unknown.tolist()


@given(row=st.fixed_dictionaries({"a": NUMBERS, "b": NUMBERS}))
def test_the_bits_of_a_row_of_numbers_are_those_of_a_frame(encoder_of_numbers, row):
    quick = PlainRowEncoder(encoder_of_numbers).encode([row])  # a single row of numbers: without arrays
    if quick is None:
        assert any(type(value) not in (int, float) or not is_finite(value) for value in row.values())
        return
    whole = encoder_of_numbers.encode(frame_of_rows([row], ["a", "b"], []))
    assert whole.bad_values == []
    assert quick.X.tobytes() == whole.X.tobytes()
    assert quick.X.shape == whole.X.shape


def is_finite(value) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


GOOD = {"a": 1, "colour": "red", "gaps": 1}


def test_numbers_and_known_categories_need_no_frame(quick_encoder):
    found = PlainRowEncoder(quick_encoder).encode([GOOD, {"a": 2.5, "colour": "grey", "gaps": 0}])
    assert found.X.shape == (2, len(quick_encoder.feature_names))


@pytest.mark.parametrize(
    "change",
    [
        *({"a": value} for value in (None, "7", True, float("inf"), 10**400)),
        *({"colour": value} for value in ("pink", 3)),
        {"same": 6},
    ],
    ids=json.dumps,
)
def test_anything_else_needs_one(quick_encoder, change):
    assert PlainRowEncoder(quick_encoder).encode([GOOD | change]) is None
    assert PlainRowEncoder(quick_encoder).encode([{"a": 1, "colour": "red"}]) is None


def test_a_value_does_not_depend_on_the_other_rows():
    frame = frame_of_rows([{"a": 7, "b": 7}, {"a": 7.5, "b": "x"}, {"a": True, "b": 7.0}], ["a"], ["b"])
    assert frame["a"].to_list() == [7.0, 7.5, 1.0]
    assert frame["b"].to_list() == ["7", "x", "7.0"]


# --- what the reference had -------------------------------------------------------------------------------------


def test_records_survive_json() -> None:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"age": rng.uniform(18, 90, 300), "c": [1] * 300, "note": [None] * 300})
    encoder = ColumnEncoder.learn(frame, Choices()).with_records(frame)
    content = json.loads(json.dumps(encoder.to_json()))
    assert ColumnEncoder.from_json(content) == encoder
    assert encoder.constants.keys() == {"c", "note"}
    dropped = ColumnEncoder.learn(frame, Choices(drop=("c",))).with_records(frame)
    assert "c" not in dropped.constants


# --- what labelled rows add ---------------------------------------------------------------------------------------


def test_labelled_rows_add_what_a_fit_on_them_would_read():
    n = 40
    frame = pl.DataFrame(
        {
            "kind": ["a", "b"] * (n // 2 - 1) + ["rare", "a"],
            "x": np.linspace(0.0, 1.0, n),
            "always": [3.0] * n,
            "word": ["same"] * n,
            "day": [f"2024-01-{1 + row % 20:02d}" for row in range(n)],
        }
    )
    encoder = ColumnEncoder.learn(frame, Choices()).with_records(frame)
    labelled = pl.DataFrame(
        {
            "kind": ["new"] * 10 + ["rare"] * 10 + ["once"] + ["a"] * 19,
            "x": [None] * 8 + [0.5] * 32,
            "always": ["3", "5"] * 20,
            "word": ["same", "other"] * 20,
            "day": [f"{2024 + row % 3}-03-01" for row in range(n)],
        }
    )
    wide = encoder.with_extra(labelled)
    names = [name for plan in wide.extra for name in plan.feature_names]
    assert names == [
        "kind = new",
        "kind = rare",
        "x = (missing)",
        "day: sine of year",
        "day: cosine of year",
        "always",
        "word = other",
    ]
    n_narrow = len(encoder.feature_names)
    assert not wide.encode(frame.drop("day").with_columns(day=pl.lit(None, pl.String))).X[1:-2, n_narrow:].any()
    found = wide.encode(labelled).X[:, n_narrow:]
    assert found[:, [0, 1, 2, 6]].sum(axis=0).tolist() == [10, 10, 8, 20]
    assert (found[::2, 5] == 0.0).all()
    assert (found[1::2, 5] > 0.0).all()
    assert np.array_equal(wide.encode(labelled.drop("always", "word")).X[:, n_narrow : n_narrow + 5], found[:, :5])
    again = features_from_json(pl.Series(features_to_json(labelled, wide)), wide)
    assert np.array_equal(again.X, wide.encode(labelled).X)


def test_typed_numbers_are_remembered_as_those_of_a_text_are():
    typed = pl.DataFrame({"^a.*$": [1.5, math.nan, None, 3.0], "b*": [2, None, 7, 8]})
    plans = tuple(NumberColumn(name, 0.0, 0.0, 1.0, True) for name in typed.columns)
    expected = [
        '{"^a.*$":1.5,"b*":2.0}',
        '{"^a.*$":null,"b*":null}',
        '{"^a.*$":null,"b*":7.0}',
        '{"^a.*$":3.0,"b*":8.0}',
    ]
    for frame in (typed, typed.cast(pl.String)):
        assert features_to_json(frame, ColumnEncoder(plans)).to_list() == expected


def test_what_a_table_costs_grows_with_its_columns_and_not_with_their_square(monkeypatch):
    """To ask a frame for its schema costs as much as it has columns."""
    n_asked, schema = [0], pl.DataFrame.schema
    monkeypatch.setattr(pl.DataFrame, "schema", property(lambda frame: n_asked.append(1) or schema.fget(frame)))
    for n_columns in (30, 60):
        frame = pl.DataFrame({f"x{number}": np.arange(200.0) * number % 7 for number in range(n_columns)})
        remarks_on_repeats(frame, np.arange(200), is_whole=True)
        encoder = ColumnEncoder.learn(frame, Choices())
        features_to_json(frame[: len(encoder.encode(frame).X)], encoder)
        n_asked.append(-1)
    before, after = "".join(map(str, n_asked)).removeprefix("0").split("-1")[:2]
    assert before == after


@given(st.lists(st.sampled_from(["2024-01-31", "31.1.2024", "17", "?", "word", "1 2 3", ""]), max_size=40))
def test_a_look_at_a_few_texts_finds_the_dates_that_a_look_at_all_finds(values):
    found = to_texts(texts(values))
    readable = count_times(found, DATE_FORMS)
    best = max(readable, key=lambda form: readable[form])
    expected = best if readable[best] >= max(1.0, 0.9 * len(found.drop_nulls())) else None
    assert date_form(texts(values), found) == expected
