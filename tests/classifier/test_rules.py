"""What `fit` fixes for all rounds belongs to one model alone, and follows its parameters."""

import copy
import gc
import weakref

import numpy as np

import accous
from accous import AdaptiveClassifier
from tests.classifiers import PROBE, drifting_batches, labelled_rows, play, shown_state


def test_a_copy_does_not_depend_on_what_the_original_is_fitted_on_later():
    original = play(AdaptiveClassifier().fit(*labelled_rows()), drifting_batches(5))
    other = copy.copy(original)
    X, y = labelled_rows()
    original.fit(X[:, :2], y)
    play(other, drifting_batches(40, n_rows=8))
    assert other.n_rounds_ == 45


def test_a_model_is_freed_when_nobody_holds_it():
    model = play(AdaptiveClassifier().fit(*labelled_rows()), drifting_batches(3))
    watched = weakref.ref(model)
    gc.disable()
    try:
        del model
        assert watched() is None
    finally:
        gc.enable()


def test_parameters_set_between_rounds_count_from_then_on_as_after_saving(tmp_path):
    model = play(AdaptiveClassifier().fit(*labelled_rows()), drifting_batches(10))
    model.set_params(refit="always", fallback="none")
    accous.save(model, tmp_path)
    loaded = accous.load(tmp_path)
    batches = drifting_batches(12, seed=4)
    before = model.n_refits_
    assert shown_state(play(loaded, batches), PROBE) == shown_state(play(model, batches), PROBE)
    assert model.n_refits_ == before + 12
    assert np.all(model.state_.weights == loaded.state_.weights)
