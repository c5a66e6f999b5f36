"""`history_`: what the last rounds did, bounded, saved, and without computing anything that a round has not."""

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import accous
from accous import AdaptiveClassifier, NoShift
from accous.core.kernels_rows import effective_rows
from accous.diagnostics.losses import effective_sample_size
from accous.model.watching import MAX_ROUNDS, NO_ROUNDS, RoundLog, rounds_from_plain
from accous.streams import GaussianStream, SquareShift
from tests.classifiers import drifting_batches, labelled_rows, play

MODELS = {
    "own": lambda: AdaptiveClassifier(caution="low"),
    "plain": lambda: AdaptiveClassifier(fallback="none"),
    "pipeline": lambda: AdaptiveClassifier(LogisticRegression(), refit=3),
    "never": lambda: AdaptiveClassifier(ratio=NoShift()),
}


@pytest.mark.parametrize("make_model", MODELS.values(), ids=MODELS)
def test_every_round_is_what_the_model_showed_after_it(make_model: Any) -> None:
    stream = GaussianStream(SquareShift(period=60), n_reference=150, n_rounds=150, batch_size=3)
    model = make_model().fit(*stream.reference())
    assert len(model.history_) == 0
    shown = []
    for batch in stream:
        before = model.n_refits_
        model.adapt(batch.X[: 1 + model.n_rounds_ % 3])
        state = model.state_
        shown.append(
            {
                "rows": 1 + (model.n_rounds_ - 1) % 3,
                "effective_rows": model.effective_sample_size_,
                "share": model._exponent_in_use(state),
                "refit": model.n_refits_ > before,
                "drift": any(each.kind == "shift" and each.round == model.n_rounds_ for each in model.drift_events_),
                "adapted": model.estimator_ is not model.fixed_.estimator,
            }
        )
    history = model.history_
    expected = pd.DataFrame(shown, index=pd.RangeIndex(1, 151, name="round"))
    pd.testing.assert_frame_equal(history[expected.columns.tolist()], expected, rtol=1e-9)
    assert history.filter(like="error").isna().all(axis=None)
    assert history["refit"].sum() == model.n_refits_


def test_a_drifting_stream_shows_drift_and_refits() -> None:
    stream = GaussianStream(SquareShift(period=100), n_reference=300, n_rounds=200, batch_size=5)
    model = play(AdaptiveClassifier().fit(*stream.reference()), (batch.X for batch in stream))
    history = model.history_
    assert history.index[history["drift"]].tolist() == [e.round for e in model.drift_events_ if e.kind == "shift"]
    assert history["drift"].any()
    assert history["adapted"].any()
    assert not history["adapted"].all()


def test_the_error_is_that_of_the_rounds_after_which_it_was_read() -> None:
    model = AdaptiveClassifier(fallback="none").fit(*labelled_rows())
    read = {}
    for number, batch in enumerate(drifting_batches(30), start=1):
        model.adapt(batch)
        if number % 7 == 0 or number == 30:
            risk = model.risk_
            read[number] = (risk.adapted, risk.adapted_low, risk.adapted_high)
    errors = model.history_[["estimated_error", "estimated_error_low", "estimated_error_high"]]
    known = errors.dropna()
    assert dict(zip(known.index, known.itertuples(index=False, name=None), strict=True)) == read


def test_only_the_last_rounds_are_kept() -> None:
    log, weights = NO_ROUNDS, np.ones(4)
    n_rounds = MAX_ROUNDS + 700
    for number in range(n_rounds):
        log = noted(log, weights, number)
    assert sum(map(len, log.blocks)) < MAX_ROUNDS + 32
    rows = log.rows({})[-MAX_ROUNDS:]
    assert rows[:, 0].tolist() == list(range(700, n_rounds))


def test_a_round_is_predicted_by_what_the_round_before_left() -> None:
    log, weights = RoundLog(), np.ones(4)
    for held in (True, False, False, True):
        log = log.after({}, weights, 5, share=1.0, refit=True, drift=False, held=held)
    # The predictors of the four rounds: fixed, fixed, adapted, adapted; then the fixed one again.
    assert [log.share_adapted(n_rounds) for n_rounds in (1, 2, 3, 4, 9)] == [1.0, 1.0, 2 / 3, 0.5, 0.5]


def noted(log: RoundLog, weights: Any, n_rows: int) -> RoundLog:
    return log.after({}, weights, n_rows, share=1.0, refit=False, drift=False, held=False)


@pytest.mark.parametrize("n_rounds", [0, 1, 31, 32, 33, 34, 100])
def test_a_stored_log_goes_on_as_if_it_had_not_been_stored(n_rounds: int) -> None:
    log, weights = NO_ROUNDS, np.ones(4)
    for number in range(n_rounds):
        log = noted(log, weights, number)
    again = rounds_from_plain(log.to_plain({}))
    for number in range(70):
        log, again = noted(log, weights, number), noted(again, weights, number)
        assert len(log.blocks) == len(again.blocks)
        assert len(log.waiting) == len(again.waiting)
    assert log.rows({}).tobytes() == again.rows({}).tobytes()


@pytest.mark.parametrize("reads", [False, True], ids=["unread", "read before saving"])
def test_a_saved_model_resumes_with_the_same_history(tmp_path: Path, reads: bool) -> None:
    batches = drifting_batches(180)
    stays = play(AdaptiveClassifier().fit(*labelled_rows()), batches[:140])
    if reads:
        assert stays.risk_.adapted > 0.0
    accous.save(stays, tmp_path / "model")
    goes_on, copied = accous.load(tmp_path / "model"), pickle.loads(pickle.dumps(stays))
    for model in (stays, goes_on, copied):
        play(model, batches[140:])
        assert model.history_.shape == (180, 9)
        pd.testing.assert_frame_equal(model.history_, stays.history_, check_exact=True)
    assert np.isfinite(stays.history_["estimated_error"].loc[140]) == reads


def test_the_rounds_of_an_extended_model_go_on() -> None:
    X, y = labelled_rows()
    model = play(AdaptiveClassifier().fit(X, y), drifting_batches(10)).extend(X[:20], y[:20])
    play(model, drifting_batches(5))
    assert model.history_.index.tolist() == list(range(1, 16))
    assert model.history_["effective_rows"].iloc[-1] == pytest.approx(model.effective_sample_size_)


def test_fit_forgets_the_rounds() -> None:
    model = play(AdaptiveClassifier().fit(*labelled_rows()), drifting_batches(10)).fit(*labelled_rows())
    assert len(model.history_) == 0


@pytest.mark.slow
def test_without_pandas_everything_else_works_and_the_error_says_what_to_install() -> None:
    code = """
import sys
class NoPandas:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, NoPandas)
import numpy as np
from accous import AdaptiveClassifier
from accous.exceptions import MissingExtraError
X = np.random.default_rng(0).normal(size=(60, 2))
model = AdaptiveClassifier().fit(X, X[:, 0] > 0)
model.step(X)
assert "Rounds" in model._repr_html_()
try:
    model.history_
except MissingExtraError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout == "history_ needs pandas, which is not installed: pip install 'pandas' adds it.\n"


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_the_compiled_count_is_the_plain_one(scale: float) -> None:
    rng = np.random.default_rng(0)
    for n_rows in (1, 7, 1000):
        weights = scale * rng.exponential(size=n_rows)
        shares = weights / weights.max()
        expected = shares.sum() ** 2 / (shares**2).sum()
        assert effective_rows(weights) == pytest.approx(expected, rel=1e-12)
        assert effective_sample_size(weights) == effective_rows(weights)
