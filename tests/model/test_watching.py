"""`history_` and the log: what happened in rounds, without computing anything that a round has not."""

import logging
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from accous import AdaptiveClassifier, NoShift
from accous.core.kernels_weights import effective_rows
from accous.diagnostics.losses import effective_sample_size
from accous.model.round import log_events
from accous.model.safeguards import LENIENT, STRICT, next_veto
from accous.model.watching import MAX_ROUNDS, NO_ROUNDS, rounds_from_plain
from accous.streams import GaussianStream, SquareShift
from tests.classifiers import drifting_batches, labelled_rows, run_rounds

# --- `history_` ---------------------------------------------------------------------------------------------


MODELS = {
    "own": AdaptiveClassifier,
    "plain": lambda: AdaptiveClassifier(adaptation="always"),
    "pipeline": lambda: AdaptiveClassifier(LogisticRegression(), refit=3),
    "never": lambda: AdaptiveClassifier(ratio=NoShift()),
}


@pytest.mark.parametrize("make_model", MODELS.values(), ids=MODELS)
def test_every_round_is_what_the_model_showed_after_it(make_model):
    stream = GaussianStream(SquareShift(period=60), n_reference=150, n_rounds=150, batch_size=3)
    model, read = (make_model().fit(*stream.reference()) for _ in range(2))
    assert len(model.history_) == 0
    shown = []
    for batch in stream:
        before = model.n_refits_
        read.adapt(batch.X[: 1 + model.n_rounds_ % 3])
        model.adapt(batch.X[: 1 + model.n_rounds_ % 3])
        shown.append(
            {
                "rows": 1 + (model.n_rounds_ - 1) % 3,
                "effective_rows": model.effective_sample_size_,
                "share": read.state_.safeguards.share,
                "refit": model.n_refits_ > before,
                "drift": any(each.kind == "shift" and each.round == model.n_rounds_ for each in model.drift_.events),
                "adapted": model.estimator_ is not model.fixed_.estimator,
            }
        )
    history = model.history_
    expected = pd.DataFrame(shown, index=pd.RangeIndex(1, 151, name="round"))
    pd.testing.assert_frame_equal(history[expected.columns.tolist()], expected, rtol=1e-9)
    assert history.filter(like="error").isna().all(axis=None)
    assert history["refit"].sum() == model.n_refits_


def test_a_drifting_stream_shows_drift_and_refits():
    stream = GaussianStream(SquareShift(period=100), n_reference=300, n_rounds=200, batch_size=5)
    model = run_rounds(AdaptiveClassifier().fit(*stream.reference()), (batch.X for batch in stream))
    history = model.history_
    assert history.index[history["drift"]].tolist() == [e.round for e in model.drift_.events if e.kind == "shift"]
    assert history["drift"].any()
    assert history["adapted"].any()
    assert not history["adapted"].all()


def noted(log, weights, n_rows):
    return log.after(None, 4.0, n_rows, share=1.0, refit=False, drift=False, held=False)


def test_only_the_last_rounds_are_kept():
    log, weights = NO_ROUNDS, np.ones(4)
    n_rounds = MAX_ROUNDS + 700
    for number in range(n_rounds):
        log = noted(log, weights, number)
    assert sum(map(len, log.blocks)) < MAX_ROUNDS + 32
    assert log.rows()[-MAX_ROUNDS:][:, 0].tolist() == list(range(700, n_rounds))


@pytest.mark.parametrize("n_rounds", [0, 1, 31, 32, 33, 34, 100])
def test_a_stored_log_goes_on_as_if_it_had_not_been_stored(n_rounds):
    log, weights = NO_ROUNDS, np.ones(4)
    for number in range(n_rounds):
        log = noted(log, weights, number)
    again = rounds_from_plain(log.to_plain(None))
    for number in range(70):
        log, again = noted(log, weights, number), noted(again, weights, number)
        assert len(log.blocks) == len(again.blocks)
        assert len(log.pending) == len(again.pending)
    assert log.rows().tobytes() == again.rows().tobytes()


def test_fit_forgets_the_rounds():
    X, y = labelled_rows()
    model = run_rounds(AdaptiveClassifier().fit(X, y), drifting_batches(10))
    run_rounds(model, drifting_batches(5))
    assert model.history_.index.tolist() == list(range(1, 16))
    assert model.history_["effective_rows"].iloc[-1] == pytest.approx(model.effective_sample_size_)
    assert len(model.fit(X, y).history_) == 0


