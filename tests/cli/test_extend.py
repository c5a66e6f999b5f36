"""`accous extend`: labelled rows join the reference; the stream goes on bit for bit."""

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
from tests.cli.processes import files_of, restored
from tests.cli.tables import fit_model, make_tables

BY_ID = ["--key", "id"]


@pytest.fixture(scope="module")
def _base(tmp_path_factory):
    """Models in order of time, without, and of numbers; the first has predicted two thirds of the stream."""
    folder = tmp_path_factory.mktemp("extend")
    reference, stream = make_tables()
    stream.write_csv(folder / "stream.csv")
    stream[:200].write_csv(folder / "first.csv")
    fit_model(folder, reference, "--drop", "id", "--time", "day", name="ordered")
    fit_model(folder, reference, "--drop", "id", "--no-ordered", name="unordered")
    options = ["--drop", "id", "--time", "day", "--task", "regression", "--estimator", "linear"]
    fit_model(folder, reference, *options, label="x3", name="numbers")
    adapt = ["adapt", str(folder / "ordered"), str(folder / "first.csv"), "-o", str(folder / "predictions.csv")]
    assert main([*adapt, "--key", "id", "--quiet"]) == 0
    return folder


@pytest.fixture(autouse=True)
def _folder(_base, monkeypatch):
    monkeypatch.chdir(_base)
    with restored(_base, "ordered"):
        yield


def stream() -> pl.DataFrame:
    return pl.read_csv("stream.csv")


def reference() -> pl.DataFrame:
    return pl.read_csv("reference.csv")


def write(frame: pl.DataFrame, name: str = "labelled.csv") -> str:
    frame.write_csv(name)
    return name


def extend(capsys, frame: pl.DataFrame | str, *options: str, code: int = 0, model: str = "model") -> dict | str:
    """Run the command on a frame or a file: the record it prints, or the error."""
    capsys.readouterr()
    given = frame if isinstance(frame, str) else write(frame)
    assert main(["extend", model, given, *options, "--json"]) == code
    printed = capsys.readouterr()
    return printed.err if code else json.loads(printed.out) | {"remarks": printed.err}


def n_reference() -> int:
    return len(load_table_model(Path("model")).model.labels_)


# --- what joins -----------------------------------------------------------------------------------------------


def test_the_rows_join_as_they_do_in_python(capsys):
    expected = accous.load("model").extend(stream()[:100])
    record = extend(capsys, stream()[:100])
    assert (record["joined"], record["reference_rows"], record["backtest"]) == (100, 400, expected.backtest_.summary())
    found = accous.load("model")
    assert np.array_equal(found.model.reference_weight_, expected.model.reference_weight_)
    assert found.backtest_ == expected.backtest_
    assert (found.settings, found.encoder) == (expected.settings, expected.encoder)
    for start in range(200, 300, 10):
        batch = stream()[start : start + 10]
        assert found.step(batch).equals(expected.step(batch))


def test_late_labels_alone_take_their_rows_from_what_the_folder_remembers(capsys):
    Path("first.csv").unlink()
    labels = stream()[:100].select("id", "label")[::-1]
    assert extend(capsys, write(labels, "labels.csv"), *BY_ID)["joined"] == 100
    found, expected = accous.load("model"), accous.load("ordered").extend(stream()[:100], order=True)
    assert np.array_equal(found.model.reference_, expected.model.reference_)
    assert np.array_equal(found.model.labels_, expected.model.labels_)
    assert found.encoder == expected.encoder


def test_labels_without_a_row_are_not_rows_without_a_label(capsys):
    frame = stream().with_columns(label=pl.when(pl.int_range(pl.len()) < 3).then(None).otherwise("label"))
    found = extend(capsys, write(frame.select("id", "label"), "labels.csv"))
    assert (found["without_label"], found["unmatched"], found["joined"]) == (3, 100, 197)


def test_a_key_may_be_a_column_of_the_model(capsys):
    shutil.rmtree("model")
    shutil.copytree("unordered", "model")
    used = load_table_model(Path("model")).encoder.used_columns
    key = next(name for name in used if stream()[name].n_unique() == stream().height)
    assert main(["adapt", "model", "first.csv", "-o", "keyed.csv", "--key", key, "--quiet"]) == 0
    labels = write(stream()[:50].select(key, "label"), "labels.csv")
    assert extend(capsys, labels, "--key", key)["joined"] == 50


