"""The store of predictions: labels in any order count once, a kill leaves nothing, strangers' files are refused."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accous.exceptions import AccousError, CheckpointError, DataError
from accous.table.store import (
    STORE_NAME,
    Joined,
    Store,
    StorePosition,
    identify_source,
    ids_from,
    pack_scores,
    unpack_scores,
)

DAY = 86_400.0
SOURCE = 4711


@pytest.fixture(scope="module", autouse=True, params=[False, True], ids=["rows", "blocks"])
def is_in_blocks(request):
    """Rows are stored one by one, or as many together as there are: nobody sees a difference."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("accous.table.store._FEWEST_OF_BLOCK", 1 if request.param else 1 << 40)
        yield request.param


def counts(store: Store) -> dict[str, int]:
    with closing(sqlite3.connect(store._path)) as connection:
        (n_in_blocks,) = connection.execute(
            "SELECT ifnull(sum((last_id - first_id) / 2 + 1), 0) FROM blocks"
        ).fetchone()
        found = connection.execute(
            "SELECT count(*), count(label_batch), count(asked_batch) FILTER (WHERE label IS NULL) FROM predictions"
        )
        n_rows, *others = found.fetchone()
        return dict(zip(("rows", "labelled", "asked"), (n_rows + n_in_blocks, *others), strict=True))


def rows(ids, *, keys=None, source: int = SOURCE, first_line: int = 2, number: int = 1, **more) -> pl.DataFrame:
    n_rows = len(ids)
    return pl.DataFrame(
        {
            "id": ids,
            "key": pl.Series([None] * n_rows if keys is None else keys, dtype=pl.String),
            "source": [source] * n_rows,
            "line": list(range(first_line, first_line + n_rows)),
            "round": [number] * n_rows,
            "predicted": ["yes"] * n_rows,
            "scores": pl.Series(np.full((n_rows, 2), 0.5)),
            "features": ['{"x":1}'] * n_rows,
            **more,
        }
    )


def add(store: Store, n_rows: int, *, learned: bool = True, **named) -> list[int]:
    ids = ids_from(store.next_id(in_state=learned), n_rows)
    store.add_predictions(rows(ids, **named), learned=learned)
    return ids.tolist()


def labels(pairs: dict) -> pl.DataFrame:
    schema = {"place": pl.String, "label": pl.String}
    return pl.DataFrame([(str(place), label) for place, label in pairs.items()], schema=schema, orient="row")


def give(store: Store, pairs: dict, by: str = "key") -> Joined:
    joined = store.join(labels(pairs), by=by)
    store.set_labels(joined)
    return joined


def content(store: Store) -> list[tuple]:
    """Everything but the day."""
    store._unpack()
    return store._rows(
        "SELECT id, key, source, line, round, learned, predicted, scores, features, asked, label, label_batch, earlier "
        "FROM predictions ORDER BY id"
    )


def known(store: Store) -> dict:
    return dict(store.labelled().select("key", "label").iter_rows())


@contextmanager
def fresh(position: StorePosition | None = None) -> Iterator[Store]:
    with TemporaryDirectory() as folder, Store.open(Path(folder), position or StorePosition()) as store:
        yield store


# --- labels ------------------------------------------------------------------------------------------------------

KEYS = [f"k{number}" for number in range(6)]
STEPS = st.one_of(st.integers(1, 4), st.dictionaries(st.sampled_from(KEYS), st.sampled_from("ab")))
FILES = st.lists(st.dictionaries(st.sampled_from([*KEYS, "unknown"]), st.sampled_from("abc"), max_size=6), max_size=6)


