"""Tables in every format: read exactly and in pieces, taken up after any row; what is no table is refused."""

import csv
import io
from contextlib import suppress
from datetime import time, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accous.exceptions import DataError, ParameterError
from accous.table import readers
from accous.table.readers import (
    Position,
    RecordCutter,
    open_table,
    panics_as_errors,
    require_usable,
    require_widths,
    to_numbers,
    to_texts,
    to_times,
    with_labels,
)
from accous.table.runs import RoundRule

ROWS = np.random.default_rng(0).normal(size=(23, 3)) * 100
NAMES = ["embedding_0", "embedding_1", "embedding_2"]
FIELDS = st.text(alphabet='ab1",\n ü', max_size=6)


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(readers, "_MOST_VALUES", 15)  # pieces of five rows of an embedding


def chunks_of(path: str, columns: list[str] | None = None, position: Position | None = None) -> list:
    table = open_table(path)
    return list(table.chunks(table.columns if columns is None else columns, position or Position()))


def values_of(chunks: list) -> np.ndarray:
    return np.vstack([chunk.frame.to_numpy() for chunk in chunks])


def bad_rows_of(chunks: list) -> list:
    return [(bad.line, bad.column) for chunk in chunks for bad in chunk.bad_rows]


# --- texts ------------------------------------------------------------------------------------------------------


@given(
    table=st.lists(st.lists(FIELDS, min_size=2, max_size=4), max_size=8),
    cuts=st.lists(st.integers(0, 200), max_size=6),
    is_quoted=st.booleans(),
)
def test_records_and_widths_are_those_of_the_csv_module(table, cuts, is_quoted):
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL if is_quoted else csv.QUOTE_MINIMAL).writerows(table)
    content = text.getvalue().encode()
    cutter, found = RecordCutter(","), []
    places = sorted({min(cut, len(content)) for cut in cuts} | {0, len(content)})
    for start, stop in pairwise(places):
        records = cutter.feed(content[start:stop])
        texts = [records.raw(number).decode() for number in range(len(records))]
        found += zip(texts, records.widths.tolist(), records.lines.tolist(), strict=True)
    assert not cutter.has_rest
    assert [next(csv.reader(io.StringIO(raw, newline=""))) for raw, _, _ in found] == table
    assert [width for _, width, _ in found] == [len(row) for row in table]
    ends = np.cumsum([raw.count("\n") + 1 for raw, _, _ in found])
    assert [line for _, _, line in found] == [1, *(1 + ends[:-1])][: len(found)]


