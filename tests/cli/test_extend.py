"""`accous extend`: labelled rows join the reference, each once; the stream goes on bit for bit."""

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import accous
from accous.checkpoint.files import exclusive_lock
from accous.cli import main
from accous.table.model import load_table_model
from tests.cli.processes import restored
from tests.cli.tables import make_tables


@pytest.fixture(scope="module")
def _base(tmp_path_factory):
    """Models in order of time and without, the first of which has predicted two thirds of the stream."""
    folder = tmp_path_factory.mktemp("extend")
    reference, stream = make_tables()
    reference.write_csv(folder / "reference.csv")
    stream.write_csv(folder / "stream.csv")
    stream[:200].write_csv(folder / "first.csv")
    fit = ["fit", str(folder / "reference.csv"), "--label", "label", "--drop", "id", "-q"]
    assert main([*fit, "--time", "day", "-o", str(folder / "ordered")]) == 0
    assert main([*fit, "--unordered", "-o", str(folder / "unordered")]) == 0
    adapt = ["adapt", str(folder / "ordered"), str(folder / "first.csv"), "-o", str(folder / "predictions.csv")]
    assert main([*adapt, "--keep", "id", "--quiet"]) == 0
    return folder


@pytest.fixture(autouse=True)
def _folder(_base, monkeypatch):
    monkeypatch.chdir(_base)
    with restored(_base, "ordered"):
        yield


def stream() -> pl.DataFrame:
    return pl.read_csv("stream.csv")


def write(frame: pl.DataFrame, name: str = "labelled.csv") -> str:
    frame.write_csv(name)
    return name


def run(capsys, *arguments: str, code: int = 0) -> str:
    capsys.readouterr()
    assert main(["extend", "model", *arguments]) == code
    out = capsys.readouterr()
    return out.err if code else out.out


def run_json(capsys, *arguments: str) -> dict:
    return json.loads(run(capsys, *arguments, "--json", "--quiet"))


def n_reference() -> int:
    return len(load_table_model(Path("model")).model.labels_)


# --- what joins -----------------------------------------------------------------------------------------------


def test_the_rows_join_as_they_do_in_python(capsys):
    expected = accous.load("model").extend(stream()[:100])
    out = run(capsys, write(stream()[:100]))
    assert out.splitlines()[0] == "100 rows joined the reference; it has 400 rows now."
    assert out.splitlines()[1] == expected.backtest_.sentences[0]
    found = accous.load("model")
    assert np.array_equal(found.model.reference_weight_, expected.model.reference_weight_)
    assert found.backtest_ == expected.backtest_
    assert (found.settings, found.encoder) == (expected.settings, expected.encoder)
    for start in range(200, 300, 10):
        batch = stream()[start : start + 10]
        assert found.step(batch).equals(expected.step(batch))


def test_a_row_joins_once_however_often_the_file_is_given(capsys):
    assert run_json(capsys, write(stream()[:60]))["joined"] == 60
    again = run_json(capsys, "labelled.csv")
    assert (again["joined"], again["joined_before"], again["reference_rows"]) == (0, 60, 360)
    grown = run_json(capsys, write(stream()[:90]))  # the file has grown
    assert (grown["joined"], grown["joined_before"], grown["reference_rows"]) == (30, 60, 390)
    assert run_json(capsys, write(stream()[100:130]))["joined"] == 30  # another file of the same name
    main(["extend", "model", "labelled.csv"])
    assert "Nothing new: these rows have joined before." in capsys.readouterr().err


def test_a_key_is_remembered_over_files(capsys):
    assert run_json(capsys, write(stream()[:50]), "--key", "id")["joined"] == 50
    assert run_json(capsys, write(stream()[30:80], "other.csv"), "--key", "id")["joined"] == 30
    assert n_reference() == 380


@pytest.mark.parametrize("options", [[[], ["--key", "id"]], [["--key", "id"], []]], ids=["then with", "then without"])
def test_a_row_joins_once_with_and_without_a_key(capsys, options):
    first, second = options
    assert run_json(capsys, write(stream()[:60]), *first)["joined"] == 60
    again = run_json(capsys, write(stream()[:80]), *second)
    assert (again["joined"], again["joined_before"], again["reference_rows"]) == (20, 60, 380)