@settings(deadline=None, max_examples=60)
@given(files=FILES, by=st.sampled_from(["key", "id", "line"]), n_undone=st.integers(0, 3))
def test_each_row_has_its_last_label_once_in_whatever_order_they_come(files, by, n_undone):
    with fresh() as store:
        ids = add(store, len(KEYS), keys=KEYS)
        names = {"key": KEYS, "id": ids, "line": range(2, 2 + len(KEYS))}[by]
        names = [name if by == "key" or name % 4 else f"{name}.0" for name in names]
        place = dict(zip(KEYS, names, strict=True)) | {"unknown": "unknown" if by == "key" else 99}
        expected, batches = {}, []
        for file in files:
            joined = give(store, {place[key]: label for key, label in file.items()}, by)
            found = {key: label for key, label in file.items() if key != "unknown"}
            new = {key for key in found if key not in expected}
            changed = {key for key in found if expected.get(key, found[key]) != found[key]}
            assert (joined.new.height, joined.corrected.height) == (len(new), len(changed))
            assert joined.n_before == len(found) - len(new) - len(changed)
            assert len(joined.unknown) == ("unknown" in file)
            if new or changed:
                batches.append(dict(expected))
            expected |= found
            assert (known(store), store.position.n_batches) == (expected, len(batches))
        for before in batches[::-1][:n_undone]:
            assert store.undo_last() > 0
            assert known(store) == before
        assert store.position.n_batches == max(0, len(batches) - n_undone)


@settings(deadline=None, max_examples=40)
@given(
    steps=st.lists(
        st.one_of(st.integers(1, 4), st.dictionaries(st.sampled_from(KEYS), st.sampled_from("ab"))), max_size=8
    ),
    saved=st.integers(0, 8),
    predicts=st.booleans(),
)
def test_what_the_saved_state_does_not_contain_is_taken_back_and_then_done_again(steps, saved, predicts):
    """A process that was killed anywhere between two saves leaves what an uninterrupted one has."""

    def run_rounds(store: Store, part: list) -> None:
        for step in part:
            if isinstance(step, int):
                n_before = counts(store)["rows"]
                add(store, step, keys=[KEYS[(n_before + each) % len(KEYS)] for each in range(step)])
            elif step:
                give(store, step)

    with TemporaryDirectory() as whole, TemporaryDirectory() as killed:
        with Store.open(Path(whole), StorePosition()) as store:
            if predicts:
                add(store, 2, learned=False)
            run_rounds(store, steps)
            expected = content(store)
        with Store.open(Path(killed), StorePosition()) as store:
            if predicts:
                add(store, 2, learned=False)
            run_rounds(store, steps[:saved])
            position = store.position
            run_rounds(store, steps[saved:])
        with Store.open(Path(killed), position) as store:
            run_rounds(store, steps[saved:])
            assert content(store) == expected


def test_a_label_belongs_to_the_last_prediction_of_its_key_and_another_run_is_another_row():
    with fresh() as store:
        first, second = add(store, 1, keys=["k"]), add(store, 1, keys=["k"], source=5)
        assert give(store, {"k": "a"}).rows["id"].to_list() == second
        assert give(store, {first[0]: "b"}, "id").new.height == 1
        assert store.repeated_key(first[0]) == "k"
        assert store.repeated_key(second[0]) is None


def test_lines_of_several_files_are_refused_unless_rows_were_asked_for():
    with fresh() as store:
        add(store, 3)
        assert give(store, {2: "a"}, "line").new.height == 1
        ids = add(store, 3, source=5)
        assert store.sources() == [5, SOURCE]
        with pytest.raises(DataError, match="2 files"):
            give(store, {3: "a"}, "line")
        store.mark_asked(ids[1:], [0.5, 0.25])
        joined = give(store, {3: "a", 4: "b"}, "line")
        assert (joined.rows["id"].to_list(), joined.rows["asked"].to_list()) == (ids[1:], [0.5, 0.25])
        assert store.join(labels({3: "a"}), by="line", source=SOURCE).rows["source"].to_list() == [SOURCE]


