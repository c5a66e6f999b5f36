"""Embeddings are read as they stand in the file, in pieces, and what is no embedding is refused."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from accous.exceptions import DataError, ParameterError
from accous.table import readers as numbered
from accous.table.readers import Position, open_table, require_widths, with_labels

ROWS = np.random.default_rng(0).normal(size=(23, 3)) * 100
NAMES = ["embedding_0", "embedding_1", "embedding_2"]


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(numbered, "_MOST_VALUES", 15)  # pieces of five rows


def write_parquet(path: str, rows: list, **others: list) -> None:
    pl.DataFrame({**others, "embedding": rows}).write_parquet(path)


def values_of(chunks: list) -> np.ndarray:
    return np.vstack([chunk.frame.to_numpy() for chunk in chunks])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f4", "int8", "uint16", "int64", "bool"])
def test_numbers_of_every_type_are_read_exactly(dtype, order):
    rows = np.asarray(np.abs(ROWS), order=order).astype(dtype)
    np.save("rows.npy", rows)
    table = open_table("rows.npy")
    chunks = list(table.chunks(table.columns, Position()))
    assert table.columns == NAMES
    assert table.widths == {"embedding": 3}
    assert [len(chunk.ends) for chunk in chunks] == [5, 5, 5, 5, 3]
    assert np.array_equal(values_of(chunks), rows.astype(np.float64))
    assert table.share_read() == 1.0


@pytest.mark.parametrize("kind", ["npy", "list", "array"])
def test_a_table_can_be_taken_up_after_any_row(kind):
    path = "rows.npy" if kind == "npy" else "rows.parquet"
    rows = ROWS.copy()
    rows[7, 1] = np.nan
    if kind == "npy":
        np.save(path, rows)
    else:
        dtype = pl.Array(pl.Float64, 3) if kind == "array" else pl.List(pl.Float64)
        pl.DataFrame({"embedding": pl.Series(rows.tolist(), dtype=dtype)}).write_parquet(path)
    wanted = [NAMES[2], NAMES[0]]
    chunks = list(open_table(path).chunks(wanted, Position()))
    good = np.delete(rows, 7, axis=0)[:, [2, 0]]
    assert np.array_equal(values_of(chunks), good)
    positions = [chunk.position_after(row) for chunk in chunks for row in range(len(chunk.ends))]
    assert [position.end for position in positions] == [row for row in range(1, 24) if row != 8]
    for number, position in enumerate(positions[:-1], 1):
        rest = list(open_table(path).chunks(wanted, position))
        assert np.array_equal(values_of(rest), good[number:])


def test_rows_that_are_not_finite_are_bad_ones_and_named():
    rows = ROWS.copy()
    rows[4, 2], rows[4, 1], rows[11, 0] = np.inf, np.nan, -np.inf
    np.save("rows.npy", rows)
    bad = [each for chunk in open_table("rows.npy").chunks(NAMES, Position()) for each in chunk.bad_rows]
    assert [(each.line, each.column, each.reason) for each in bad] == [
        (5, "embedding_1", "nan is not a finite number"),
        (12, "embedding_0", "-inf is not a finite number"),
    ]
    assert bad[0].text == " ".join(map(repr, rows[4].tolist()))


def test_a_file_that_was_changed_is_noticed_when_it_is_taken_up():
    np.save("rows.npy", ROWS)
    chunk = next(iter(open_table("rows.npy").chunks(NAMES, Position())))
    position = chunk.position_after(3)
    np.save("rows.npy", np.vstack([ROWS, ROWS]))
    assert len(list(open_table("rows.npy").chunks(NAMES, position))) == 9
    np.save("rows.npy", ROWS + 1.0)
    with pytest.raises(DataError, match=r"rows.npy is not the table that was read before: its row 4 has changed"):
        list(open_table("rows.npy").chunks(NAMES, position))
    np.save("rows.npy", ROWS[:2])
    with pytest.raises(DataError, match="it has 2 rows, but 4 were read"):
        list(open_table("rows.npy").chunks(NAMES, position))


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (np.zeros(5), r"shape \(5,\): a 2-D array is needed"),
        (np.zeros((2, 3, 4)), r"shape \(2, 3, 4\): a 2-D array is needed"),
        (np.zeros((5, 0)), r"shape \(5, 0\): a 2-D array is needed"),
        (np.array([["a"]]), "values of type <U1: embeddings are floats or whole numbers"),
        (np.zeros((2, 2), dtype=complex), "values of type complex128"),
        (np.array([[1.0, None]], dtype=object), "Python objects, which can only be unpickled"),
    ],
    ids=["1-D", "3-D", "no columns", "texts", "complex", "objects"],
)
def test_arrays_of_another_kind_are_refused(array, sentence):
    np.save("rows.npy", array)
    with pytest.raises(DataError, match=rf"^rows.npy holds .*{sentence}"):
        open_table("rows.npy")


def test_files_that_are_no_arrays_are_refused():
    np.save("rows.npy", ROWS)
    Path("cut.npy").write_bytes(Path("rows.npy").read_bytes()[:-8])
    Path("text.npy").write_text("a,b\n1,2\n")
    for path in ("cut.npy", "text.npy"):
        with pytest.raises(DataError, match=rf"{path} is not a readable .npy file"):
            open_table(path)
    with pytest.raises(DataError, match=r"none.npy cannot be read: No such file"):
        open_table("none.npy")
    with pytest.raises(ParameterError, match=r"rows.npz is an archive of arrays: save the array you need"):
        open_table("rows.npz")
    with pytest.raises(ParameterError, match=r"An .npy array must be a finished file"):
        open_table("-", "npy")


def test_an_array_without_rows_is_an_empty_table():
    np.save("rows.npy", np.zeros((0, 3), dtype=np.float32))
    assert list(open_table("rows.npy").chunks(NAMES, Position())) == []


def test_lists_stand_beside_ordinary_columns_and_other_lengths_are_bad_rows():
    rows = ROWS.tolist()
    rows[2], rows[3], rows[6], rows[9] = [1.0, 2.0], None, [1.0, None, 2.0], []
    write_parquet("rows.parquet", rows, id=list(range(23)), tags=[["a"]] * 23)
    table = open_table("rows.parquet", widths={"embedding": 3})
    assert table.columns == ["id", "tags", *NAMES]
    chunks = list(table.chunks(["embedding_1", "id"], Position()))
    bad = [(each.line, each.column, each.reason) for chunk in chunks for each in chunk.bad_rows]
    assert bad == [
        (3, "embedding", "2 numbers instead of 3"),
        (4, "embedding", "the embedding is missing"),
        (7, "embedding_1", "nan is not a finite number"),
        (10, "embedding", "0 numbers instead of 3"),
    ]
    kept = [row for row in range(23) if row not in {2, 3, 6, 9}]
    assert np.array_equal(values_of(chunks), np.column_stack((ROWS[kept, 1], kept)))


def test_lists_of_different_lengths_are_no_embeddings():
    write_parquet("rows.parquet", [[1.0], [1.0, 2.0]] * 10)
    assert open_table("rows.parquet").columns == ["embedding"]
    assert open_table("rows.parquet").widths == {}


@pytest.mark.parametrize("order", [["embedding", "embedding_1"], ["embedding_1", "embedding"]])
def test_names_that_clash_are_refused(order):
    pl.DataFrame({"embedding": ROWS.tolist(), "embedding_1": [0] * 23}).select(order).write_parquet("rows.parquet")
    with pytest.raises(DataError, match="the lists in 'embedding' need the column name 'embedding_1'; rename one"):
        open_table("rows.parquet")


def test_another_width_is_one_sentence_with_both():
    require_widths("stream.npy", {"embedding": 3}, {"embedding": 3})
    require_widths("stream.npy", {"embedding": 3}, {})
    sentence = r"^stream.npy holds embeddings of 3 numbers \('embedding'\), but the model was fitted with 512: "
    with pytest.raises(ParameterError, match=sentence):
        require_widths("stream.npy", {"embedding": 3}, {"embedding": 512})


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (np.arange(23) % 2, [0, 1]),
        (np.arange(23, dtype=np.uint8), [0, 1]),
        (np.arange(23.0), [0, 1]),
        (np.array(["cat", "dög"] * 12)[:23], ["cat", "dög"]),
        (np.array([b"cat", "dög".encode()] * 12)[:23], ["cat", "dög"]),
        (np.array([np.nan, *[1.0] * 22]), [None, 1]),
    ],
    ids=["ints", "bytes", "floats", "texts", "byte texts", "missing"],
)
def test_labels_of_an_array_are_an_array(labels, expected):
    np.save("rows.npy", ROWS)
    np.save("labels.npy", labels)
    table, name = with_labels(open_table("rows.npy"), "labels.npy")
    assert name == "label"
    assert table.columns == [*NAMES, "label"]
    chunks = list(table.chunks(["label", "embedding_0"], Position()))
    found = [label for chunk in chunks for label in chunk.frame["label"].to_list()]
    assert found[:2] == expected
    assert len(found) == 23


def test_labels_keep_to_their_rows_where_some_are_bad_and_after_a_break():
    rows = ROWS.copy()
    rows[3, 0] = np.nan
    np.save("rows.npy", rows)
    pl.DataFrame({"id": range(23), "y": [f"row {row}" for row in range(23)]}).write_csv("labels.csv")
    table, name = with_labels(open_table("rows.npy"), "labels.csv:y")
    found = [label for chunk in table.chunks([*NAMES, name], Position(2, 2)) for label in chunk.frame["y"].to_list()]
    assert found == [f"row {row}" for row in range(2, 23) if row != 3]


@pytest.mark.parametrize(
    ("labels", "argument", "sentence"),
    [
        (np.zeros(22), "labels.npy", "labels.npy has 22 labels for the 23 rows of rows.npy"),
        (np.zeros((23, 1)), "labels.npy", r"shape \(23, 1\): labels are a 1-D array"),
        (np.array(["a", None] * 12, dtype=object)[:23], "labels.npy", "holds Python objects"),
        (np.zeros(23, dtype="M8[s]"), "labels.npy", "labels are numbers or texts"),
        (None, "nothing.npy", "nothing.npy cannot be read"),
        (None, "wide.csv", "wide.csv has 2 columns: name one, --label wide.csv:COLUMN"),
        (None, "y", r"rows.npy has embeddings and no column 'y': give the file of its labels"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels, argument, sentence):
    np.save("rows.npy", ROWS)
    pl.DataFrame({"id": range(23), "labels": range(23)}).write_csv("wide.csv")
    if labels is not None:
        np.save("labels.npy", labels)
    with pytest.raises((DataError, ParameterError), match=sentence):
        with_labels(open_table("rows.npy"), argument)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ([0.0, np.nan, 2.0], [0, None, 2]),
        ([0.5, np.nan, 2.0], [0.5, None, 2.0]),
        ([1e300, 1.0, np.inf], [1e300, 1.0, np.inf]),
    ],
)
def test_an_array_of_floats_holds_classes_or_numbers(given, read):
    np.save("rows.npy", ROWS[:3])
    np.save("labels.npy", np.array(given))
    table, name = with_labels(open_table("rows.npy"), "labels.npy")
    found = [label for chunk in table.chunks([*NAMES, name], Position()) for label in chunk.frame[name].to_list()]
    assert found == read
    assert [type(label) for label in found] == [type(label) for label in read]


def test_a_column_of_labels_that_is_misspelt_is_a_wrong_argument():
    np.save("rows.npy", ROWS)
    pl.DataFrame({"id": range(23), "labels": range(23)}).write_csv("wide.csv")
    with pytest.raises(ParameterError, match=r"wide.csv has no column 'label' \(did you mean 'labels'\?\)"):
        with_labels(open_table("rows.npy"), "wide.csv:label")


def test_a_text_has_its_labels_among_its_columns():
    pl.DataFrame({"a": [1, 2]}).write_csv("rows.csv")
    np.save("labels.npy", np.arange(2))
    with pytest.raises(
        ParameterError, match=r"rows.csv is a text file, whose labels are one of its columns: add the column"
    ):
        with_labels(open_table("rows.csv"), "labels.npy")