@given(table=st.lists(st.lists(FIELDS, min_size=2, max_size=2), min_size=1, max_size=8))
def test_a_text_can_be_taken_up_after_any_row(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("tables") / "table.csv"
    with path.open("w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([["a", "b"], *table])

    def rows_from(position: Position) -> tuple[list[tuple[str, str]], list[Position]]:
        reader = open_table(str(path))
        chunks = list(reader.chunks(["a", "b"], position))
        reader.close()
        rows = [row for chunk in chunks for row in chunk.frame.rows()]
        return rows, [chunk.position_after(row) for chunk in chunks for row in range(len(chunk.ends))]

    rows, positions = rows_from(Position())
    assert [[value or "" for value in row] for row in rows] == table
    for number, position in enumerate(positions, 1):
        assert rows_from(position)[0] == rows[number:]


@pytest.mark.parametrize(
    "content",
    [b"a,b\rc\n1,2,3\n", b"a,b\r1,2\r3,4\r", b"a,b\rc", b"a," + b"b" * (csv.field_size_limit() + 1) + b"\n1,2\n"],
    ids=["one", "all", "the end", "too long a name"],
)
def test_a_header_that_cannot_be_read_is_named(content):
    Path("rows.csv").write_bytes(content)
    with pytest.raises(DataError, match=r"^rows\.csv, line 1: "):
        open_table("rows.csv")


@pytest.mark.parametrize("line", ['{"a": "\\ud800"}', '{"\\ud800": 1}', '{"a": ' + "[" * 100_000])
def test_json_that_python_reads_or_gives_up_on_but_is_no_table_is_a_bad_row(line):
    Path("rows.jsonl").write_text(line)
    with pytest.raises(DataError, match=r"^rows\.jsonl, line 1: "):
        open_table("rows.jsonl")
    Path("rows.jsonl").write_text(f'{{"a": 1}}\n{line}\n{{"a": 2}}')
    chunks = chunks_of("rows.jsonl", ["a"])
    assert [row for chunk in chunks for row in chunk.frame["a"]] == ["1", "2"]
    assert [line for line, _ in bad_rows_of(chunks)] == [2]


def test_whole_surrogate_pairs_and_long_numbers_are_json():
    Path("rows.jsonl").write_text('{"a": "\\ud83d\\ude00", "b": ' + "9" * 5000 + "}")
    (chunk,) = (chunk for chunk in chunks_of("rows.jsonl", ["a", "b"]) if chunk.frame.height)
    assert chunk.frame.rows() == [("\U0001f600", "9" * 5000)]


# --- types and names --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values", [[b"\xff"], [timedelta(1)], [{"x": 1}], [["a"]], [[1.0], [1.0, 2.0]]], ids=lambda values: str(values[0])
)
def test_types_that_are_no_single_values_are_named(values):
    pl.DataFrame({"odd": values}, strict=False).write_parquet("rows.parquet")
    with pytest.raises(DataError, match=r"^rows\.parquet, column 'odd': "):
        require_usable(open_table("rows.parquet"), ["odd"])


def test_a_time_of_day_is_no_date():
    times, is_bad = to_times(pl.Series([time(12, 30), None]), "%Y-%m-%d")
    assert times.is_null().all()
    assert is_bad.tolist() == [True, False]


@pytest.mark.parametrize("name", ["*", "^.*$", "^a$"])
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_name_that_polars_takes_for_a_pattern_is_a_name(name, ending):
    frame = pl.DataFrame({"a": ["1", "2"], name: ["3", "4"]})
    {"csv": frame.write_csv, "jsonl": frame.write_ndjson, "parquet": frame.write_parquet}[ending](f"rows.{ending}")
    (column,) = (chunk.frame[name] for chunk in chunks_of(f"rows.{ending}", [name]) if len(chunk.lines))
    assert to_texts(column).to_list() == ["3", "4"]
    assert to_numbers(column)[0].tolist() == [3.0, 4.0]
    assert to_times(column, "%Y-%m-%d")[1].all()
    assert RoundRule(by=name).stops(column.to_frame(), 2, is_end=True) == [1, 2]


def test_a_panic_of_polars_is_an_error_of_polars(capfd):
    with pytest.raises(pl.exceptions.ComputeError), panics_as_errors():
        pl.DataFrame({"a": [b"x"]}).write_ndjson()
    assert capfd.readouterr().err == ""


# --- embeddings -------------------------------------------------------------------------------------------------


def test_pieces_of_wide_rows_are_short(tmp_path, monkeypatch):
    monkeypatch.setattr("accous.table.readers._MOST_VALUES", 200)
    frame = pl.DataFrame({f"x{number}": np.arange(90.0) for number in range(10)})
    frame.write_parquet(tmp_path / "wide.parquet")
    for wanted, size in ((frame.columns, 20), (["x0"], 90)):
        pieces = list(open_table(str(tmp_path / "wide.parquet")).chunks(wanted, Position()))
        assert max(piece.frame.height for piece in pieces) == size
        assert pl.concat(piece.frame for piece in pieces).equals(frame.select(wanted))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f4", "int8", "uint16", "int64", "bool"])
def test_numbers_of_every_type_are_read_exactly(dtype, order):
    rows = np.asarray(np.abs(ROWS), order=order).astype(dtype)
    np.save("rows.npy", rows)
    table = open_table("rows.npy")
    chunks = list(table.chunks(table.columns, Position()))
    assert (table.columns, table.widths) == (NAMES, {"embedding": 3})
    assert [len(chunk.ends) for chunk in chunks] == [5, 5, 5, 5, 3]
    assert np.array_equal(values_of(chunks), rows.astype(np.float64))
    assert table.share_read() == 1.0


def test_a_nan_that_signals_is_a_bad_value_without_a_warning():
    bits = np.zeros((3, 2), dtype=np.uint32)
    bits[1, 0] = 0x7F800001
    np.save("rows.npy", bits.view(np.float32))
    pieces = open_table("rows.npy").chunks(["embedding_0"], Position())
    assert [bad.line for piece in pieces for bad in piece.bad_rows] == [2]


@pytest.mark.parametrize("kind", ["npy", "list", "array"])
def test_embeddings_can_be_taken_up_after_any_row(kind):
    path = "rows.npy" if kind == "npy" else "rows.parquet"
    rows = ROWS.copy()
    rows[7, 1] = np.nan
    if kind == "npy":
        np.save(path, rows)
    else:
        dtype = pl.Array(pl.Float64, 3) if kind == "array" else pl.List(pl.Float64)
        pl.DataFrame({"embedding": pl.Series(rows.tolist(), dtype=dtype)}).write_parquet(path)
    wanted, good = [NAMES[2], NAMES[0]], np.delete(rows, 7, axis=0)[:, [2, 0]]
    chunks = chunks_of(path, wanted)
    assert np.array_equal(values_of(chunks), good)
    positions = [chunk.position_after(row) for chunk in chunks for row in range(len(chunk.ends))]
    assert [position.end for position in positions] == [row for row in range(1, 24) if row != 8]
    for number, position in enumerate(positions[:-1], 1):
        assert np.array_equal(values_of(chunks_of(path, wanted, position)), good[number:])


def test_rows_that_are_not_finite_are_bad_ones_and_named():
    rows = ROWS.copy()
    rows[4, 2], rows[4, 1], rows[11, 0] = np.inf, np.nan, -np.inf
    np.save("rows.npy", rows)
    chunks = chunks_of("rows.npy")
    assert bad_rows_of(chunks) == [(5, "embedding_1"), (12, "embedding_0")]
    assert chunks[0].bad_rows[0].text == " ".join(map(repr, rows[4].tolist()))


def test_a_file_that_was_changed_is_noticed_when_it_is_taken_up():
    np.save("rows.npy", ROWS)
    position = chunks_of("rows.npy")[0].position_after(3)
    np.save("rows.npy", np.vstack([ROWS, ROWS]))
    assert len(chunks_of("rows.npy", position=position)) == 9
    for others, culprit in ((ROWS + 1.0, "row 4"), (ROWS[:2], "2 rows")):
        np.save("rows.npy", others)
        with pytest.raises(DataError, match=rf"^rows.npy .*{culprit}"):
            chunks_of("rows.npy", position=position)


def test_whatever_numpy_stumbles_over_in_the_header_of_an_array_is_a_data_error():
    np.save("rows.npy", np.eye(3))
    content = Path("rows.npy").read_bytes()
    for place in range(128):
        for bit in range(8):
            Path("rows.npy").write_bytes(content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :])
            with suppress(DataError):  # other bits give other arrays
                open_table("rows.npy")