def test_nothing_is_asked_twice_and_a_failure_changes_nothing():
    with fresh() as store:
        ids = add(store, 3)
        assert store.mark_asked(ids[:1], [0.5]) == 1
        before = content(store)
        for wrong in (ids, [7]):
            with pytest.raises(DataError, match="asked for before"):
                store.mark_asked(wrong, [0.5] * len(wrong))
        assert content(store) == before
        assert counts(store) == {"rows": 3, "labelled": 0, "asked": 1}
        assert store.mark_asked(ids[1:2], [1.0]) == 2


def test_labels_that_come_with_their_rows_are_there_first_and_can_be_corrected():
    with fresh() as store:
        add(store, 3, keys=KEYS[:3], label=["a", None, "b"])
        assert (known(store), store.position.n_batches) == ({"k0": "a", "k2": "b"}, 0)
        assert store.undo_last() == 0
        give(store, {"k0": "c", "k1": "c"})
        assert known(store) == {"k0": "c", "k1": "c", "k2": "b"}
        store.undo_last()
        assert known(store) == {"k0": "a", "k2": "b"}


def test_scores_come_back_bit_for_bit():
    scores = np.array([[0.1, 0.9], [np.nan, 1e-300]])
    packed = pack_scores(scores)
    assert np.array_equal(unpack_scores(packed, 2), scores, equal_nan=True)
    assert np.isnan(unpack_scores([*packed, None], 3)).all()


def test_a_file_is_known_again_when_it_has_grown_and_another_one_is_another(tmp_path):
    path = tmp_path / "stream.csv"
    path.write_text("a,b\n" + "1,2\n" * 2_000)
    source = identify_source(str(path))
    with path.open("a") as file:
        file.write("3,4\n" * 40_000)
    assert identify_source(str(path), [source]) == source
    path.write_text("b,a\n" + "1,2\n" * 60_000)
    assert identify_source(str(path), [source]) != source
    path.write_text("a,b\n")
    header = identify_source(str(path))
    path.write_text("a,b\n1,2\n")
    assert identify_source(str(path), [header]) != header  # too little to tell
    assert identify_source(str(tmp_path)) is None


def test_others_predict_while_a_run_goes_on(tmp_path):
    """Who only predicts holds no lock, and neither takes the ids of the other nor what the other has written back."""
    with Store.open(tmp_path, StorePosition()) as run, Store.open(tmp_path, None) as other:
        first = ids_from(run.next_id(), 3)
        assert add(other, 2, learned=False)[0] % 2 == 1
        run.add_predictions(rows(first), learned=True)
        add(other, 2, learned=False)
        dropped = add(other, 1, learned=False)
        other.drop([(dropped[0], dropped[0])])
    with Store.open(tmp_path, StorePosition()) as store:
        assert [row[0] % 2 for row in content(store)] == [1] * 4


# --- many rows at once, and forgetting -----------------------------------------------------------------------------


def n_kept_as(store: Store) -> tuple[int, int]:
    """How many rows of the file are predictions, and how many are blocks."""
    return tuple(store._one(f"SELECT count(*) FROM {table}")[0] for table in ("predictions", "blocks"))


def test_rows_predicted_together_are_a_few_rows_of_the_file_until_one_is_looked_for(is_in_blocks):
    with fresh() as store:
        ids = add(store, 10_000, keys=[f"k{number}" for number in range(10_000)])
        add(store, 1, source=1)
        assert n_kept_as(store) == ((0, 4) if is_in_blocks else (10_001, 0))
        assert (store.next_id(), store.sources(), store.has_learned(SOURCE)) == (ids[-1] + 4, [1, SOURCE], True)
        assert give(store, {"k7000": "a"}).rows["id"].to_list() == [ids[7000]]
        assert n_kept_as(store) == (10_001, 0)


def test_labelled_rows_and_ids_with_gaps_are_stored_one_by_one():
    with fresh() as store:
        add(store, 100, label=[None] * 99 + ["a"])
        store.add_predictions(rows([10**14 + 1000, 10**14 + 1004, 10**14 + 1006]), learned=True)
        assert n_kept_as(store) == (103, 0)