def test_labels_of_another_name_rows_without_a_label_and_bad_rows(capsys):
    number = pl.int_range(pl.len())
    frame = stream()[:40].with_columns(truth=pl.when(number % 4 == 0).then(None).otherwise("label")).drop("label")
    frame = frame.with_columns(x0=pl.when(number == 3).then(pl.lit("?!")).otherwise(pl.col("x0").cast(str)))
    found = extend(capsys, frame, "--label", "truth", "--on-bad-row", "skip", "--rejects", "bad.csv")
    assert (found["joined"], found["without_label"], found["rejected"]) == (29, 10, 1)
    assert pl.read_csv("bad.csv")["line"].to_list() == [5]


def test_the_oldest_rows_leave(capsys):
    found = extend(capsys, stream()[:100], "--max-reference", "250")
    assert (found["joined"], found["left"], found["reference_rows"]) == (100, 150, 250)
    assert extend(capsys, stream()[100:110], "--max-reference", "200", "--drop-rows", "least-weight")["left"]


def test_categories_that_joined_are_still_unknown_to_the_model(capsys):
    """The columns stay encoded as fit decided: what joined is in the reference, but has no feature of its own."""
    assert extend(capsys, stream()[:40].with_columns(colour=pl.lit("never seen")))["joined"] == 40
    for command in ("adapt", "predict"):
        assert main([command, "model", "labelled.csv", "-o", f"{command}.csv", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["unknown_by_column"] == {"colour": 40}


# --- evidence -------------------------------------------------------------------------------------------------


def test_the_replay_is_that_of_the_new_reference_or_goes_without_an_order(tmp_path, capsys):
    assert extend(capsys, stream()[:200])["backtest"] == load_table_model(Path("model")).backtest_.summary()
    for options, n_joined in ([], 200), (["--no-ordered"], 250):
        if options:
            extend(capsys, stream()[200:250], *options)
        model = load_table_model(Path("model"))
        assert (len(model.model.task_), model.settings["n_joined"]) == (300 + n_joined, n_joined)
        assert (model.backtest_ is None) == bool(options)
    assert model.status_.reasons[0].code == "no_backtest"
    unordered = str(shutil.copytree("unordered", tmp_path / "unordered"))
    assert extend(capsys, stream()[:50], model=unordered)["backtest"] is None


# --- runs -----------------------------------------------------------------------------------------------------


def test_a_run_goes_on_after_rows_have_joined_bit_for_bit(capsys):
    """Half a stream, then `extend`, then the other half of the same file: as in Python, round by round."""
    expected = accous.load("ordered")
    shutil.copy("stream.csv", "first.csv")  # the file has grown
    extend(capsys, stream()[:100])
    assert main(["adapt", "model", "first.csv", "-o", "predictions.csv", "--key", "id", "--quiet"]) == 0
    expected.extend(stream()[:100])
    parts = [expected.step(stream()[start : start + 10]) for start in range(200, 300, 10)]
    columns = ["round", "prediction", "p_no", "p_yes", "ratio"]
    assert pl.read_csv("predictions.csv")[200:].select(columns).equals(pl.concat(parts).select(columns))


def test_new_classes_join_and_the_finished_predictions_are_not_continued(capsys):
    is_new = pl.int_range(pl.len()) < 20
    frame = stream()[:40].with_columns(label=pl.when(is_new).then(pl.lit("perhaps")).otherwise("label"))
    assert extend(capsys, frame)["new_classes"] == ["perhaps"]
    before = Path("predictions.csv").read_bytes()
    shutil.copy("stream.csv", "first.csv")  # the file has grown
    again = ["adapt", "model", "first.csv", "-o", "predictions.csv", "--key", "id", "--quiet"]
    assert main(again) == 1
    assert Path("predictions.csv").read_bytes() == before
    assert main([*again[:4], "others.csv", "--quiet"]) == 0
    assert "p_perhaps" in pl.read_csv("others.csv").columns


def test_an_unfinished_run_refuses_new_classes(capsys):
    Path("broken.csv").write_text(Path("stream.csv").read_text() + "oops\n")
    adapt = ["adapt", "model", "broken.csv", "-o", "out.csv", "--quiet"]
    assert main(adapt) == 1
    extend(capsys, stream()[:4].with_columns(pl.Series("label", ["perhaps", "yes", "no", "no"])), code=1)
    assert extend(capsys, stream()[:4])["joined"] == 4
    assert main([*adapt, "--on-bad-row", "skip"]) == 0


@pytest.mark.parametrize("place", ["write_data", "write_manifest"])
def test_a_save_that_fails_changes_nothing_and_the_command_can_be_repeated(capsys, monkeypatch, place):
    before = files_of(Path("model"))
    frame = stream()[:100].with_columns(pl.col("x0").cast(pl.String))
    frame[3, "x0"] = "?!"
    options = ["--on-bad-row", "skip", "--rejects", "bad.csv"]

    def fail(*_args):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(f"accous.checkpoint.folder.{place}", fail)
        assert "No space left" in extend(capsys, frame, *options, code=1)
    assert files_of(Path("model")).items() >= before.items()
    assert not Path("bad.csv").exists()
    found = extend(capsys, "labelled.csv", *options)
    assert (found["joined"], found["rejected"], n_reference()) == (99, 1, 399)
    assert Path("bad.csv").exists()


def test_a_locked_model_is_refused(capsys):
    with exclusive_lock(Path("model"), "accous adapt"):
        assert "accous adapt" in extend(capsys, stream()[:4], code=1)


# --- rows that the reference has already do not join again, whatever file they come in --------------------------


@pytest.mark.parametrize("name", ["ordered", "numbers"])
@pytest.mark.parametrize("options", [[], BY_ID], ids=["by line", "by key"])
def test_the_rows_that_fit_was_given_do_not_join_again(tmp_path, capsys, name, options):
    model = str(shutil.copytree(name, tmp_path / "model"))
    before = accous.load(model)
    shuffled = reference().sample(fraction=1.0, shuffle=True, seed=0)
    for frame in (reference(), shuffled.select(reversed(shuffled.columns))):
        found = extend(capsys, frame, *options, model=model)
        assert (found["joined"], found["in_reference"], found["reference_rows"]) == (0, 300, 300)
    assert accous.load(model).backtest_ == before.backtest_


def test_only_the_new_rows_of_a_reference_that_has_grown_join(capsys):
    grown = pl.concat((reference(), stream()[:100].with_columns(pl.col("id") + 1000)))
    found = extend(capsys, grown, *BY_ID)
    assert (found["joined"], found["in_reference"], found["reference_rows"]) == (100, 300, 400)
    expected = accous.load("ordered").extend(stream()[:100])
    assert np.array_equal(accous.load("model").model.reference_, expected.model.reference_)


@pytest.mark.parametrize("options", [[], BY_ID], ids=["by line", "by key"])
@pytest.mark.parametrize("every", [1, 50])
def test_the_same_customers_with_other_labels_join(capsys, options, every):
    """Without the rows whose label stayed, the reference would get changed labels only."""
    flipped = pl.col("label").replace({"yes": "no", "no": "yes"})
    is_changed = pl.int_range(pl.len()) % every == 0
    later = reference().with_columns(
        id=pl.col("id") + 1000, label=pl.when(is_changed).then(flipped).otherwise(pl.col("label"))
    )
    found = extend(capsys, later, *options)
    assert (found["joined"], found["in_reference"]) == (300, 0)
    assert ("294 of the rows" in found["remarks"]) == (every == 50)


def test_less_than_half_joins_with_a_remark_and_a_few_without(capsys):
    found = extend(capsys, pl.concat((reference()[:40], stream()[:60])))
    assert (found["joined"], found["in_reference"]) == (100, 0)
    assert "40 of the rows" in found["remarks"]
    found = extend(capsys, pl.concat((reference()[50:65], stream()[60:80])))
    assert found["joined"] == 35
    assert "of the rows" not in found["remarks"]


@pytest.mark.parametrize("n_levels", [2, 4, 9])
def test_other_rows_of_a_table_of_few_categories_join(tmp_path, capsys, n_levels):
    """Nearly each of them is the same as some row of the reference, but not as one that is there once."""
    random = np.random.default_rng(n_levels)
    values = random.integers(0, n_levels, size=(500, 3))
    frame = pl.DataFrame({f"c{place}": [f"v{each}" for each in values[:, place]] for place in range(3)})
    frame = frame.with_columns(label=pl.Series(np.where(values[:, 0] > random.integers(0, n_levels, 500), "a", "b")))
    few = fit_model(tmp_path, frame[:300], "--ordered", "--estimator", "linear")
    found = extend(capsys, frame[300:], model=str(few))
    assert (found["joined"], found["in_reference"]) == (200, 0)
