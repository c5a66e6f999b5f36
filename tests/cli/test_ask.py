"""`accous ask` and `accous labels`: rows are chosen, labelled, measured and learned from, once each."""

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accous
from accous.checkpoint.folder import state_to_plain
from accous.cli import main
from accous.table.labels import LabelJob
from accous.table.options import LabelsOptions
from accous.table.store import STORE_NAME
from tests.cli.processes import files_of, rows_of_store


def make_table(n_rows, kinds, sign, seed):
    """Rows whose label turns round with the sign, and is "yes" for all of the kind c."""
    rng = np.random.default_rng(seed)
    kind, x, z = rng.choice(kinds, n_rows), *rng.normal(size=(2, n_rows))
    label = np.where(sign * (x + z) + 5.0 * (kind == "c") > 0.0, "yes", "no")
    ids = np.arange(n_rows) + 10_000 * seed
    return pl.DataFrame({"id": ids, "kind": kind, "x": x, "z": z, "label": label})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model that has followed a stream with a new category, whose labels have turned round."""
    path = tmp_path_factory.mktemp("ask")
    make_table(300, ["a", "b"], 1.0, 1).write_csv(path / "reference.csv")
    truth = make_table(600, ["b", "c"], -1.0, 2)
    truth.write_csv(path / "truth.csv")
    truth.drop("label").write_csv(path / "stream.csv")
    fit = ["fit", str(path / "reference.csv"), "--label", "label", "--drop", "id", "--no-ordered", "--quiet"]
    assert main([*fit, "--estimator", "linear", "-o", str(path / "model")]) == 0
    adapt = ["adapt", str(path / "model"), str(path / "stream.csv"), "-o", str(path / "predictions.csv"), "--quiet"]
    assert main([*adapt, "--key", "id", "--batch-size", "50"]) == 0
    return path


@pytest.fixture
def model(folder, tmp_path, monkeypatch):
    """A copy of the folder to work in."""
    shutil.copytree(folder, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    return "model"


def ask(*options, output="to_label.csv"):
    assert main(["ask", "model", "stream.csv", "-o", output, "--quiet", *options]) == 0
    return pl.read_csv(output, schema_overrides={"label": pl.String})


def fill(asked, name="labelled.csv", by="id"):
    truth = pl.read_csv("truth.csv").with_row_index("line", offset=2).select(pl.col(by).cast(pl.Int64), "label")
    asked.drop("label").join(truth, on=by, how="left", maintain_order="left").write_csv(name)
    return name


def error_of_predictions():
    main(["predict", "model", "stream.csv", "-o", "now.csv", "--quiet", "--force"])
    return (pl.read_csv("now.csv")["prediction"] != pl.read_csv("truth.csv")["label"]).mean()


def test_asked_rows_are_as_they_are_and_come_once(model, capsys):
    before = files_of(Path(model))
    first = ask("-n", "100", "--key", "id")
    changed = {name for name, content in files_of(Path(model)).items() if content != before.get(name)}
    assert changed <= {STORE_NAME}  # asking alone leaves the model as it is
    assert first.columns == ["id", "kind", "x", "z", "label"]
    assert first["label"].null_count() == 100
    rows = pl.read_csv("stream.csv").filter(pl.col("id").is_in(first["id"].to_list()))
    assert first.drop("label").equals(rows)
    main(["predict", "model", "stream.csv", "-o", "again.csv", "--key", "id", "--quiet"])
    second = ask("-n", "450", "--key", "id", output="more.csv")
    assert not set(first["id"]) & set(second["id"])
    third = ask("-n", "40", "--key", "id", output="rest.csv")
    assert ask("-n", "100", "--key", "id", output="last.csv").height == 10
    assert not set(third["id"]) & {*first["id"], *second["id"]}
    capsys.readouterr()
    assert main(["ask", "model", "stream.csv", "-n", "5", "-o", "to_label.csv"]) != 0


def test_of_a_long_stream_the_newest_rows_are_asked_about(model):
    pl.concat([pl.read_csv("stream.csv").with_columns(pl.col("id") + 1000 * each) for each in range(1, 4)]).write_csv(
        "long.csv"
    )
    assert main(["ask", "model", "long.csv", "-n", "100", "-o", "few.csv", "--key", "id", "--quiet"]) == 0
    newest = pl.read_csv("long.csv")["id"].tail(500)
    assert pl.read_csv("few.csv")["id"].is_in(newest.to_list()).all()
    chosen = rows_of_store(Path("model"))
    assert main(["ask", "model", "long.csv", "-n", "400", "-o", "many.csv", "--key", "id", "--quiet"]) == 0
    many = pl.read_csv("many.csv")["id"]
    assert len(many) == 400
    assert not many.is_in(newest.to_list()).all()
    assert len(chosen) == 2400


def test_labels_of_older_rows_count_less(model):
    """What the state says of now must not rest on rows of long ago that were labelled only now."""
    truth = pl.read_csv("truth.csv")
    rows = ask("-n", "300", "--key", "id").select("id").join(truth.select("id", "label"), on="id")
    rows.write_csv("labels.csv")
    assert main(["labels", "model", "labels.csv", "--key", "id", "--quiet", "--measure-only"]) == 0
    labelled = accous.load("model").model.state_.labelled
    wanted = labelled.arrived[-1] - (rows["id"].max() - rows["id"].sort().to_numpy())
    assert labelled.arrived.tolist() == wanted.tolist()


def test_labels_are_measured_then_learned_and_can_be_taken_back(model, capsys):
    before = error_of_predictions()
    name = fill(ask("-n", "200", "--key", "id"))
    capsys.readouterr()
    assert main(["labels", "model", name, "--key", "id", "--json", "--quiet"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["counted"], found["learning"]["labels"]) == (200, 200)
    assert main(["report", "model", "-o", "page.html", "--quiet"]) == 0
    assert " 200 labels" in Path("page.html").read_text()
    learned = error_of_predictions()
    assert learned < before - 0.1
    table_model = accous.load("model")
    assert [plan.levels for plan in table_model.encoder.extra] == [["c"]]
    assert table_model.model.state_.labelled.chosen.tolist() == pytest.approx([200 / 500] * 200)
    assert table_model.model.state_.learning.kept.is_asked.all()
    assert main(["labels", "model", name, "--key", "id", "--quiet"]) == 0  # once more changes nothing
    assert error_of_predictions() == learned
    assert main(["labels", "model", "--undo", "--quiet"]) == 0
    assert error_of_predictions() == before
    assert accous.load("model").learned_ == ()


def test_a_correction_takes_the_place_of_a_label(model):
    asked = ask("-n", "100", "--key", "id")
    wrong = asked.with_columns(label=pl.lit("yes"))
    wrong.write_csv("wrong.csv")
    assert main(["labels", "model", "wrong.csv", "--key", "id", "--quiet"]) == 0
    assert main(["labels", "model", fill(asked), "--key", "id", "--quiet"]) == 0
    kept = accous.load("model").model.state_.learning.kept
    assert len(kept) == 100
    truth = dict(pl.read_csv("truth.csv").select("id", "label").iter_rows())
    assert sorted(kept.truths.tolist()) == sorted(truth[each] for each in asked["id"])


def test_without_learning_the_predictions_stay(model):
    before = error_of_predictions()
    name = fill(ask("-n", "100"), by="line")
    assert main(["labels", "model", name, "--measure-only", "--quiet"]) == 0
    assert error_of_predictions() == before
    assert main(["labels", "model", fill(ask("-n", "100", output="b.csv"), "b2.csv", "line"), "--quiet"]) == 0
    assert len(accous.load("model").model.state_.learning.kept) == 100


def test_a_budget_draws_a_share_and_rows_are_predicted_first(model, capsys):
    truth = pl.read_csv("truth.csv")
    truth.drop("label").with_columns(pl.col("id") + 5_000).write_csv("stream.csv")
    asked = ask("--labels-per", "10", "2", "--with-predictions")
    assert asked.columns == ["line", "id", "kind", "x", "z", "prediction", "label"]
    assert 80 < asked.height < 160
    assert ask("--labels-per", "10", "2", output="again.csv").height == 0
    assert "\n0 of 4" in capsys.readouterr().out
    assert accous.load("model").model.n_rounds_ == 12


@pytest.mark.parametrize(
    "options", [[], ["-n", "5", "--labels-per", "10", "2"], ["--labels-per", "5", "10"], ["-n", "0"]]
)
def test_what_cannot_be_asked_is_refused(model, options):
    assert main(["ask", "model", "stream.csv", "-o", "x.csv", *options]) == 2


def test_rows_that_were_noted_before_a_kill_are_not_lost(model):
    first = ask("-n", "20", "--key", "id")
    Path("to_label.csv").rename("to_label.csv.predicting")  # killed between the store and the file
    assert ask("-n", "20", "--key", "id").equals(first)
    Path("more.csv.predicting").write_text("id,kind\n1,b\n")  # killed while it wrote
    assert not set(ask("-n", "20", "--key", "id", output="more.csv")["id"]) & set(first["id"])


def test_rows_are_found_by_key_in_another_file_too(model):
    rows = pl.read_csv("stream.csv")
    rows[::-1].write_csv("stream.csv")
    asked = ask("-n", "30", "--key", "id", "--with-predictions")
    then = pl.read_csv("predictions.csv").select("id", then="prediction")
    assert asked.drop("label", "prediction").equals(asked.select("id").join(rows, on="id", maintain_order="left"))
    assert (asked["prediction"] == asked.join(then, on="id", maintain_order="left")["then"]).all()


def test_the_key_is_that_of_the_run(model, capsys):
    assert main(["ask", "model", "stream.csv", "-n", "5", "-o", "x.csv", "--key", "kind"]) == 2
    assert "column 'id'" in capsys.readouterr().err
    name = fill(ask("-n", "5", "--key", "id"))
    assert main(["labels", "model", name, "--key", "kind"]) == 2
    assert "--key id" in capsys.readouterr().err
    pl.read_csv(name).rename({"id": "number"}).write_csv("renamed.csv")
    assert main(["labels", "model", "renamed.csv", "--key", "number", "--quiet"]) == 0


def give(folder, rows, labels):
    """Give labels of some rows of the stream, by key."""
    pl.DataFrame({"id": rows, "label": labels}).write_csv(folder / "given.csv")
    job = LabelJob(LabelsOptions(model=folder / "model", labels=str(folder / "given.csv"), key="id"))
    job.run()
    return job


def test_a_file_taken_back_leaves_no_trace_and_labels_do_not_become_younger(folder, model):
    truth = pl.read_csv("truth.csv")
    here, keys, labels = Path(), truth["id"].to_list(), truth["label"].to_list()
    give(here, keys[:100], labels[:100])
    stream = pl.read_csv("stream.csv").with_columns(pl.col("id") + 10_000)
    stream[:300].write_csv("more.csv")
    assert main(["adapt", "model", "more.csv", "-o", "more_out.csv", "--key", "id", "--new", "--quiet"]) == 0
    give(here, keys[100:200], labels[100:200])
    before = accous.load("model")
    # The newest row of a file is as old as the file, and each one before it a row older.
    arrived = [*range(501, 601), *range(801, 901)]
    labelled = before.model.state_.labelled
    assert labelled.arrived.tolist() == arrived
    assert labelled.made_at.tolist() == [*range(1, 201)]
    assert labelled.came.tolist() == [600] * 100 + [900] * 100
    give(here, keys[200:350], ["yes"] * 150)
    with_wrong = rows_of_store(Path("model"))
    shutil.copy(f"model/{STORE_NAME}", "ahead.sqlite")
    assert main(["labels", "model", "--undo", "--quiet"]) == 0
    after, rest = accous.load("model"), pl.read_csv("stream.csv")
    assert np.array_equal(after.model.state_.labelled.made_at, labelled.made_at)
    assert np.array_equal(after.model.state_.labelled.came, labelled.came)
    assert after.predict(rest).equals(before.predict(rest))
    assert after.learned_ == before.learned_
    # Killed after the model was saved and before the store was: the next command takes the file back there too.
    files, rows = files_of(Path("model")), rows_of_store(Path("model"))
    shutil.copy("ahead.sqlite", f"model/{STORE_NAME}")
    assert rows_of_store(Path("model")) == with_wrong
    assert main(["labels", "model", "given.csv", "--key", "id", "--quiet"]) == 0
    assert main(["labels", "model", "--undo", "--quiet"]) == 0
    assert rows_of_store(Path("model")) == rows
    assert files_of(Path("model")).keys() == files.keys()
    assert accous.load("model").predict(rest).equals(before.predict(rest))


@pytest.mark.parametrize("n_first", [20, 40, 100])  # too few to learn from, learned, and some that wait
def test_taking_a_correction_back_is_exact(n_first, model):
    truth = pl.read_csv("truth.csv")
    here, twin, keys, labels = Path(), Path("twin"), truth["id"].to_list(), truth["label"].to_list()
    give(here, keys[:n_first], labels[:n_first])
    give(here, keys[n_first : n_first + 5], labels[n_first : n_first + 5])
    shutil.copytree("model", "twin/model")
    give(here, keys[10:150], ["no" if label == "yes" else "yes" for label in labels[10:150]])
    assert main(["labels", "model", "--undo", "--quiet"]) == 0
    assert rows_of_store(Path("model")) == rows_of_store(Path("twin/model"))
    for more in (150, 300):
        found, expected = (accous.load(place / "model") for place in (here, twin))
        with np.printoptions(threshold=10**9, precision=17):
            assert repr(state_to_plain(found.model)["learning"]) == repr(state_to_plain(expected.model)["learning"])
        assert found.encoder == expected.encoder
        assert found.label_rows == expected.label_rows
        rows = slice(more, more + 60)
        give(here, keys[rows], labels[rows])
        give(twin, keys[rows], labels[rows])


STEPS = st.one_of(
    st.tuples(st.lists(st.integers(0, 99), min_size=1, max_size=60), st.sampled_from(["yes", "no", "maybe"])),
    st.just("undo"),
)


@settings(max_examples=8, deadline=None)
@given(st.lists(STEPS, min_size=1, max_size=4))
def test_whatever_comes_each_row_has_its_last_label_once(folder, steps):
    """Any order, repeated rows, corrections, a new class, rows that nobody predicted, and files taken back."""
    keys = pl.read_csv(folder / "stream.csv")["id"].to_list()
    files: list[dict[int, str]] = []
    with TemporaryDirectory() as place:
        here = Path(place)
        shutil.copytree(folder / "model", here / "model")
        for step in steps:
            if step == "undo":
                if files:
                    LabelJob(LabelsOptions(model=here / "model", undo=True)).undo()
                    files.pop()
                continue
            rows, label = step
            expected: dict[int, str] = {}
            for file in files:
                expected |= file
            new = {keys[row]: label for row in rows}
            give(here, [*(keys[row] for row in rows), 777], [*[label] * len(rows), "no"])
            if any(expected.get(key) != each for key, each in new.items()):
                files.append(new)
        expected = {}
        for file in files:
            expected |= file
        found = accous.load(here / "model").model.state_
        labels = {row[1]: row[11] for row in rows_of_store(here / "model") if row[11] is not None}
        assert labels == {str(key): label for key, label in expected.items()}
        assert (0 if found.labelled is None else len(found.labelled)) == len(expected)
        assert (0 if found.learning is None else len(found.learning.kept)) in (0, len(expected))
