"""A ratio estimator of the user's own is saved by the name of its class, and given again to `load`."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import accous
from accous import AdaptiveClassifier, OnlineDensityRatio
from accous.exceptions import CheckpointError
from accous.ratio.base import RatioEstimator
from tests.checkpoint.cases import labels_of, numbers
from tests.checkpoint.folders import BATCH, REFERENCE, edit_manifest


class MeanRatio(RatioEstimator):
    """Follows the mean of the batches, with some memory."""

    max_ratio = 100.0

    def __init__(self, rate: float = 0.1) -> None:
        self.rate = rate

    def _start(self, X: Any) -> None:
        self.shift_ = np.zeros(X.shape[1])

    def _play(self, X: Any) -> None:
        self.shift_ = (1.0 - self.rate) * self.shift_ + self.rate * X.mean(axis=0)

    def _ratio(self, X: Any) -> NDArray[np.float64]:
        return np.exp(np.clip(X @ self.shift_, -4.0, 4.0))

    @property
    def reference_ratio_(self) -> NDArray[np.float64]:
        return self._ratio(self.reference_)


class SavedMeanRatio(MeanRatio):
    """The same, with what `save` and `load` need."""

    def state_to_plain(self) -> dict[str, Any]:
        return {"shift": self.shift_}

    def state_from_plain(self, plain: dict[str, Any], X: Any) -> None:
        self.shift_ = plain["shift"]


class CountingMeanRatio(SavedMeanRatio):
    """Counts its rounds besides; what is inherited from a class of the user's will do."""

    def _start(self, X: Any) -> None:
        super()._start(X)
        self.n_rounds_ = 0

    def _play(self, X: Any) -> None:
        super()._play(X)
        self.n_rounds_ += 1

    def state_to_plain(self) -> dict[str, Any]:
        return {**super().state_to_plain(), "n_rounds": self.n_rounds_}

    def state_from_plain(self, plain: dict[str, Any], X: Any) -> None:
        super().state_from_plain(plain, X)
        self.n_rounds_ = plain["n_rounds"]


class Unstorable(SavedMeanRatio):
    """Its state cannot be written to a file."""

    def state_to_plain(self) -> dict[str, Any]:
        return {"shift": object()}


class OwnOnline(OnlineDensityRatio):
    """Inherits methods that know nothing about what a subclass adds."""


class OwnClassifier(AdaptiveClassifier):
    """Not a ratio estimator."""


def fit_ratio(ratio: Any) -> Any:
    return ratio.fit(REFERENCE).partial_fit(BATCH)


def fit_classifier(ratio: Any) -> AdaptiveClassifier:
    return AdaptiveClassifier(ratio=ratio).fit(REFERENCE, labels_of(2)).adapt(BATCH)


