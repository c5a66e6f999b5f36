"""`step` is `predict` followed by `adapt`, with the rows read once."""

from threading import Thread
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from accous import AdaptiveClassifier
from accous.exceptions import DataError
from accous.model import estimators as learning
from tests.classifiers import PROBE, FailingClassifier, drifting_batches, labelled_rows, shown_state

MODELS = {
    "own": AdaptiveClassifier,
    "plain": lambda: AdaptiveClassifier(fallback="none"),
    "pipeline": lambda: AdaptiveClassifier(LogisticRegression()),
}


@pytest.mark.parametrize("make_model", MODELS.values(), ids=MODELS)
def test_the_same_bits_as_predict_then_adapt(make_model: Any) -> None:
    X, y = labelled_rows(n_classes=3)
    one, two = make_model().fit(X, y), make_model().fit(X, y)
    for batch in drifting_batches(40):
        expected = two.predict(batch)
        two.adapt(batch)
        found = one.step(batch)
        assert found.tolist() == expected.tolist()
        assert found.dtype == expected.dtype
    assert shown_state(one, PROBE) == shown_state(two, PROBE)


def test_the_rows_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = labelled_rows()
    model = AdaptiveClassifier().fit(pd.DataFrame(X, columns=["a", "b", "c"]), y)
    n_reads = []
    read = AdaptiveClassifier._read
    monkeypatch.setattr(
        AdaptiveClassifier, "_read", lambda *args, **options: n_reads.append(1) or read(*args, **options)
    )
    model.step(pd.DataFrame(PROBE, columns=["a", "b", "c"]))
    assert len(n_reads) == 1


def test_an_empty_batch_is_no_round() -> None:
    model = AdaptiveClassifier().fit(*labelled_rows())
    predicted = model.step(np.empty((0, 3)))
    assert predicted.shape == (0,)
    assert predicted.dtype == model.classes_.dtype
    assert model.n_rounds_ == 0


def test_an_unfitted_model_asks_for_fit() -> None:
    with pytest.raises(NotFittedError):
        AdaptiveClassifier().step(PROBE)


def test_a_bad_row_leaves_the_model_as_it_was() -> None:
    model = AdaptiveClassifier().fit(*labelled_rows())
    before = shown_state(model, PROBE)
    with pytest.raises(DataError, match="row 1"):
        model.step(np.array([[1.0, 2.0, 3.0], [1.0, np.nan, 3.0]]))
    assert shown_state(model, PROBE) == before


def test_a_refit_that_fails_leaves_the_model_as_it_was() -> None:
    FailingClassifier.fail_at()
    model = AdaptiveClassifier(FailingClassifier(), fallback="none", refit="always").fit(*labelled_rows())
    FailingClassifier.fail_at(1)
    with pytest.raises(RuntimeError, match="told to fail"):
        model.step(PROBE)
    assert model.n_rounds_ == 0


def test_no_round_of_another_thread_comes_between_prediction_and_learning(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that adapts while another is in `step` waits: the predictions are those of the round's first state."""
    model = AdaptiveClassifier(fallback="none").fit(*labelled_rows())
    others: list[Thread] = []
    rounds_before_learning = []
    predicted, play = AdaptiveClassifier._predicted, learning.run_round

    def predict_and_start_another(self: Any, method: str, rows: Any) -> Any:
        result = predicted(self, method, rows)
        others.append(Thread(target=model.adapt, args=(PROBE,)))
        others[-1].start()
        others[-1].join(0.2)
        return result

    def note_round(rules: Any, before: Any, *args: Any) -> Any:
        rounds_before_learning.append((len(args[0]), before.n_rounds))
        return play(rules, before, *args)

    monkeypatch.setattr(AdaptiveClassifier, "_predicted", predict_and_start_another)
    monkeypatch.setattr(learning, "run_round", note_round)
    model.step(PROBE[:7])
    others[0].join()
    assert rounds_before_learning == [(7, 0), (len(PROBE), 1)]