def test_numbers_and_texts_of_a_struct_come_back_as_its_json():
    frame = pl.DataFrame({"x": [0.1, None, -1e300], "text": ["a\nb", None, "\u0444"], "key": [1.0, 2.0, 3.0]})
    with fresh() as store:
        store.add_predictions(rows(ids_from(10**14, 3), features=frame.to_struct()), learned=True)
        found = give(store, {str(10**14 + 2 * number): "yes" for number in range(3)}, by="id").rows["features"]
    assert found.to_list() == frame.to_struct().struct.json_encode().to_list()


def test_a_block_goes_when_all_of_its_rows_may(is_in_blocks):
    with fresh() as store:
        _ = add(store, 10), add(store, 10)
        store.prune(most_rows=15, most_features=5)
        assert counts(store)["rows"] == (20 if is_in_blocks else 15)
        assert [row[8] for row in content(store)].count(None) == 10


def test_wide_rows_make_short_blocks(is_in_blocks):
    for name in ("features", "keys", "predicted"):
        with fresh() as store:
            add(store, 10, **{name: ["\u0444" * 250_000] * 10})
            assert n_kept_as(store) == ((0, 3) if is_in_blocks else (10, 0))
            assert store._path.stat().st_size < 12_000_000  # nothing is escaped


@settings(deadline=None, max_examples=40)
@given(
    days=st.lists(st.integers(0, 5), min_size=1, max_size=12),
    keep_days=st.integers(1, 6),
    most_rows=st.integers(0, 12),
    most_features=st.integers(0, 12),
)
def test_old_rows_and_the_features_of_more_rows_than_that_go(days, keep_days, most_rows, most_features):
    days, now = sorted(days), [0.0]
    with TemporaryDirectory() as folder, Store.open(Path(folder), StorePosition(), clock=lambda: now[0]) as store:
        for day in days:
            now[0] = day * DAY
            add(store, 1)
        now[0] = 6 * DAY
        n_kept = min(most_rows, len([day for day in days if day >= 6 - keep_days]))
        store.prune(keep_days=keep_days, most_rows=most_rows, most_features=most_features)
        assert counts(store)["rows"] == n_kept
        features = [row[8] for row in content(store)]
        assert features == [None] * (n_kept - min(n_kept, most_features)) + ['{"x":1}'] * min(n_kept, most_features)
        assert store.next_id() > (max(row[0] for row in content(store)) if n_kept else 0)


def test_a_key_is_deleted_with_all_that_was_written_of_it(tmp_path):
    secret = "nobody-else-has-this-key"
    with Store.open(tmp_path, StorePosition()) as store:
        add(store, 3, keys=[secret, "b", secret], features=['{"x":"very-private"}', "{}", '{"x":"very-private"}'])
        give(store, {secret: "a", "b": "b"})
        assert store.forget([secret, "unknown"]) == 2
        assert known(store) == {"b": "b"}
        assert store.undo_last() == 1
        add(store, 1, keys=[secret])
        give(store, {"b": "b"})
        give(store, {secret: "a"})
        store.forget([secret])
        assert (store.undo_last(), known(store)) == (1, {})  # of the last batch nothing was left
    written = (tmp_path / STORE_NAME).read_bytes()
    assert secret.encode() not in written
    assert b"very-private" not in written


# --- files of strangers ----------------------------------------------------------------------------------------------


def made(folder: Path) -> Path:
    with Store.open(folder, StorePosition()) as store:
        add(store, 200, keys=[f"k{number}" for number in range(200)])
    return folder / STORE_NAME


def changed(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE VIEW seen AS SELECT 1"],
        ["CREATE TRIGGER t AFTER INSERT ON predictions BEGIN DELETE FROM predictions; END"],
        ["DROP INDEX by_key"],
        ["ALTER TABLE predictions ADD COLUMN more"],
        ["PRAGMA user_version=7"],
        ["PRAGMA application_id=1"],
        ["DROP TABLE predictions", "CREATE VIEW predictions AS SELECT randomblob(1000000000) AS id"],
    ],
)
def test_a_file_with_another_schema_is_refused_in_one_sentence(tmp_path, statements):
    changed(made(tmp_path), *statements)
    with pytest.raises(CheckpointError, match=r"not a file|newer accous"):
        Store.open(tmp_path, StorePosition())


