"""Folders that the first version of the format wrote are loaded, and go on.

The estimate and the paper's method go on as they did then. The safeguards of that version are gone: those of this one
take over from the first round.
"""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

import accous
from accous.cli import main

SAVED = Path(__file__).parent / "saved_by_0_1"
# Bits depend on the processor.
ABOUT_THE_SAME = {"rtol": 1e-9, "atol": 1e-9}
# Predictions are written with six decimals.
WRITTEN = {"rtol": 0.0, "atol": 1.1e-6}


@pytest.fixture(scope="module")
def expected() -> dict[str, NDArray[Any]]:
    with np.load(SAVED / "expected.npz") as file, np.load(SAVED / "without_fallback.npz") as others:
        return dict(file) | dict(others)


def test_a_classifier_goes_on(expected: dict[str, NDArray[Any]]) -> None:
    model = accous.load(SAVED / "classifier")
    assert model.n_rounds_ == 20
    assert model.standardize is False  # what that version did
    assert model.ratio_.pool == "none"
    probabilities = []
    for batch in expected["batches"]:
        probabilities.append(model.predict_proba(batch))
        model.adapt(batch)
    np.testing.assert_allclose(probabilities[0], expected["classifier_probabilities"][0], **ABOUT_THE_SAME)
    np.testing.assert_allclose(model.ratio_.coef_, expected["classifier_theta"], **ABOUT_THE_SAME)
    # Other safeguards, same stream: the answers and weights stay close.
    assert np.abs(probabilities - expected["classifier_probabilities"]).mean() < 0.05
    assert np.corrcoef(model.reference_weight_, expected["classifier_weights"])[0, 1] > 0.95
    assert abs(model.risk_estimate_ - expected["classifier_risk"]) < 0.05


def test_a_classifier_without_the_fallback_goes_on_as_it_did_then(expected: dict[str, NDArray[Any]]) -> None:
    model = accous.load(SAVED / "classifier").set_params(fallback="none")
    probabilities = []
    for batch in expected["batches"]:
        probabilities.append(model.predict_proba(batch))
        model.adapt(batch)
    np.testing.assert_allclose(probabilities, expected["paper_probabilities"], **ABOUT_THE_SAME)
    np.testing.assert_allclose(model.reference_weight_, expected["paper_weights"], **ABOUT_THE_SAME)
    np.testing.assert_allclose(model.estimator_.coef_, expected["paper_coef"], **ABOUT_THE_SAME)
    np.testing.assert_allclose(model.risk_estimate_, expected["paper_risk"], **ABOUT_THE_SAME)


def test_a_ratio_goes_on(expected: dict[str, NDArray[Any]]) -> None:
    ratio = accous.load(SAVED / "ratio")
    assert ratio.n_rounds_ == 20
    ratios = []
    for batch in expected["batches"]:
        ratios.append(ratio.predict_ratio(batch))
        ratio.partial_fit(batch)
    np.testing.assert_allclose(ratios, expected["ratio_ratios"], **ABOUT_THE_SAME)
    np.testing.assert_allclose(ratio.coef_, expected["ratio_coef"], **ABOUT_THE_SAME)
    np.testing.assert_allclose(ratio.reference_ratio_, expected["ratio_reference"], **ABOUT_THE_SAME)


def test_the_command_line_goes_on(expected: dict[str, NDArray[Any]], tmp_path: Path) -> None:
    model, output = shutil.copytree(SAVED / "table", tmp_path / "model"), tmp_path / "predictions.csv"
    options = ["--batch-size", "10", "--quiet", "-o", str(output)]
    assert main(["adapt", str(model), str(SAVED / "stream.csv"), *options]) == 0
    found, then = pl.read_csv(output), pl.read_csv(SAVED / "predictions.csv")
    assert found["line"].to_list() == list(range(2, len(then) + 2))
    found = found.drop("line")
    assert found.columns == then.columns
    assert found["prediction"][:10].to_list() == then["prediction"][:10].to_list()
    numbers, numbers_then = found.drop("prediction").to_numpy(), then.drop("prediction").to_numpy()
    np.testing.assert_allclose(numbers[:10], numbers_then[:10], **WRITTEN)
    assert (found["prediction"] == then["prediction"]).mean() > 0.95
    adapted = accous.load(model).model
    np.testing.assert_allclose(adapted.ratio_.coef_, expected["table_theta"], **ABOUT_THE_SAME)
    assert np.corrcoef(adapted.reference_weight_, expected["table_weights"])[0, 1] > 0.95


@pytest.mark.parametrize("name", ["classifier", "ratio", "table"])
def test_a_save_into_the_folder_keeps_its_reference(name: str, tmp_path: Path) -> None:
    folder = shutil.copytree(SAVED / name, tmp_path / "model")
    (before,) = folder.glob("reference-*.npz")
    accous.save(accous.load(folder), folder)
    assert before.is_file()
    assert len(list(folder.glob("*.npz"))) == 2
