"""The history of a table model: bounded, complete, the same after an interruption, and read late without a trace."""

from copy import copy
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from accous import AdaptiveClassifier
from accous.diagnostics.drift import DriftEvent
from accous.diagnostics.risk import RiskEstimate
from accous.diagnostics.trust import VERDICTS
from accous.model.watching import NO_ROUNDS, Read
from accous.streams import GaussianStream, SquareShift
from accous.table import history as histories
from accous.table.history import MOST_POINTS, History, is_chosen


@pytest.fixture(scope="module")
def model() -> AdaptiveClassifier:
    random = np.random.default_rng(0)
    X = random.normal(size=(40, 2))
    model = AdaptiveClassifier(random_state=0).fit(X, X[:, 0] > 0)
    for _ in range(9):
        model.adapt(random.normal(size=(3, 2)))
    return model


def record(model: AdaptiveClassifier, n_rounds: int, interrupted_at: tuple[int, ...] = ()) -> History:
    history = History()
    for number in range(1, n_rounds + 1):
        history.add(model, number, 2, 1, number % 2)
        if number in interrupted_at:
            history = History.from_plain(history.to_plain())
    return history


@pytest.mark.parametrize("n_rounds", [1, 7, MOST_POINTS - 1, MOST_POINTS, MOST_POINTS + 1, 5 * MOST_POINTS + 3])
def test_it_is_bounded_and_loses_no_count(model, n_rounds):
    history = record(model, n_rounds)
    assert len(history) < MOST_POINTS
    assert history.totals() == {
        "n_rows": n_rounds * (n_rounds + 1) // 2,
        "n_scored": 2 * n_rounds,
        "n_wrong_fixed": n_rounds,
        "n_wrong": (n_rounds + 1) // 2,
    }
    assert n_rounds - history.stride < (history.rounds[-1] if len(history) else 0) <= n_rounds
    assert history.n_rounds == n_rounds


