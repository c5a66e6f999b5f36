"""`accous fit --estimator`: what predicts, how a folder names it, and that a killed run goes on with the same bytes."""

import json
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.naive_bayes import GaussianNB

import accous
from accous.cli import main
from tests.cli.tables import write_tables
from tests.cli.test_kill import compare, run_well
from tests.cli.test_numbers import tables as number_tables

MY_MODELS = """
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import SVC


def make():
    return GaussianNB(var_smoothing=1e-6)


def unseeded():
    return RandomForestClassifier(5)


def without_probabilities():
    return SVC()
"""
FIT = ["fit", "reference.csv", "--label", "label", "-o", "model", "--drop", "id", "--quiet", "--estimator"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    write_tables(tmp_path, n_rounds=40, batch_size=3)
    (tmp_path / "cli_models.py").write_text(MY_MODELS)
    return tmp_path


@pytest.mark.parametrize(
    "name",
    [
        "cli_models:make",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("auto", "boosting", "linear", "forest")),
    ],
)
def test_killed_and_run_again_the_bytes_are_the_same(forks, folder, name):
    run_well(forks, folder, [*FIT, name])
    arguments = ["adapt", "model", "stream.csv", "-o", "predictions.csv", "--batch-size", "3", "--label", "label"]
    assert compare(forks, folder, [*arguments, "--estimator", name], n_kills=3, share=0.8) > 0
    predictions = pl.read_csv(folder / "predictions.csv")
    assert predictions.height == 120
    assert predictions["p_yes"].is_between(0.0, 1.0).all()


@pytest.mark.parametrize(
    "name", ["linear", pytest.param("boosting", marks=pytest.mark.slow), pytest.param("forest", marks=pytest.mark.slow)]
)
def test_numbers_too(forks, folder, name):
    for part, frame in zip(("reference", "stream"), number_tables(), strict=True):
        frame.write_csv(folder / f"{part}.csv")
    fit = ["fit", "reference.csv", "--target", "minutes", "-o", "model", "--ordered", "--quiet", "--estimator", name]
    run_well(forks, folder, fit)
    arguments = ["adapt", "model", "stream.csv", "-o", "predictions.csv", "--batch-size", "2", "--label", "minutes"]
    assert compare(forks, folder, arguments, n_kills=3, share=0.8) > 0
    predictions = pl.read_csv(folder / "predictions.csv")
    assert (predictions["low"] < predictions["high"]).all()


def test_a_forest_that_your_function_did_not_seed_predicts_the_same_every_time(folder):
    name = ["--estimator", "cli_models:unseeded", "--quiet"]
    assert main([*FIT, name[1], "--no-ordered"]) == 0
    found = []
    for output in ("one.csv", "two.csv"):
        assert main(["predict", "model", "stream.csv", "-o", output, *name]) == 0
        found.append(pl.read_csv(output).drop("id"))  # each prediction has an id of its own
    assert found[0].equals(found[1])


def test_other_parameters_than_those_of_the_fit_are_refused(folder, monkeypatch):
    name = ["--estimator", "cli_models:make"]
    assert main([*FIT, name[1], "--no-ordered"]) == 0
    for models, code in ((MY_MODELS.replace("1e-6", "0.00001"), 1), (MY_MODELS, 0)):
        (folder / "cli_models.py").write_text(models)
        monkeypatch.delitem(sys.modules, "cli_models")
        for command in ("adapt", "predict"):
            assert main([command, "model", "stream.csv", "-o", f"{command}.csv", *name]) == code
            assert Path(f"{command}.csv").exists() == (code == 0)


def test_your_own_code_is_named_again_and_never_by_the_folder(folder, capsys):
    assert main([*FIT, "cli_models:make", "--no-ordered", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["estimator"] == "cli_models:make"
    adapt = ["adapt", "model", "stream.csv", "-o", "predictions.csv"]
    for options in ([], ["--estimator", "forest"]):
        assert main([*adapt, *options]) == 1
        assert "--estimator cli_models:make" in capsys.readouterr().err
    for given, culprit in (({}, "GaussianNB"), ({"estimator": GaussianNB()}, "same class and parameters")):
        with pytest.raises(accous.exceptions.CheckpointError, match=culprit):
            accous.load("model", **given)
    assert accous.load("model", estimator=GaussianNB(var_smoothing=1e-6)).model.n_rounds_ == 0


def test_a_name_of_ours_needs_no_repeating(folder, capsys):
    pl.read_csv("reference.csv").head(100).write_csv("reference.csv")
    assert main([*FIT, "boosting", "--no-ordered"]) == 0
    assert main(["predict", "model", "stream.csv", "-o", "predictions.csv", "--quiet"]) == 0
    assert main(["status", "model"]) == 0
    assert accous.load("model").settings["estimator"] == "boosting"
    assert accous.load("model").model.estimator is not None


def test_fit_says_how_rarely_a_costly_predictor_is_refitted(folder, capsys):
    fit = [each for each in FIT if each != "--quiet"]
    # A forest, of five trees: any takes much longer to fit than to ask.
    for name, is_costly in (("cli_models:unseeded", True), ("linear", False)):
        assert main([*fit, name, "--no-ordered", "--force"]) == 0
        assert ("--refit-budget 0.2" in capsys.readouterr().err) is is_costly


def test_auto_shows_both_predictors_and_their_weights(folder, capsys):
    random = np.random.default_rng(0)
    a, b = random.normal(size=(2, 520))
    pl.DataFrame({"a": a, "b": b, "label": (a * b > 0).astype(int)}).write_csv("reference.csv")
    options = ["reference.csv", "--label", "label", "--quiet", "--ordered"]
    assert main(["fit", *options, "-o", "model", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["estimator"] == accous.load("model").settings["estimator"] == "auto"
    linear, boosting = (record["predictors"][name] for name in ("linear", "boosting"))
    assert linear["error"] > 0.3
    assert boosting["error"] < 0.2
    assert linear["weight"] + boosting["weight"] == 1.0
    assert record["predictors"]["together"]["error"] == pytest.approx(1.0 - record["accuracy"])
    assert main(["backtest", *options, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["adapted_minus_fixed"] == record["backtest"]["adapted_minus_fixed"]
    assert main(["fit", *options, "-o", "model", "--force"]) == 0
    sentence = f"linear (weight {linear['weight']:.2f}, error {linear['error']:.1%})"
    assert sentence in " ".join(capsys.readouterr().out.split())
    assert main(["report", "model", "-o", "report.html", "--quiet"]) == 0
    assert sentence in Path("report.html").read_text()


def test_auto_is_linear_with_few_rows_and_a_penalty_is_for_the_linear_part(folder, capsys):
    for options in ([], ["--C", "2", "--force"]):
        assert main([*FIT[:-1], "--no-ordered", "--json", *options]) == 0
        record = json.loads(capsys.readouterr().out)
        assert record["estimator"] == "linear"
        assert record["predictors"] is None


def test_rare_classes_weigh_more_if_asked_for(folder, capsys):
    assert main([*FIT[:-1], "--no-ordered", "--class-weight", "balanced"]) == 0
    model = accous.load("model").model
    weights = [model.base_weight_[model.labels_ == number].sum() for number in range(2)]
    assert weights[0] == pytest.approx(weights[1])
    capsys.readouterr()
    numbers = ["fit", "reference.csv", "--target", "x0", "-o", "m", "--drop", "id"]
    assert main([*numbers, "--class-weight", "balanced"]) == 2
    assert "--class-weight is" in " ".join(capsys.readouterr().err.split())