@pytest.mark.slow
def test_without_pandas_everything_else_works_and_the_error_says_what_to_install():
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
    assert "pip install 'pandas'" in run.stdout


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_the_compiled_count_is_the_plain_one(scale):
    rng = np.random.default_rng(0)
    for n_rows in (1, 7, 1000):
        weights = scale * rng.exponential(size=n_rows)
        shares = weights / weights.max()
        expected = shares.sum() ** 2 / (shares**2).sum()
        assert effective_rows(weights) == pytest.approx(expected, rel=1e-12)
        assert effective_sample_size(weights) == effective_rows(weights)


RANDOM = np.random.default_rng(3)
X = RANDOM.normal(size=(300, 3))
Y = (X[:, 0] + RANDOM.normal(size=300) > 0).astype(int)


def fitted(**parameters):
    return AdaptiveClassifier(**parameters).fit(X, Y)


def with_veto(safeguards, veto):
    return replace(safeguards, share=1.0, check=replace(safeguards.check, veto=veto))


def stream(shift, n_rounds=100):
    return list(np.random.default_rng(4).normal(loc=(shift, 0.0, 0.0), size=(n_rounds, 5, 3)))


# --- logging under the name accous --------------------------------------------------------------------------


def logged(caplog, level, *words):
    records = [each for each in caplog.records if each.name == "accous" and each.levelname == level]
    return [each.getMessage() for each in records if all(word in each.getMessage() for word in words)]


def test_drift_is_logged(caplog):
    caplog.set_level(logging.INFO, logger="accous")
    model = run_rounds(fitted(), stream(2.0, 200))
    shifts = [event for event in model.drift_.events if event.kind == "shift"]
    assert logged(caplog, "INFO", "the inputs changed")[0].startswith(f"Round {shifts[0].round}: ")
    n_over = sum(event.rounds_to_adapt is not None for event in shifts)
    assert len(logged(caplog, "INFO", "is over")) == n_over > 0


def test_a_veto_is_logged_when_it_is_taken_and_when_it_is_released(caplog):
    model = fitted().adapt(X[:5])
    before = model.state_

    def after(guard, excess, error, n_rounds):
        veto = next_veto(guard, excess, error, n_rounds, 3)
        return replace(before, n_rounds=n_rounds, safeguards=with_veto(before.safeguards, veto))

    caplog.set_level(logging.INFO, logger="accous")
    held = after(LENIENT, 0.05, 0.01, 32)
    log_events(before, held, model.fixed_)
    log_events(held, held, model.fixed_)
    log_events(held, after(LENIENT, float("nan"), float("nan"), 64), model.fixed_)
    log_events(after(STRICT, -0.005, 0.01, 32), after(STRICT, -0.049, 0.01, 33), model.fixed_)
    taken, released, first = logged(caplog, "WARNING") + logged(caplog, "INFO")
    assert all(part in taken for part in ("Round 32", "fixed model", "+5.0 points", "1.0"))
    assert all(part in released for part in ("Round 64", "adapted model"))
    assert all(part in first for part in ("Round 33", "adapted model", "-4.9 points", "1.0"))


def test_onsets_in_single_columns_are_logged_once(caplog):
    caplog.set_level(logging.INFO, logger="accous")
    model = AdaptiveClassifier().fit(np.column_stack((X, np.ones(300))), Y)
    for batch in np.random.default_rng(5).normal(size=(96, 5, 3)):
        model.adapt(np.column_stack((batch, np.full(5, 2.0))))
    onset = next(event for event in model.drift_.events if event.kind == "new values")
    (message,) = (text for level in ("INFO", "WARNING") for text in logged(caplog, level, "column x3"))
    assert message.startswith(f"Round {onset.round}: ")


def test_the_replays_of_a_backtest_leave_nothing_in_the_log(caplog):
    caplog.set_level(logging.INFO, logger="accous")
    drifting = X + np.linspace(0.0, 6.0, 300)[:, None]
    model = AdaptiveClassifier().fit(drifting, Y, order=True)
    assert model.backtest_ is not None
    assert caplog.records == []
    for batch in stream(12.0):
        model.adapt(batch)
    assert caplog.records != []


def test_nothing_is_printed_unless_logging_is_configured(library_forks):
    code = """
import numpy as np, accous
X = np.random.default_rng(0).normal(size=(50, 2))
model = accous.AdaptiveClassifier().fit(X, X[:, 0] > 0)
print(model.status_.state)
"""
    run = library_forks.run(code, kind="code")
    assert (run.stdout, run.stderr) == ("None\n", "")
