"""Recipe: a feature map is a subclass of `NamedMap` and an entry of `FEATURE_MAPS`, both in ratio/features.py."""

from dataclasses import dataclass

import numpy as np
import pytest

import accous
from accous import AdaptiveClassifier, OnlineDensityRatio, SingleLearnerRatio
from accous.cli import main
from accous.ratio.features import FEATURE_MAPS, NamedMap
from accous.streams import GaussianStream, SquareShift
from tests.cli.tables import write_tables


@dataclass(frozen=True)
class Ranks(NamedMap):
    """Each value becomes the share of the reference below it."""

    columns: np.ndarray

    @classmethod
    def fit(cls, X, random_state):  # noqa: ARG003
        return cls(np.sort(X, axis=0))

    def transform(self, X):
        shares = [np.searchsorted(known, values) for known, values in zip(self.columns.T, np.asarray(X).T, strict=True)]
        return np.transpose(shares) / len(self.columns)


@pytest.fixture(autouse=True)
def _toy_map(monkeypatch):
    monkeypatch.setitem(FEATURE_MAPS, "ranks", Ranks)


@pytest.mark.parametrize("kind", [OnlineDensityRatio, SingleLearnerRatio])
def test_estimators_take_it_by_name_and_resume_from_a_folder(kind, tmp_path):
    stream = GaussianStream(SquareShift(period=20), n_rounds=30, batch_size=5, n_reference=200)
    model = AdaptiveClassifier(ratio=kind("ranks")).fit(*stream.reference())
    for batch in stream:
        model.adapt(batch.X)
    assert isinstance(model.ratio_.features_.row_map, Ranks)
    assert model.ratio_.reference_ratio_.std() > 0.01
    accous.save(model, tmp_path / "model")
    loaded = accous.load(tmp_path / "model")
    for each in (model, loaded):
        each.adapt(batch.X)
    np.testing.assert_array_equal(loaded.reference_weight_, model.reference_weight_)


def test_the_command_line_takes_it_by_name(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_tables(tmp_path, n_rounds=10)
    fit = ["fit", "reference.csv", "--label", "label", "-o", "model", "--feature-map"]
    assert main([*fit, "rank"]) == 2
    assert "'ranks'" in capsys.readouterr().err
    assert main([*fit, "ranks"]) == 0
    assert main(["adapt", "model", "stream.csv", "-o", "predictions.csv"]) == 0
