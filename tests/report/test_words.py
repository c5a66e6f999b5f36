"""What the report claims is what labels support: its badge is the verdict, and the headline says no more."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from accous import AdaptiveClassifier, AdaptiveRegressor
from accous.diagnostics.drift import DriftEvent, Regime
from accous.report.page import render_page, tile_rows
from accous.report.words import answer_rows, changes_in_words, judge_in_words, kinds_of_changes, note_on_changes
from tests.report.subjects import about, follow, observe

SHORT = ("inputs", "adaptation", "estimate")


SUBJECTS = {
    "no order, still": lambda: follow(0.0, has_labels=False),
    "no order, moved": lambda: follow(1.0, has_labels=False),
    "no order, far": lambda: follow(50.0, has_labels=False),
    "order, still": lambda: follow(0.0, order=True, n_reference=2000),
    "order, moved": lambda: follow(1.0, order=True, n_reference=2000),
    "order, labels turn round": lambda: follow(0.0, order=True, turns_round=True),
    "labels agree": lambda: observe(follow(0.0)),
    "labels disagree": lambda: observe(follow(0.0), is_turned=True),
    "order, and labels disagree": lambda: observe(follow(0.0, order=True, n_reference=2000), is_turned=True),
}


@pytest.fixture(scope="module", params=SUBJECTS)
def case(request):
    subject = SUBJECTS[request.param]()
    return request.param, subject, render_page(subject)


def badge_of(page):
    return re.search(r'<p class="badge">(.*?)</p>', page)[1]


def test_the_badge_is_the_verdict_and_names_the_answers_it_is_about(case):
    _, subject, page = case
    answers = [answer for _, answer, _ in answer_rows(subject)]
    trust = subject.model.trust_
    verdict, _, about = badge_of(page).partition(": ")
    if trust.verdict == "contradicted":
        assert (verdict, about) == (f"contradicted by {trust.contradicted_by}", "estimate")
    else:
        assert verdict == trust.verdict
        named = [answer for name, answer in zip(SHORT, answers, strict=True) if name in about.split(", ")]
        decisive = ("not known", "no") if verdict == "not verified" else ()
        assert named == [answer for answer in answers if answer in decisive]
    assert answers == [trust.inputs.answer, trust.adaptation.answer, trust.predictions.answer]


def test_every_answer_is_on_the_page_and_without_order_and_labels_nothing_is_verified(case):
    name, subject, page = case
    shown = re.findall(r'<dt>(.*?) <b class="\w+">(.*?)</b></dt><dd>(.*?)</dd>', page)
    assert [row[:2] for row in shown] == [row[:2] for row in answer_rows(subject)]
    assert page.index('class="verdict') < page.index('class="answers"') < page.index('class="tiles"')
    if name.startswith("no order"):
        assert "yes" not in [answer for _, answer, _ in answer_rows(subject)][1:]
        assert badge_of(page) != "good"
        assert judge_in_words(subject).tone != "good"


def test_the_backtest_is_shown_where_there_is_one(case):
    name, subject, page = case
    found = subject.model.backtest_
    assert (found is not None) == name.startswith("order")
    section = re.search(r"<h2>Backtest on the reference</h2>(.*?)</section>", page)
    assert (section is not None) == (found is not None)
    if found is not None:
        look = found.looks[-1]
        assert all(f"<p>{sentence}</p>" in section[1] for sentence in found.sentences)
        assert section[1].count("<tr>") == 1 + len(found.looks)
        assert f"<td>{look.start + 1:,} to {look.stop:,}</td>" in section[1]
        assert f"<td>{look.error_fixed:.1%}</td><td>{look.estimate_fixed:.1%}</td>" in section[1]


def test_labels_that_contradict_are_the_headline(case):
    name, subject, page = case
    verdict, measured = judge_in_words(subject), subject.model.measured_
    assert ("contradict" in verdict.headline) == ("labels disagree" in name)
    assert f"<h2>{verdict.headline}</h2>" in page
    if "labels disagree" in name:
        assert measured.contradicts
        assert f"{measured.error:.1%} measured" in verdict.headline
        assert badge_of(page).startswith("contradicted by labels: ")
        tile = next(note for name, _, note in tile_rows(subject) if name == "estimated error now")
        assert ("contradicted" in tile) == subject.model.risk_.is_known


# Tone, badge and headline, as codes and words, of models that have seen little or much.
VERDICTS = [
    ({"shift": 0.0, "n_rounds": 0, "order": True}, "none", "no data yet", "Nothing to report yet"),
    (
        {"shift": 0.0, "n_rounds": 5},
        "thin",
        "not verified",
        "There are too few rows so far to compare them with the reference",
    ),
    ({"shift": 0.0, "n_rounds": 60}, "thin", "not verified", "The inputs look like the reference"),
    ({"shift": 1.0, "n_rounds": 60}, "thin", "not verified", "The inputs have moved, and the model follows"),
    ({"shift": 50.0, "n_rounds": 60}, "bad", "no overlap", "The inputs are new to the reference"),
    ({"shift": 0.0, "order": True, "turns_round": True}, "bad", "contradicted by the backtest", ""),
]


@pytest.mark.parametrize(("options", "tone", "badge", "headline"), VERDICTS)
def test_the_verdict_is_the_models_own(options, tone, badge, headline):
    subject = follow(**options)
    verdict, page = judge_in_words(subject), render_page(subject)
    assert (verdict.tone, badge_of(page).partition(": ")[0]) == (tone, badge)
    assert verdict.headline == headline or not headline
    assert verdict.advice
    assert f"<h2>{verdict.headline}</h2>" in page
    assert not subject.model.n_rounds_ or verdict.trust == subject.model.trust_.reason


@pytest.mark.parametrize(("n_rows", "said"), [(0, "Label a sample"), (1, "Go on labelling")])
def test_whoever_has_sent_labels_is_not_asked_as_if_there_were_none(n_rows, said):
    assert judge_in_words(observe(follow(0.0, has_labels=False), n_rows=n_rows)).advice[0].startswith(said)


@pytest.mark.parametrize(
    ("shift", "n_rounds", "said"),
    [
        (0.0, 0, "moved very little"),
        (1.5, 6, "moved far over the last 64 rows"),
        (1.5, 20, "moved far over the last 500 rows"),
        (1.0, 2, "The last 500 rows hardly differ"),  # the weights follow a few rows
    ],
)
def test_inputs_are_said_to_have_moved_over_so_many_rows(shift, n_rounds, said):
    subject, random = follow(0.0, n_rounds=50, has_labels=False), np.random.default_rng(3)
    for _ in range(n_rounds):
        subject.model.adapt(random.normal(size=(10, 4)) + np.array([shift, 0.0, 0.0, 0.0]))
    verdict = judge_in_words(subject)
    assert said in verdict.moved
    if n_rounds == 2:
        assert subject.moved_share > 0.05
        assert verdict.headline == "The inputs look like the reference"
        assert "Columns that moved most" not in verdict.moved


def test_labels_outside_an_interval_that_is_too_wide_contradict_no_number_in_the_headline(monkeypatch):
    subject = observe(follow(0.0, order=True, n_reference=2000), 2000)
    wide = {"estimated": 0.3, "estimated_low": 0.0, "estimated_high": 0.7}
    measured = replace(subject.model.measured_, contradicts=True, is_inside=False, error=0.9, **wide)
    vars(subject.snapshot)["measured"] = measured
    headline = judge_in_words(subject).headline
    assert headline == "The labels say 90.0%, outside the interval of the estimate (0.0% to 70.0%)"


def test_an_alarm_by_the_latest_labels_is_the_headline_whatever_their_mean():
    subject = observe(follow(0.0, order=True, n_reference=2000), 2000)
    assert subject.model.trust_.predictions.answer == "yes"
    X = np.random.default_rng(8).normal(size=(20, 4))
    measured = subject.model.observe(X, 1 - subject.model.predict(X)).measured_
    assert (measured.is_alarmed, measured.is_exact, measured.is_off) == (True, True, False)
    assert "labels given last were far worse" in judge_in_words(subject).headline


def test_the_headline_and_the_sentence_name_the_same_model():
    subject = follow(1.0, n_rounds=60)
    vars(subject.snapshot)["trust"] = replace(subject.model.trust_, exponent=0.0)  # nothing to adapt to, no veto
    verdict = judge_in_words(subject)
    assert verdict.headline == "The inputs have moved; the fixed model is in use"
    assert verdict.moved.endswith("The fixed model is in use.")


@pytest.mark.parametrize(
    ("kind", "name"),
    [(AdaptiveClassifier, "estimated error"), (AdaptiveRegressor, "estimated mean absolute error")],
    ids=["classes", "numbers"],
)
def test_an_error_that_is_not_known_is_so_everywhere(kind, name):
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 4))
    scores = X[:, 0] + 0.1 * random.normal(size=300)
    late = random.normal(size=(200, 4)) + np.array([0.0, 20.0, 0.0, 0.0])
    model = kind().fit(X, scores > 0 if kind is AdaptiveClassifier else scores).adapt(late)
    subject = about(model)
    tiles = {tile: (value, note) for tile, value, note in tile_rows(subject)}
    assert (model.risk_.is_known, model.trust_.inputs.answer) == (False, "no")
    assert tiles[f"{name} now"] == ("not known", "the reference does not cover the inputs")
    assert tiles[f"{name}, fixed model"][0] == "not known"
    assert judge_in_words(subject).headline == "The inputs are new to the reference"
    assert "not known: the reference does not cover the inputs" in model._repr_html_()
    # Labels may contradict what the reference makes likely, but no estimate is shown as if it had been one.
    measured = model.observe(late, late[:, 0] < 0 if kind is AdaptiveClassifier else late[:, 0] + 5.0).measured_
    assert measured.contradicts == (kind is AdaptiveClassifier)
    assert not measured.is_estimate_known


@pytest.mark.parametrize("shift", [0.0, 1.0, 3.0])
def test_an_estimate_with_a_wide_interval_is_shown_as_not_known(shift):
    subject = follow(shift, n_rounds=60)
    risk = subject.model.risk_
    value = "not known" if risk.adapted_high - risk.adapted_low > 0.5 else f"{risk.adapted:.1%}"
    assert tile_rows(subject)[0][1] == value
    assert (value == "not known") == (shift == 3.0)


def test_rows_that_carry_the_weight_are_not_in_use_while_the_fixed_model_predicts():
    held = follow(1.0, order=True, turns_round=True, has_labels=False)
    assert "weighs all alike" in render_page(held)
    assert "weighs all alike" not in render_page(follow(1.0))


# --- shifts, changes of single columns and visits of regimes are counted apart ------------------------------


REGIME = Regime(
    number=1, visits=tuple((n, n + 40) for n in range(100, 1100, 100)), size=0.5, features=(), is_current=True
)


OVER = DriftEvent(64, 0.3, ("age",), 32)
MOVING = DriftEvent(576, 0.3, ("age",), None)
NEW = DriftEvent(992, 0.02, ("age",), None, "outside")


def with_changes(events, regimes=(), n_seasonal=0):
    return SimpleNamespace(events=events, regimes=regimes, n_seasonal=n_seasonal)


VISITED = (
    "The inputs were in a remembered regime 10 times: a visit is a shift of its own only if the weights were at rest "
    "before, and more than 20% of the weight moved."
)


@pytest.mark.parametrize(
    ("events", "regimes", "n_seasonal", "words", "kinds"),
    [
        ([], (), 0, "", ""),
        ([OVER], (), 2, "Detected: 1 shift, in round 64.", "2 seasonal, not counted"),
        ([OVER, MOVING], (), 0, "Detected: 2 shifts, the last in round 576 and still in progress.", ""),
        ([NEW], (), 0, "Detected: 1 change of a single column, in round 992.", "0 shifts; 1 of single columns"),
        (
            [OVER, NEW, NEW],
            (),
            0,
            "Detected: 1 shift, in round 64; 2 changes of single columns, the last in round 992.",
            "1 shift; 2 of single columns",
        ),
        (
            [MOVING],
            (REGIME,),
            0,
            f"Detected: 1 shift, in round 576 and still in progress. {VISITED}",
            "10 visits of regimes",
        ),
        ([OVER] * 10, (REGIME,), 0, "Detected: 10 shifts, the last in round 64.", "10 visits of regimes"),
    ],
)
def test_the_sentence_the_tile_and_the_table_say_what_is_counted(events, regimes, n_seasonal, words, kinds):
    found = with_changes(events, regimes, n_seasonal)
    assert changes_in_words(found) == words
    assert kinds_of_changes(found) == kinds
    assert ("visits of regimes" in note_on_changes(found)) == bool(regimes)
    assert "more than 20% of the weight" in note_on_changes(found)
