"""`accous ask` and `accous labels`: rows are chosen, labelled, measured and learned from, once each."""

import json

import numpy as np
import polars as pl
import pytest

import accous
from accous.cli import main


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
    import shutil

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
    first = ask("-n", "100", "--key", "id")
    assert first.columns == ["id", "kind", "x", "z", "label"]
    assert first["label"].null_count() == 100
    rows = pl.read_csv("stream.csv").filter(pl.col("id").is_in(first["id"].to_list()))
    assert first.drop("label").equals(rows)
    main(["predict", "model", "stream.csv", "-o", "again.csv", "--key", "id", "--quiet"])
    second = ask("-n", "450", "--key", "id", output="more.csv")
    assert not set(first["id"]) & set(second["id"])
    assert ask("-n", "100", "--key", "id", output="rest.csv").height == 50
    capsys.readouterr()
    assert main(["ask", "model", "stream.csv", "-n", "5", "-o", "to_label.csv"]) != 0


def test_labels_are_measured_then_learned_and_can_be_taken_back(model, capsys):
    before = error_of_predictions()
    name = fill(ask("-n", "200", "--key", "id"))
    capsys.readouterr()
    assert main(["labels", "model", name, "--key", "id", "--json", "--quiet"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["counted"], found["learning"]["labels"]) == (200, 200)
    learned = error_of_predictions()
    assert learned < before - 0.1
    table_model = accous.load("model")
    assert [plan.levels for plan in table_model.encoder.extra] == [["c"]]
    assert table_model.model.state_.labelled.chosen.tolist() == pytest.approx([1 / 3] * 200)
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


def test_a_budget_draws_a_share_and_rows_are_predicted_first(folder, model):
    truth = pl.read_csv("truth.csv")
    truth.drop("label").with_columns(pl.col("id") + 5_000).write_csv("stream.csv")
    asked = ask("--labels-per", "10", "2", "--with-predictions")
    assert asked.columns == ["line", "id", "kind", "x", "z", "prediction", "label"]
    assert 80 < asked.height < 160
    assert ask("--labels-per", "10", "2", output="again.csv").height == 0
    assert accous.load("model").model.n_rounds_ == 12


@pytest.mark.parametrize(
    "options", [[], ["-n", "5", "--labels-per", "10", "2"], ["--labels-per", "5", "10"], ["-n", "0"]]
)
def test_what_cannot_be_asked_is_refused(model, options):
    assert main(["ask", "model", "stream.csv", "-o", "x.csv", *options]) == 2