@pytest.mark.parametrize("n_rounds", [7, MOST_POINTS, 2 * MOST_POINTS + 3])
def test_late_labels_count_in_the_rounds_that_predicted_their_rows(model, n_rounds):
    history = History()
    for _ in range(n_rounds):
        history.add(model, 1)
    rounds = np.array([1.0, 1.0, 3.0, n_rounds, n_rounds + 1, 0.0, np.nan])
    history.add_labels(rounds, np.array([1.0, 0.0, 0.5, 0.25, 1.0, 1.0, 1.0]))
    history = History.from_plain(history.to_plain())
    totals = {"n_late": {1: 2.0, 3: 1.0, n_rounds: 1.0}, "late_loss": {1: 1.0, 3: 0.5, n_rounds: 0.25}}
    for name, by_round in totals.items():
        expected = np.zeros(len(history))
        for number, value in by_round.items():
            if (number - 1) // history.stride < len(history):  # the open point is shown when it is closed
                expected[(number - 1) // history.stride] += value
        assert np.array_equal(history.column(name), expected)


def test_late_labels_stay_when_points_are_merged(model):
    history = History()
    for _ in range(MOST_POINTS - 1):
        history.add(model, 1)
    history.add_labels(np.arange(1.0, 9.0), np.ones(8))
    history.add(model, 1)
    assert history.stride == 2
    assert history.column("n_late")[:5].tolist() == [2.0, 2.0, 2.0, 2.0, 0.0]


def test_an_interruption_leaves_no_trace(model):
    n_rounds = 2 * MOST_POINTS + 77
    expected = record(model, n_rounds).to_plain()
    found = record(model, n_rounds, interrupted_at=(1, 100, MOST_POINTS, MOST_POINTS + 5, n_rounds)).to_plain()
    for name, value in expected.items():
        assert np.array_equal(found[name], value, equal_nan=True), name


def test_readings_are_those_of_the_model(model):
    history = record(model, 3)
    assert history.column("effective_sample_size").tolist() == [model.effective_sample_size_] * 3
    assert history.column("risk").tolist() == [model.risk_.adapted] * 3
    assert history.length_weights.sum(axis=1) == pytest.approx(np.ones(3))


class Swinging:
    """Stands for a model whose effective sample size swings with the round's number, mean 100."""

    ratio_ = None
    reference_weight_ = np.ones(3)

    def __init__(self, model: AdaptiveClassifier, period: float) -> None:
        self.risk_, self.trust_ = model.risk_, model.trust_
        self.period, self.number = period, 0

    def snapshot(self) -> SimpleNamespace:
        return SimpleNamespace(risk=self.risk_, trust=self.trust_)

    @property
    def effective_sample_size_(self) -> float:
        return 100.0 + 50.0 * np.sin(2.0 * np.pi * self.number / self.period)


@pytest.mark.parametrize("period", [31.7, 63.7, 64.4, 365.0])
def test_a_short_period_makes_no_slow_waves(model, period):
    """Points of 64 rounds: the last round of each, as the curve once showed it, beats against a period near 64."""
    n_rounds, swinging, history = 33 * MOST_POINTS, Swinging(model, period), History()
    for swinging.number in range(1, n_rounds + 1):
        history.add(swinging, 1)
    assert history.stride == 64

    swinging_at_last = [100.0 + 50.0 * np.sin(2.0 * np.pi * last / period) for last in history.rounds]
    old, new = (slow_part(np.asarray(curve)) for curve in (swinging_at_last, history.column("effective_sample_size")))
    assert new < 8.0
    if abs(64.0 / period - round(64.0 / period)) < 0.02:  # beats in waves longer than 16 points
        assert old > 25.0


def slow_part(curve: np.ndarray) -> float:
    """Amplitude of the strongest wave that is longer than 16 points."""
    spectrum = np.abs(np.fft.rfft(curve - curve.mean())) * 2.0 / len(curve)
    return float(spectrum[1 : len(curve) // 16].max())


def test_merged_points_are_means_and_the_worst_verdict(model):
    history, swinging = History(), Swinging(model, 7.0)
    expected = np.empty(MOST_POINTS)
    for swinging.number in range(1, MOST_POINTS + 1):
        expected[swinging.number - 1] = swinging.effective_sample_size_
        swinging.trust_ = replace(model.trust_, verdict="no overlap" if swinging.number == 6 else "good")
        history.add(swinging, 1, time=1000.0 * swinging.number)
    assert history.stride == 2
    np.testing.assert_allclose(history.column("effective_sample_size"), expected.reshape(-1, 2).mean(axis=1))
    assert history.column("verdict")[:4].tolist() == [0.0, 0.0, float(VERDICTS.index("no overlap")), 0.0]
    assert history.column("time").tolist() == [2000.0 * point for point in range(1, len(history) + 1)]


@pytest.mark.parametrize("every", [2, 8, 64])
def test_one_round_of_each_block_is_chosen_and_all_places_are(every):
    chosen = np.array([number for number in range(1, 200 * every + 1) if is_chosen(number, every)])
    assert ((chosen - 1) // every).tolist() == list(range(200))
    assert len(set((chosen - 1) % every)) > 0.9 * every


class Drifting(Swinging):
    """Stands for a model whose estimated error is a thousandth of the round's number."""

    def __init__(self, model: AdaptiveClassifier) -> None:
        super().__init__(model, period=100.0)
        self._risk, self.drift_events_ = model.risk_, ()

    def run(self, number: int) -> None:
        self.number = number
        values = dict.fromkeys(("adapted", "adapted_low", "adapted_high"), number / 1000)
        self.risk_ = replace(self._risk, **values)


def follow(model: AdaptiveClassifier, n_rounds: int, *, n_scored: int, change: int | None = None) -> list[float]:
    """Return how old the estimate for the rows of each round is, in that round; NaN if there is none."""
    drifting, history, ages = Drifting(model), History(), []
    for number in range(1, n_rounds + 1):
        drifting.run(number)
        if number == change:
            drifting.drift_events_ = (DriftEvent(number, 0.5, ("x0",), None),)
        history.add(drifting, 5, n_scored)
        changes = [event.round for event in drifting.drift_events_]
        ages.append(number - 1000 * history.risk_at(np.array([number]), changes=changes)[0, 0])
    return ages


def test_rounds_with_labels_have_an_estimate_of_the_last_rounds(model):
    ages = follow(model, MOST_POINTS - 1, n_scored=2)
    assert max(ages) == pytest.approx(8.0)
    assert 32.0 >= np.nanmax(follow(model, MOST_POINTS - 1, n_scored=0)) > 16.0


def test_a_short_stream_has_a_curve_and_a_long_one_few_readings(model):
    """Each of the first 16 rounds, then one of 8 up to round 256, and half as often when the rounds have doubled."""
    drifting, history, read = Drifting(model), History(), []
    for number in range(1, 2049):
        drifting.run(number)
        history.add(drifting, 1, note=lambda at, _: read.append(at))
    per_part = np.histogram(read, bins=np.add([0, 16, 256, 512, 1024, 2048], 0.5))[0]
    assert per_part.tolist() == pytest.approx([16, 30, 16, 16, 16], abs=2)


def test_after_a_drift_event_labels_get_a_new_estimate(model):
    change = 200
    assert follow(model, 210, n_scored=2)[change - 1] > 0.5
    assert follow(model, 210, n_scored=2, change=change)[change - 1] == pytest.approx(0.0)


def test_estimates_from_the_other_side_of_a_drift_event_do_not_count(model):
    drifting, history = Drifting(model), History()
    for number in range(1, 21):
        drifting.run(number)
        history.add(drifting, 5)
    # The risk was read in the first sixteen rounds, at least.
    read = [int(number) for number in history.rounds[~np.isnan(history.column("risk"))] if number <= 20]
    last = read[-1]
    rounds = np.array([1, last + 30, last + 65])
    np.testing.assert_allclose(history.risk_at(rounds)[:, 0], [0.001, last / 1000, np.nan])
    np.testing.assert_allclose(history.risk_at(rounds, changes=[last + 10])[:, 0], [0.001, np.nan, np.nan])
    later = (last + 70, (0.5, 0.4, 0.6))
    found = history.risk_at(rounds, changes=[last + 10], latest=later)
    np.testing.assert_allclose(found, [[0.001] * 3, [0.5, 0.4, 0.6], [0.5, 0.4, 0.6]])


# --- the risk may be read long after its round: the history has the same bits, and the round did not wait -----

N_ROUNDS = 40


def risk_of(value: float) -> RiskEstimate:
    ends = {"fixed": 0.3, "fixed_low": float("nan"), "fixed_high": 0.5}
    return RiskEstimate(adapted=value, adapted_low=0.1, adapted_high=0.7, **ends)


@pytest.fixture(scope="module")
def models() -> list[AdaptiveClassifier]:
    """The model after each of some rounds."""
    stream = GaussianStream(SquareShift(period=10), n_features=2, n_reference=40, n_rounds=N_ROUNDS, batch_size=3)
    model = AdaptiveClassifier().fit(*stream.reference())
    return [copy(model.adapt(batch.X)) for batch in stream]


def test_a_risk_that_was_read_late_is_noted_for_its_round():
    """In the open rows, in closed blocks that earlier states share, and for a round that is no longer kept."""
    log, states = NO_ROUNDS, []
    for _ in range(70):
        log = log.after(None, 3.0, 1, share=1.0, refit=False, drift=False, held=False)
        states.append(log)
    for number in (1, 32, 33, 64, 65, 69, 70):
        noted = log.noting(70 - number, Read(risk_of(0.25))).rows(None)[:, 6]
        assert np.flatnonzero(~np.isnan(noted)).tolist() == [number - 1]
        assert noted[number - 1] == 0.25
        at_once = NO_ROUNDS
        for each in range(1, 71):
            risk = Read(risk_of(0.25)) if each == number + 1 else None
            at_once = at_once.after(risk, 3.0, 1, share=1.0, refit=False, drift=False, held=False)
        if number < 70:
            assert at_once.rows(None).tobytes() == log.noting(70 - number, Read(risk_of(0.25))).rows(None).tobytes()
    assert log.noting(70, Read(risk_of(0.25))) is log
    assert all(np.isnan(state.rows(None)[:, 6]).all() for state in states)


class Counted:
    """A snapshot that knows whether its risk was read."""

    def __init__(self, snapshot) -> None:
        self._snapshot, self.is_read = snapshot, False

    @property
    def risk(self):
        self.is_read = True
        return self._snapshot.risk

    @property
    def trust(self):
        return self._snapshot.trust


def play(models: list, look_after=lambda *_: None, *, reads_later: bool) -> tuple[History, list[Counted]]:
    """Note all rounds; return the history, and the snapshots that it was given."""
    history, taken = History(), []
    history.reads_later = reads_later

    def take(model) -> Counted:
        taken.append(Counted(model.snapshot()))
        return taken[-1]

    for number, model in enumerate(models, start=1):
        history.add(model, 3, snapshot=partial(take, model))
        look_after(number, history)
    return history, taken


def is_read(snapshot: Counted) -> bool:
    return snapshot.is_read


def plain(history: History) -> dict[str, bytes]:
    return {name: np.asarray(value).tobytes() for name, value in history.to_plain().items()}


@pytest.mark.parametrize(
    "look_after",
    [
        lambda *_: None,
        lambda number, history: number % 5 == 0 and [each.read() for each in history.pending[::2]],
        lambda number, history: number % 7 == 3 and history.copy(),
    ],
    ids=["at the end", "some now and then", "all for a copy"],
)
def test_when_it_is_read_does_not_show(monkeypatch, models, look_after):
    """Points merge several times meanwhile."""
    monkeypatch.setattr(histories, "MOST_POINTS", 4)
    monkeypatch.setattr(histories, "_EARLY_ROUNDS", N_ROUNDS)
    at_once, _ = play(models, reads_later=False)
    later, copies = play(models, look_after, reads_later=True)
    assert plain(later) == plain(at_once)
    assert at_once.stride > 8
    assert len(copies) == N_ROUNDS
    assert all(map(is_read, copies))


def test_rounds_do_not_read(models):
    history, copies = play(models[:16], reads_later=True)
    assert not any(map(is_read, copies))
    assert [each.round for each in history.pending] == list(range(1, 17))
    assert history.column("risk").tolist() == [each.risk_.adapted for each in models[:16]]
    assert history.column("verdict").tolist() == [VERDICTS.index(each.trust_.verdict) for each in models[:16]]
    assert history.pending == []


def test_what_is_due_is_bounded(monkeypatch, models):
    monkeypatch.setattr(histories, "_EARLY_ROUNDS", N_ROUNDS)
    monkeypatch.setattr(histories, "_MOST_PENDING", 8)
    history, copies = play(models, reads_later=True)
    assert 0 < len(history.pending) <= 8
    assert sum(not is_read(each) for each in copies) == len(history.pending)


def test_without_a_copy_the_model_itself_is_read_at_once(models):
    history = History()
    history.reads_later = True
    history.add(models[0], 1)
    assert history.pending == []
    assert history.column("risk").tolist() == [models[0].risk_.adapted]