@pytest.fixture(params=[fit_ratio, fit_classifier], ids=["ratio", "classifier"])
def saved_own(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with a saved model that needs a ratio estimator at `load`."""
    accous.save(request.param(SavedMeanRatio(0.2)), tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("kind", [SavedMeanRatio, CountingMeanRatio])
def test_a_ratio_goes_on_with_the_same_bits(kind: Any, tmp_path: Path) -> None:
    stays = fit_ratio(kind(0.2))
    accous.save(stays, tmp_path)
    given = kind(0.2)
    loaded = accous.load(tmp_path, ratio=given)
    assert type(loaded) is kind
    assert loaded.__getstate__().keys() == stays.__getstate__().keys()
    assert not hasattr(given, "reference_")
    for number in range(2, 8):
        assert loaded.predict_ratio(BATCH).tobytes() == stays.predict_ratio(BATCH).tobytes()
        loaded.partial_fit(numbers(number, 3))
        stays.partial_fit(numbers(number, 3))
    assert loaded.reference_ratio_.tobytes() == stays.reference_ratio_.tobytes()
    assert loaded.shift_.any()


def test_a_classifier_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    stays = fit_classifier(SavedMeanRatio(0.2))
    accous.save(stays, tmp_path)
    given = SavedMeanRatio(0.2)
    loaded = accous.load(tmp_path, ratio=given)
    assert loaded.ratio is given
    assert loaded.ratio_ is not given
    for number in range(2, 8):
        loaded.adapt(numbers(number, 3))
        stays.adapt(numbers(number, 3))
        assert loaded.reference_weight_.tobytes() == stays.reference_weight_.tobytes()
        assert loaded.predict_proba(BATCH).tobytes() == stays.predict_proba(BATCH).tobytes()
    assert np.ptp(loaded.reference_weight_) > 0.0


def test_a_loaded_model_can_be_saved_again(saved_own: Path) -> None:
    accous.save(accous.load(saved_own, ratio=SavedMeanRatio(0.2)), saved_own)
    accous.load(saved_own, ratio=SavedMeanRatio(0.2))
    assert len(list(saved_own.iterdir())) == 3


def test_only_class_name_and_parameters_are_in_the_file(saved_own: Path) -> None:
    text = (saved_own / "manifest.json").read_text()
    assert "SavedMeanRatio(rate=0.2)" in text
    assert __name__ not in text
    assert __name__.rpartition(".")[2] not in text


def test_a_missing_ratio_is_named(saved_own: Path) -> None:
    with pytest.raises(CheckpointError, match=r"pass them again, load\(path, ratio=SavedMeanRatio\(\.\.\.\)\)"):
        accous.load(saved_own)


def test_a_ratio_of_another_class_is_refused(saved_own: Path) -> None:
    with pytest.raises(CheckpointError, match=r"ratio=SavedMeanRatio\(rate=0.2\), not CountingMeanRatio\(rate=0.2\)"):
        accous.load(saved_own, ratio=CountingMeanRatio(0.2))


def test_a_ratio_with_other_parameters_is_refused(saved_own: Path) -> None:
    with pytest.raises(CheckpointError, match=r"ratio=SavedMeanRatio\(rate=0.2\), not SavedMeanRatio\(rate=0.3\)"):
        accous.load(saved_own, ratio=SavedMeanRatio(0.3))


def test_an_object_that_only_looks_the_same_is_refused(saved_own: Path) -> None:
    class Lookalike:
        def __repr__(self) -> str:
            return "SavedMeanRatio(rate=0.2)"

    Lookalike.__name__ = "SavedMeanRatio"
    with pytest.raises(CheckpointError, match="is no RatioEstimator"):
        accous.load(saved_own, ratio=Lookalike())


def test_a_class_of_the_same_name_without_the_methods_is_refused(saved_own: Path) -> None:
    without = type("SavedMeanRatio", (MeanRatio,), {})
    with pytest.raises(CheckpointError, match="has no state_to_plain of its own"):
        accous.load(saved_own, ratio=without(0.2))


@pytest.mark.parametrize("fit", [fit_ratio, fit_classifier])
@pytest.mark.parametrize("ratio", [MeanRatio(), OwnOnline()], ids=lambda ratio: type(ratio).__name__)
def test_a_ratio_without_methods_of_its_own_is_not_saved(fit: Any, ratio: Any, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=f"A {type(ratio).__name__} cannot be saved.*Define state_to_plain and"):
        accous.save(fit(ratio), tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("fit", [fit_ratio, fit_classifier])
def test_methods_that_take_other_arguments_are_found_when_it_is_saved(fit: Any, tmp_path: Path) -> None:
    class WithoutReference(SavedMeanRatio):
        def state_from_plain(self, plain: dict[str, Any]) -> None:  # type: ignore[override]
            self.shift_ = plain["shift"]

    message = r"WithoutReference.state_from_plain does not take .*: define it as state_from_plain\(self, plain, X\)"
    with pytest.raises(CheckpointError, match=message):
        accous.save(fit(WithoutReference()), tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_state_that_cannot_be_stored_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="model/shift is a object"):
        accous.save(fit_ratio(Unstorable()), tmp_path)


def test_a_subclass_of_the_classifier_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="OwnClassifier cannot be saved: use one of AdaptiveClassifier"):
        accous.save(OwnClassifier().fit(REFERENCE, labels_of(2)), tmp_path)


def test_a_class_name_alone_makes_nothing(saved_own: Path) -> None:
    """A forged manifest cannot name a class to be imported."""

    def forge(content: dict[str, Any]) -> None:
        place = content["model"].get("fitted_ratio", content["model"])
        place["class"] = place["$foreign"]["class"] = "Popen"

    edit_manifest(saved_own, forge, forge=True)
    assert "Popen" in json.dumps(json.loads((saved_own / "manifest.json").read_text()))
    with pytest.raises(CheckpointError, match=r"load\(path, ratio=Popen\(\.\.\.\)\)"):
        accous.load(saved_own)
