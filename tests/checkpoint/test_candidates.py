"""A pool with candidates of the user's own goes on with the same bits."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

import accous
from accous import ULSIF, AdaptiveClassifier, LogisticRatio, OnlineDensityRatio, SingleLearnerRatio
from accous.exceptions import CheckpointError
from tests.budgets import rest_slow
from tests.checkpoint.test_own_ratio import MeanRatio, SavedMeanRatio
from tests.checkpoint.test_resume_pool import N_AFTER, assert_same_bits, batches, model_numbers, pool_numbers, reference


def tilted(X: Any) -> Any:
    return np.exp(X[:, 0])


OWN = {
    "one-step": [ULSIF(random_state=0), LogisticRatio()],
    "online": [SingleLearnerRatio(), OnlineDensityRatio(feature_map="rbf", random_state=0)],
}
FOREIGN = {
    "a function": [tilted, ULSIF(random_state=0)],
    "an estimator": [SavedMeanRatio(0.2)],
    "a transformer": [OnlineDensityRatio(StandardScaler())],
}


def played(candidates: Any, n_rounds: int = 50) -> OnlineDensityRatio:
    ratio = OnlineDensityRatio(candidates=candidates).fit(reference()[0])
    for batch in batches(n_rounds):
        ratio.partial_fit(batch)
    return ratio


def assert_goes_on(model: Any, loaded: Any) -> None:
    numbers_of = model_numbers if isinstance(model, AdaptiveClassifier) else pool_numbers
    for batch in batches(N_AFTER, seed=2):
        assert_same_bits(numbers_of(loaded), numbers_of(model))
        for each in (model, loaded):
            (each.adapt if isinstance(each, AdaptiveClassifier) else each.partial_fit)(batch)
    assert_same_bits(numbers_of(loaded), numbers_of(model))


@pytest.mark.parametrize("candidates", OWN.values(), ids=OWN)
def test_estimators_of_this_package_are_saved(candidates: Any, tmp_path: Path) -> None:
    ratio = played(candidates)
    accous.save(ratio, tmp_path)
    assert_goes_on(ratio, accous.load(tmp_path))


@pytest.mark.parametrize("candidates", FOREIGN.values(), ids=FOREIGN)
def test_others_are_given_again(candidates: Any, tmp_path: Path) -> None:
    ratio = played(candidates)
    accous.save(ratio, tmp_path)
    with pytest.raises(CheckpointError, match=r"pass them again, load\(path, candidates=\[\.\.\.\]\)"):
        accous.load(tmp_path)
    with pytest.raises(CheckpointError, match=r"was saved with candidates=.* not "):
        accous.load(tmp_path, candidates=[LogisticRatio()])
    assert_goes_on(ratio, accous.load(tmp_path, candidates=candidates))


@pytest.mark.parametrize("n_rounds", rest_slow([96, 50]))
def test_a_classifier(n_rounds: int, tmp_path: Path) -> None:
    candidates = (tilted, ULSIF(random_state=0))
    model = AdaptiveClassifier(ratio=OnlineDensityRatio(candidates=candidates)).fit(*reference())
    for batch in batches(n_rounds):
        model.adapt(batch)
    accous.save(model, tmp_path)
    assert_goes_on(model, accous.load(tmp_path, candidates=candidates))


def test_what_cannot_be_saved_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="A MeanRatio cannot be saved"):
        accous.save(played([MeanRatio()], 2), tmp_path)


def test_candidates_set_after_fit_are_refused(tmp_path: Path) -> None:
    ratio = played([ULSIF()], 2).set_params(candidates=[ULSIF(), ULSIF()])
    accous.save(ratio, tmp_path)
    with pytest.raises(CheckpointError, match="saved pool has 1 candidates but the parameter candidates has 2"):
        accous.load(tmp_path)