@pytest.mark.parametrize(
    ("array", "culprit"),
    [
        (np.zeros(5), r"\(5,\)"),
        (np.zeros((2, 3, 4)), r"\(2, 3, 4\)"),
        (np.zeros((5, 0)), r"\(5, 0\)"),
        (np.array([["a"]]), "<U1"),
        (np.zeros((2, 2), dtype=complex), "complex128"),
        (np.array([[1.0, None]], dtype=object), "Python objects"),
    ],
    ids=["1-D", "3-D", "no columns", "texts", "complex", "objects"],
)
def test_arrays_of_another_kind_are_refused(array, culprit):
    np.save("rows.npy", array)
    with pytest.raises(DataError, match=rf"^rows.npy .*{culprit}"):
        open_table("rows.npy")


def test_files_that_are_no_arrays_are_refused_and_an_array_without_rows_is_empty():
    np.save("rows.npy", ROWS)
    Path("cut.npy").write_bytes(Path("rows.npy").read_bytes()[:-8])
    Path("text.npy").write_text("a,b\n1,2\n")
    for path in ("cut.npy", "text.npy", "none.npy"):
        with pytest.raises(DataError, match=path):
            open_table(path)
    for arguments in (["rows.npz"], ["-", "npy"]):
        with pytest.raises(ParameterError, match=r"rows.npz|npy"):
            open_table(*arguments)
    np.save("rows.npy", np.zeros((0, 3), dtype=np.float32))
    assert chunks_of("rows.npy", NAMES) == []


def test_lists_stand_beside_ordinary_columns_and_other_lengths_are_bad_rows():
    rows = ROWS.tolist()
    rows[2], rows[3], rows[6], rows[9] = [1.0, 2.0], None, [1.0, None, 2.0], []
    pl.DataFrame({"id": range(23), "tags": [["a"]] * 23, "embedding": rows}).write_parquet("rows.parquet")
    table = open_table("rows.parquet", widths={"embedding": 3})
    assert table.columns == ["id", "tags", *NAMES]
    chunks = list(table.chunks(["embedding_1", "id"], Position()))
    assert bad_rows_of(chunks) == [(3, "embedding"), (4, "embedding"), (7, "embedding_1"), (10, "embedding")]
    kept = [row for row in range(23) if row not in {2, 3, 6, 9}]
    assert np.array_equal(values_of(chunks), np.column_stack((ROWS[kept, 1], kept)))