@pytest.mark.parametrize("ending", ["", "-journal", "-wal"])
@pytest.mark.parametrize("link", ["symbolic", "hard", "folder"])
def test_links_are_refused_and_what_they_lead_to_stays(tmp_path, ending, link):
    (tmp_path / "model").mkdir()
    made(tmp_path / "model")
    target = tmp_path / "precious"
    target.write_text("precious")
    path = tmp_path / "model" / f"{STORE_NAME}{ending}"
    path.unlink(missing_ok=True)
    if link == "folder":
        path.mkdir()
    else:
        (os.symlink if link == "symbolic" else os.link)(target, path)
    with pytest.raises(AccousError, match="not a regular file"):
        Store.open(tmp_path / "model", StorePosition())
    assert target.read_text() == "precious"


def test_a_journal_that_names_a_file_to_remove_is_refused(tmp_path):
    """SQLite removes the journal of several databases that a journal names: it may be any file."""
    path, target = made(tmp_path), tmp_path / "precious"
    target.write_text("precious")
    magic, name = bytes.fromhex("d9d505f920a163d7"), str(target).encode()
    tail = (1).to_bytes(4, "big") + name + len(name).to_bytes(4, "big") + sum(name).to_bytes(4, "big") + magic
    Path(f"{path}-journal").write_bytes(magic + bytes(1016) + tail)
    with pytest.raises(CheckpointError, match="not a journal"):
        Store.open(tmp_path, StorePosition())
    assert target.read_text() == "precious"


@settings(deadline=None, max_examples=80)
@given(data=st.data())
def test_a_damaged_file_is_one_sentence_or_still_gives_an_answer(data):
    with TemporaryDirectory() as name:
        path = made(Path(name))
        whole = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 8))):
            whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(whole[: data.draw(st.integers(0, len(whole))) if data.draw(st.booleans()) else None])
        require_one_sentence(Path(name))


def require_one_sentence(folder: Path) -> None:
    """Use a store; whatever is wrong with it is said in one line."""
    try:
        with Store.open(folder, StorePosition(last_id=10**16, n_batches=1)) as store:
            give(store, {"k1": "a", "k2": "b"})
            store.labelled()
            store.undo_last()
            store.undo_last()
            store.prune()
    except AccousError as error:
        if "\n" in str(error):
            raise AssertionError(str(error)) from error


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE predictions SET label = x'ff', label_batch = 1",
        "UPDATE predictions SET label = 'a', label_batch = 'text'",
        "UPDATE predictions SET label = 'a', label_batch = 1, round = 'text'",
        "UPDATE predictions SET label = 'a', label_batch = 1, earlier = 'no json'",
        "UPDATE predictions SET label = 'a', label_batch = 1, earlier = '[1, 2]'",
        "UPDATE predictions SET label = 'a', label_batch = 9223372036854775807",
        "UPDATE blocks SET last_id = first_id",
        "UPDATE blocks SET last_id = first_id + 1000000000000",
        "UPDATE blocks SET lines = x'ff'",
        "UPDATE blocks SET keys = 'no json'",
        "UPDATE blocks SET keys = '[[1]]'",
        "UPDATE blocks SET predicted = '{}'",
        "UPDATE blocks SET scores = 'text'",
        "UPDATE blocks SET features = CAST(x'ff' AS TEXT)",
        "UPDATE blocks SET features = CAST('{\"x\": null}' || x'0a00' AS BLOB)",
    ],
)
def test_values_of_other_types_are_one_sentence(tmp_path, statement):
    changed(made(tmp_path), statement)
    require_one_sentence(tmp_path)
