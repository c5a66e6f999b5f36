"""Recipe: a loss is a subclass of `Loss` and an entry of `LOSSES`, both in core/losses.py. Nothing else."""

import json
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import accous
from accous import AdaptiveClassifier, OnlineDensityRatio, SingleLearnerRatio
from accous.cli import main
from accous.core.losses import LOSSES, Loss
from accous.streams import ConstantShift, GaussianStream
from tests.cli.tables import write_tables


@dataclass(frozen=True)
class LogLinearKL(Loss):
    """The Kullback-Leibler divergence of a log-linear ratio: a(z) = exp(-z), b(z) = z; a tangent beyond the cap."""

    cap: float

    name: ClassVar[str] = "toy"
    neutral_score: ClassVar[float] = 0.0
    is_log_linear: ClassVar[bool] = True

    @classmethod
    def make(cls, max_ratio):
        return cls(cap=math.log(max_ratio))

    def reference_term(self, scores):
        capped = np.minimum(-scores, self.cap)
        return np.exp(capped) * (1.0 + (-scores - capped))

    def batch_term(self, scores):
        return scores

    def reference_slope(self, scores):
        return -np.exp(np.minimum(-scores, self.cap))

    def batch_slope(self, scores):
        return np.ones_like(scores)

    def ratio(self, scores, max_ratio):
        return np.minimum(np.exp(np.minimum(-scores, self.cap)), max_ratio)

    def gradient_bound(self, radius, feature_bound):
        return feature_bound * (1.0 + math.exp(self.cap))


@pytest.fixture(autouse=True)
def _toy_loss(monkeypatch):
    monkeypatch.setitem(LOSSES, "toy", LogLinearKL)


def follow(model, n_rounds=60):
    """Run rounds of a stream that has moved for good; returns it for more."""
    stream = GaussianStream(ConstantShift(0.1), n_features=3, n_reference=300, n_rounds=n_rounds, batch_size=5)
    X, y = stream.reference()
    model.fit(X, y)
    for batch in stream:
        model.adapt(batch.X) if isinstance(model, AdaptiveClassifier) else model.partial_fit(batch.X)
    return stream, batch


def test_the_slopes_of_the_toy_are_its_derivatives():
    loss, scores, step = LogLinearKL.make(100.0), np.linspace(-7.0, 7.0, 101), 1e-6
    for term, slope in ((loss.reference_term, loss.reference_slope), (loss.batch_term, loss.batch_slope)):
        difference = (term(scores + step) - term(scores - step)) / (2.0 * step)
        np.testing.assert_allclose(difference, slope(scores), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", [OnlineDensityRatio, SingleLearnerRatio])
def test_estimators_take_it_by_name_and_learn(kind):
    ratio = kind(loss="toy")
    stream, batch = follow(ratio)
    assert isinstance(ratio.loss_, LogLinearKL)
    neutral = kind(loss="toy").fit(stream.reference()[0])
    assert ratio.score_loss(batch.X) < neutral.score_loss(batch.X)
    truth = stream.reference_ratio(0.1)
    assert np.corrcoef(np.log(ratio.reference_ratio_), np.log(truth))[0, 1] > 0.7


@pytest.mark.parametrize("kind", [OnlineDensityRatio, SingleLearnerRatio])
def test_the_classifier_adapts_with_it_and_resumes_from_a_folder(kind, tmp_path):
    model = AdaptiveClassifier(ratio=kind(loss="toy"))
    _, batch = follow(model)
    assert model.n_refits_ > 0
    accous.save(model, tmp_path / "model")
    loaded = accous.load(tmp_path / "model")
    for each in (model, loaded):
        each.adapt(batch.X)
    np.testing.assert_array_equal(loaded.reference_weight_, model.reference_weight_)


@pytest.mark.parametrize("ratio", ["accous", "olre"])
def test_the_command_line_takes_it_by_name(ratio, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_tables(tmp_path, n_rounds=20)
    assert main(["fit", "reference.csv", "--label", "label", "-o", "model", "--loss", "huber"]) == 2
    assert "'toy'" in capsys.readouterr().err
    assert main(["fit", "reference.csv", "--label", "label", "-o", "model", "--loss", "toy", "--ratio", ratio]) == 0
    assert main(["adapt", "model", "stream.csv", "-o", "predictions.csv", "--batch-size", "5"]) == 0
    capsys.readouterr()
    assert main(["status", "model", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rounds"] == 20