def test_lists_of_different_lengths_are_no_embeddings():
    pl.DataFrame({"embedding": [[1.0], [1.0, 2.0]] * 10}).write_parquet("rows.parquet")
    assert open_table("rows.parquet").columns == ["embedding"]
    assert open_table("rows.parquet").widths == {}


@pytest.mark.parametrize("order", [["embedding", "embedding_1"], ["embedding_1", "embedding"]])
def test_names_that_clash_are_refused(order):
    pl.DataFrame({"embedding": ROWS.tolist(), "embedding_1": [0] * 23}).select(order).write_parquet("rows.parquet")
    with pytest.raises(DataError, match=r"'embedding' .*'embedding_1'"):
        open_table("rows.parquet")


def test_another_width_is_refused_with_both():
    require_widths("stream.npy", {"embedding": 3}, {"embedding": 3})
    require_widths("stream.npy", {"embedding": 3}, {})
    with pytest.raises(ParameterError, match=r"^stream.npy .* 3 .*'embedding'.* 512"):
        require_widths("stream.npy", {"embedding": 3}, {"embedding": 512})


# --- labels beside the rows -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (np.arange(23) % 2, [0, 1]),
        (np.arange(23, dtype=np.uint8), [0, 1]),
        (np.arange(23.0), [0, 1]),
        (np.array(["cat", "dög"] * 12)[:23], ["cat", "dög"]),
        (np.array([b"cat", "dög".encode()] * 12)[:23], ["cat", "dög"]),
        (np.array([np.nan, *[1.0] * 22]), [None, 1]),
        (np.array([0.5, np.nan, *[2.0] * 21]), [0.5, None, 2.0]),
        (np.array([1e300, 1.0, *[np.inf] * 21]), [1e300, 1.0, np.inf]),
    ],
    ids=["ints", "bytes", "floats", "texts", "byte texts", "missing", "numbers", "large numbers"],
)
def test_labels_of_an_array_are_an_array(labels, expected):
    np.save("rows.npy", ROWS)
    np.save("labels.npy", labels)
    table, name = with_labels(open_table("rows.npy"), "labels.npy")
    assert (name, table.columns) == ("label", [*NAMES, "label"])
    chunks = table.chunks(["label", "embedding_0"], Position())
    found = [label for chunk in chunks for label in chunk.frame["label"].to_list()]
    assert len(found) == 23
    assert [(label, type(label)) for label in found[: len(expected)]] == [(label, type(label)) for label in expected]


def test_labels_keep_to_their_rows_where_some_are_bad_and_after_a_break():
    rows = ROWS.copy()
    rows[3, 0] = np.nan
    np.save("rows.npy", rows)
    pl.DataFrame({"id": range(23), "y": [f"row {row}" for row in range(23)]}).write_csv("labels.csv")
    table, name = with_labels(open_table("rows.npy"), "labels.csv:y")
    found = [label for chunk in table.chunks([*NAMES, name], Position(2, 2)) for label in chunk.frame["y"].to_list()]
    assert found == [f"row {row}" for row in range(2, 23) if row != 3]


@pytest.mark.parametrize(
    ("labels", "argument", "culprit"),
    [
        (np.zeros(22), "labels.npy", "labels.npy has 22 .* 23 .*rows.npy"),
        (np.zeros((23, 1)), "labels.npy", r"\(23, 1\)"),
        (np.array(["a", None] * 12, dtype=object)[:23], "labels.npy", "Python objects"),
        (np.zeros(23, dtype="M8[s]"), "labels.npy", "labels.npy"),
        (None, "nothing.npy", "nothing.npy"),
        (None, "wide.csv", "wide.csv has 2 columns"),
        (None, "wide.csv:label", "wide.csv .*'label' .*'labels'"),
        (None, "y", "rows.npy .*'y'"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels, argument, culprit):
    np.save("rows.npy", ROWS)
    pl.DataFrame({"id": range(23), "labels": range(23)}).write_csv("wide.csv")
    if labels is not None:
        np.save("labels.npy", labels)
    with pytest.raises((DataError, ParameterError), match=culprit):
        with_labels(open_table("rows.npy"), argument)


def test_a_text_has_its_labels_among_its_columns():
    pl.DataFrame({"a": [1, 2]}).write_csv("rows.csv")
    np.save("labels.npy", np.arange(2))
    with pytest.raises(ParameterError, match=r"rows.csv"):
        with_labels(open_table("rows.csv"), "labels.npy")