def test_keys_decide_where_both_files_have_them(capsys):
    """Another file of the same name may have the same values in the same line: another key is another row.

    That is said of fewer than twenty rows: if more are the same, they are copies.
    """
    assert run_json(capsys, write(stream()[:15]), "--key", "id")["joined"] == 15
    renamed = stream()[:15].with_columns(pl.col("id") + 1000)
    assert run_json(capsys, write(renamed), "--key", "id")["joined"] == 15


def labels_of_the_first(n_rows: int) -> pl.DataFrame:
    """Labels of all rows that were predicted, the others missing."""
    is_first = pl.int_range(pl.len()) < n_rows
    return stream()[:200].select(pl.when(is_first).then("label").otherwise(pl.lit("NA")).alias("label"))


def run_remarks(capsys, *arguments: str) -> list[str]:
    capsys.readouterr()
    assert main(["extend", "model", *arguments]) == 0
    return capsys.readouterr().err.splitlines()


@pytest.mark.parametrize("options", [[["--key", "id"], []], [[], ["--key", "id"]]], ids=["then without", "then with"])
def test_late_labels_join_once_by_key_and_by_position_and_with_their_rows(capsys, options):
    first, second = options
    labels = write(stream()[:60].select("id", "label"), "labels.csv")
    alone = write(labels_of_the_first(60), "alone.csv")
    for by in (first, second):
        run_json(capsys, labels if by else alone, *by)
    assert n_reference() == 360
    assert run_json(capsys, "first.csv")["joined"] == 140  # the stream itself, with its labels


@pytest.mark.parametrize("by_key", [True, False])
def test_late_labels_alone_take_their_rows_from_the_stream(capsys, by_key):
    """By a key, or by position: the first label belongs to the first row that was predicted."""
    labels = stream()[:100].select("id", "label") if by_key else labels_of_the_first(100)
    options = ["--key", "id"] if by_key else []
    if by_key:
        labels = labels[::-1]
    assert run_json(capsys, write(labels, "labels.csv"), *options)["joined"] == 100
    assert run_json(capsys, "labels.csv", *options)["joined"] == 0
    expected = accous.load("ordered").extend(stream()[:100], order=True)
    found = accous.load("model")
    assert np.array_equal(found.model.reference_, expected.model.reference_)
    assert np.array_equal(found.model.labels_, expected.model.labels_)
    assert found.encoder == expected.encoder


def test_fewer_labels_than_rows_join_by_position_only_if_a_column_agrees(capsys):
    message = run(capsys, write(stream()[:50].select("label"), "alone.csv"), code=1)
    assert "alone.csv covers 50 of the 200 rows that were predicted, and no column says which" in message
    remarks = run_remarks(capsys, write(stream()[:50].select("id", "label"), "labels.csv"))
    assert remarks == ["Joined by position: rows 1 to 50."]
    assert n_reference() == 350


def test_labels_without_a_row_are_not_rows_without_a_label(capsys):
    frame = stream().with_columns(label=pl.when(pl.int_range(pl.len()) < 3).then(None).otherwise("label"))
    labels = write(frame.select("id", "label"), "labels.csv")
    remarks = run_remarks(capsys, labels)
    assert remarks == [
        "Joined by position: rows 4 to 200.",
        "3 rows have no label.",
        "100 labels have no row in the stream of the run.",
    ]
    again = run_json(capsys, labels)
    assert (again["without_label"], again["unmatched"], again["joined_before"]) == (3, 100, 197)


def test_a_key_may_be_a_column_of_the_model(capsys):
    shutil.rmtree("model")
    shutil.copytree("unordered", "model")
    used = load_table_model(Path("model")).encoder.used_columns
    key = next(name for name in used if stream()[name].n_unique() == stream().height)
    assert main(["adapt", "model", "first.csv", "-o", "keyed.csv", "--keep", key, "--quiet"]) == 0
    labels = write(stream()[:50].select(key, "label"), "labels.csv")
    assert run_json(capsys, labels, "--key", key)["joined"] == 50


def test_late_labels_of_a_stream_that_is_gone_are_refused(capsys):
    Path("first.csv").unlink()
    message = run(capsys, write(stream()[:100].select("id", "label"), "labels.csv"), "--key", "id", code=1)
    assert "cannot be read again from the stream" in message
    assert n_reference() == 300


def test_labels_of_another_name_and_rows_without_a_label(capsys):
    frame = stream()[:40].rename({"label": "truth"}).with_row_index("n")
    frame = frame.with_columns(pl.when(pl.col("n") % 4 == 0).then(None).otherwise("truth").alias("truth")).drop("n")
    found = run_json(capsys, write(frame), "--label", "truth")
    assert (found["joined"], found["without_label"]) == (30, 10)


def test_the_oldest_rows_leave(capsys):
    out = run(capsys, write(stream()[:100]), "--max-reference", "250")
    assert "100 rows joined the reference, 150 left it; it has 250 rows now." in out
    assert run_json(capsys, write(stream()[100:110]), "--max-reference", "200", "--drop-rows", "least-weight")["left"]


def test_categories_that_joined_are_still_unknown_to_the_model_and_it_says_so(capsys):
    """The columns stay encoded as fit decided: what joined is in the reference, but has no feature of its own."""
    category = next(plan.name for plan in load_table_model(Path("model")).encoder.used if plan.kind == "category")
    frame = stream()[:40].with_columns(pl.lit("never seen").alias(category))
    assert run_json(capsys, write(frame))["joined"] == 40
    capsys.readouterr()
    for command in ("adapt", "predict"):
        assert main([command, "model", "labelled.csv", "-o", f"{command}.csv", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["unknown_by_column"] == {category: 40}
        assert main([command, "model", "labelled.csv", "-o", f"again_{command}.csv"]) == 0
        said = f"40 values were categories that the model does not know ({category} 40): to learn them, run accous fit"
        assert said in capsys.readouterr().err


def test_new_classes_join_and_the_finished_predictions_are_not_continued(capsys):
    frame = stream()[:40].with_columns(
        pl.when(pl.int_range(pl.len()) < 20).then(pl.lit("perhaps")).otherwise("label").alias("label")
    )
    assert run_json(capsys, write(frame))["new_classes"] == ["perhaps"]
    before = Path("predictions.csv").read_bytes()
    shutil.copy("stream.csv", "first.csv")  # the file has grown
    again = ["adapt", "model", "first.csv", "-o", "predictions.csv", "--keep", "id", "--quiet"]
    assert main(again) == 1
    assert Path("predictions.csv").read_bytes() == before
    assert main([*again[:4], "others.csv", "--quiet"]) == 0
    assert "p_perhaps" in pl.read_csv("others.csv").columns


# --- evidence -------------------------------------------------------------------------------------------------


def test_rows_without_an_order_drop_the_backtest_and_every_place_says_why(capsys):
    assert load_table_model(Path("model")).backtest_ is not None
    out = run(capsys, write(stream()[:50]), "--unordered")
    assert "Nothing is verified: rows without an order in time have joined the reference" in out
    assert main(["inspect", "model", "--json"]) == 0
    state = json.loads(capsys.readouterr().out)
    assert (state["backtest"], state["trust_predictions"]) == (None, "not known")
    assert "have joined the reference" in state["sentences"]["predictions"]


def test_the_replay_is_that_of_the_new_reference(capsys):
    before = load_table_model(Path("model")).backtest_
    found = run_json(capsys, write(stream()[:200]))
    after = load_table_model(Path("model")).backtest_
    assert (before.n_reference, after.n_reference) == (300, 500)
    assert found["backtest"] == after.summary()
    assert main(["inspect", "model", "--json"]) == 0
    state = json.loads(capsys.readouterr().out)
    assert state["backtest"] == after.summary()
    assert (state["reference_rows"], state["joined_rows"]) == (500, 200)


def test_a_reference_without_an_order_stays_without_one(capsys):
    shutil.rmtree("model")
    shutil.copytree("unordered", "model")
    out = run(capsys, write(stream()[:50]))
    assert "the reference has no order in time" in out


# --- runs -----------------------------------------------------------------------------------------------------


def test_a_run_goes_on_after_rows_have_joined_bit_for_bit(capsys):
    """Half a stream, then `extend`, then the other half of the same file: as in Python, round by round."""
    expected = accous.load("ordered")
    shutil.copy("stream.csv", "first.csv")  # the file has grown
    run(capsys, write(stream()[:100]))
    assert main(["adapt", "model", "first.csv", "-o", "predictions.csv", "--keep", "id", "--quiet"]) == 0
    expected.extend(stream()[:100])
    parts = [expected.step(stream()[start : start + 10]) for start in range(200, 300, 10)]
    found = pl.read_csv("predictions.csv")[200:]
    columns = ["round", "prediction", "p_no", "p_yes", "ratio"]
    assert found.select(columns).equals(pl.concat(parts).select(columns))


def test_an_unfinished_run_refuses_new_classes(capsys):
    shutil.copy("stream.csv", "broken.csv")
    with Path("broken.csv").open("a") as file:
        file.write("oops\n")
    adapt = ["adapt", "model", "broken.csv", "-o", "out.csv", "--quiet"]
    assert main(adapt) == 1
    frame = stream()[:4].with_columns(pl.Series("label", ["perhaps", "yes", "no", "no"]))
    assert "is unfinished" in run(capsys, write(frame), code=1)
    assert run_json(capsys, write(stream()[:4]))["joined"] == 4
    assert main([*adapt, "--on-bad-row", "skip"]) == 0


@pytest.mark.parametrize("place", ["write_data", "write_manifest"])
def test_a_save_that_fails_leaves_the_model_as_it_was_and_the_command_can_be_repeated(capsys, monkeypatch, place):
    before = accous.load("model").predict(stream()[:5])

    def fail(*_args):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(f"accous.checkpoint.folder.{place}", fail)
        assert "No space left" in run(capsys, write(stream()[:100]), code=1)
    assert n_reference() == 300
    assert accous.load("model").predict(stream()[:5]).equals(before)
    assert run_json(capsys, "labelled.csv")["joined"] == 100
    assert n_reference() == 400


def test_a_locked_model_is_refused(capsys):
    with exclusive_lock(Path("model"), "accous adapt"):
        assert "accous adapt" in run(capsys, write(stream()[:4]), code=1)


# --- what is refused ------------------------------------------------------------------------------------------


def test_bad_rows_are_set_aside(capsys):
    frame = stream()[:20].with_columns(pl.col("x0").cast(pl.String))
    frame[3, "x0"] = "?!"
    found = run_json(capsys, write(frame), "--on-bad-row", "skip", "--rejects", "bad.csv")
    assert (found["joined"], found["rejected"]) == (19, 1)
    assert pl.read_csv("bad.csv")["line"].to_list() == [5]


def test_a_command_that_fails_leaves_no_file_of_bad_rows(capsys, monkeypatch):
    frame = stream()[:20].with_columns(pl.col("x0").cast(pl.String), pl.col("colour").alias("hue"))
    frame[3, "x0"] = "?!"
    options = [write(frame), "--on-bad-row", "skip", "--rejects", "bad.csv"]
    assert "is a class of the reference" in run(capsys, *options, "--label", "hue", code=1)
    assert not Path("bad.csv").exists()

    def fail(*_args):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("accous.checkpoint.folder.write_manifest", fail)
        assert "No space left" in run(capsys, *options, code=1)
    assert not Path("bad.csv").exists()
    assert run_json(capsys, *options)["rejected"] == 1
    assert Path("bad.csv").exists()


def test_lines_of_rows_that_a_key_names_are_answered_with_the_key(capsys):
    assert main(["adapt", "model", "first.csv", "-o", "keyed.csv", "--key", "id", "--quiet"]) == 0
    labels = write(stream()[:20].select(pl.int_range(2, 22).alias("line"), "label"), "labels.csv")
    assert main(["extend", "model", labels]) == 2
    error = capsys.readouterr().err
    assert "has no column 'line'" in error
    assert "join by its column, with --key COL" in error
    assert "--key line" not in error
