"""The report claims no more than labels support: its badge is the verdict."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from accous import AdaptiveClassifier, AdaptiveRegressor
from accous.diagnostics.trust import Answer
from accous.report.page import render_page, tile_rows
from accous.report.words import Subject, answer_rows, judge_in_words
from accous.table.history import History
from tests.report.subjects import follow, observe

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
def case(request: Any) -> tuple[str, Subject, str]:
    subject = SUBJECTS[request.param]()
    return request.param, subject, render_page(subject)


def badge_of(page: str) -> str:
    return re.search(r'<p class="badge">(.*?)</p>', page)[1]


def test_the_badge_is_the_verdict_and_names_the_answers_it_is_about(case) -> None:
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


def test_every_answer_is_on_the_page_with_its_sentence(case) -> None:
    _, subject, page = case
    shown = re.findall(r'<dt>(.*?) <b class="\w+">(.*?)</b></dt><dd>(.*?)</dd>', page)
    assert [row[:2] for row in shown] == [row[:2] for row in answer_rows(subject)]
    assert page.index('class="verdict') < page.index('class="answers"') < page.index('class="tiles"')


def test_without_order_and_labels_nothing_is_verified(case) -> None:
    name, subject, page = case
    if name.startswith("no order"):
        answers = [answer for _, answer, _ in answer_rows(subject)]
        assert "yes" not in answers[1:]
        assert badge_of(page) != "good"
        assert judge_in_words(subject).tone != "good"
        assert "If the reference has an order in time" in page


def test_the_backtest_is_shown_where_there_is_one(case) -> None:
    name, subject, page = case
    found = subject.model.backtest_
    assert (found is not None) == name.startswith("order")
    section = re.search(r"<h2>Backtest on the reference</h2>(.*?)</section>", page)
    assert (section is not None) == (found is not None)
    if found is not None:
        assert all(f"<p>{sentence}</p>" in section[1] for sentence in found.sentences)
        assert section[1].count("<tr>") == 1 + len(found.looks)
        look = found.looks[-1]
        assert f"<td>{look.start + 1:,} to {look.stop:,}</td>" in section[1]
        assert "<th>measured (fixed)</th><th>estimated</th><th>measured (adapted)</th><th>drift</th>" in section[1]
        assert "0 means that recent rows look like the reference" in section[1]
        assert f"<td>{look.error_fixed:.1%}</td><td>{look.estimate_fixed:.1%}</td>" in section[1]


def test_labels_that_contradict_are_the_headline(case) -> None:
    name, subject, page = case
    headline = judge_in_words(subject).headline
    measured = subject.model.measured_
    if "labels disagree" in name:
        assert measured.contradicts
        assert headline.startswith("The labels contradict the estimate: ")
        assert f"{measured.error:.1%} measured" in headline
        assert headline.endswith(" estimated for the same rows")
        assert f"<h2>{headline}</h2>" in page
        tile = next(note for name, _, note in tile_rows(subject) if name == "estimated error now")
        assert tile.endswith("; contradicted by labels") == subject.model.risk_.is_known
        assert badge_of(page).startswith("contradicted by labels: ")
        assert "Rely on the measured error. Do not rely on estimates without labels" in page
        verdict = page.partition('<section class="verdict')[2].partition("</section>")[0]
        assert verdict.count("P(y | x) seems to have changed") <= 1
    else:
        assert "contradict" not in headline


@pytest.mark.parametrize(("n_rows", "said"), [(0, "Label a sample of recent rows"), (1, "the one label so far leave")])
def test_whoever_has_sent_labels_is_not_asked_as_if_there_were_none(n_rows: int, said: str) -> None:
    subject = observe(follow(0.0, has_labels=False), n_rows=n_rows)
    advice = judge_in_words(subject).advice
    assert said in advice[0]
    assert advice[0].startswith("Go on labelling" if n_rows else "Label a sample")


def test_after_an_extension_the_weights_are_those_before() -> None:
    subject = follow(0.0, has_labels=False)
    X, y = np.random.default_rng(5).normal(size=(100, 4)), np.arange(100) % 2
    subject.model.extend(X, y)
    verdict = judge_in_words(subject)
    assert verdict.headline.startswith("Rows have joined the reference; ")
    assert verdict.moved.startswith("Rows have joined the reference: the weights of its rows")
    for _ in range(16):
        subject.model.adapt(X[:10])
    assert "joined" not in judge_in_words(subject).moved + judge_in_words(subject).headline


@pytest.mark.parametrize(
    ("shift", "n_rounds", "said"),
    [
        (0.0, 0, "The inputs have moved very little"),
        (1.5, 6, "The inputs have moved far over the last 64 rows: "),
        (1.5, 20, "The inputs have moved far over the last 500 rows: "),
    ],
)
def test_inputs_are_said_to_have_moved_over_so_many_rows(shift: float, n_rounds: int, said: str) -> None:
    subject, random = follow(0.0, n_rounds=50, has_labels=False), np.random.default_rng(3)
    for _ in range(n_rounds):
        subject.model.adapt(random.normal(size=(10, 4)) + np.array([shift, 0.0, 0.0, 0.0]))
    assert judge_in_words(subject).moved.startswith(said)


def test_weights_that_follow_a_few_rows_do_not_say_that_the_inputs_have_moved() -> None:
    subject, random = follow(0.0, n_rounds=50, has_labels=False), np.random.default_rng(3)
    for _ in range(2):
        subject.model.adapt(random.normal(size=(10, 4)) + np.array([1.0, 0.0, 0.0, 0.0]))
    verdict = judge_in_words(subject)
    assert subject.moved_share > 0.05
    assert verdict.headline == "The inputs look like the reference"
    assert verdict.moved.startswith("The last 500 rows hardly differ from the reference; the weights of the ")
    assert "Columns that moved most" not in verdict.moved


def test_labels_outside_an_interval_that_is_too_wide_contradict_no_number_in_the_headline(monkeypatch) -> None:
    subject = observe(follow(0.0, order=True, n_reference=2000), 2000)
    wide = {"estimated": 0.3, "estimated_low": 0.0, "estimated_high": 0.7}
    measured = replace(subject.model.measured_, contradicts=True, is_inside=False, error=0.9, **wide)
    monkeypatch.setattr(Subject, "measured", measured)
    headline = judge_in_words(subject).headline
    assert headline == "The labels say 90.0%, outside the interval of the estimate (0.0% to 70.0%)"
    unsure = replace(subject.model.risk_, adapted_low=0.0, adapted_high=0.7)
    monkeypatch.setattr(Subject, "risk", unsure)
    no = replace(subject.model.trust_, predictions=Answer("no", "Labels say so.", {"measured": 0.9}))
    monkeypatch.setattr(Subject, "trust", no)
    assert tile_rows(subject)[0][1:] == ("not known", "between 0.0% and 70.0%; contradicted by labels")


def test_an_alarm_by_the_latest_labels_is_the_headline_whatever_their_mean() -> None:
    subject = observe(follow(0.0, order=True, n_reference=2000), 2000)
    X = np.random.default_rng(8).normal(size=(20, 4))
    subject.model.observe(X, 1 - subject.model.predict(X))
    measured = subject.model.measured_
    assert measured.is_alarmed
    assert measured.is_exact
    assert not measured.is_off
    assert judge_in_words(subject).headline.startswith("The predictions with the labels given last were far worse")


def test_the_headline_and_the_sentence_name_the_same_model() -> None:
    subject = follow(1.0, n_rounds=60)
    trust = subject.model.trust_
    assert "the model follows" in judge_in_words(subject).headline
    subject.model.state_.cache["trust"] = replace(trust, exponent=0.0)  # nothing to adapt to, without a veto
    verdict = judge_in_words(subject)
    assert verdict.headline == "The inputs have moved; the fixed model is in use"
    assert verdict.moved.endswith("The fixed model is in use.")


def test_an_error_of_numbers_that_is_not_known_is_so_everywhere() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 4))
    model = AdaptiveRegressor().fit(X, X[:, 0] + 0.1 * random.normal(size=300))
    late = random.normal(size=(200, 4)) + np.array([0.0, 20.0, 0.0, 0.0])
    model.adapt(late).observe(late, late[:, 0] + 5.0)
    subject = Subject("numbers", model, History(), ["a", "b", "c", "d"])
    tiles = {name: (value, note) for name, value, note in tile_rows(subject)}
    assert not model.risk_.is_known
    assert tiles["estimated mean absolute error now"] == ("not known", "the reference does not cover the inputs")
    assert tiles["estimated mean absolute error, fixed model"][0] == "not known"
    assert not model.measured_.contradicts
    assert model.measured_.concept_changed == "not known"
    assert judge_in_words(subject).headline == "The inputs are new to the reference"
    assert model.trust_.predictions.answer == "not known"


def test_an_error_of_classes_that_is_not_known_is_so_everywhere() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 4))
    model = AdaptiveClassifier().fit(X, X[:, 0] + X[:, 2] > 0)
    late = random.normal(size=(200, 4)) + np.array([0.0, 20.0, 0.0, 0.0])
    model.adapt(late)
    subject = Subject("classes", model, History(), ["a", "b", "c", "d"])
    tiles = {name: (value, note) for name, value, note in tile_rows(subject)}
    assert model.trust_.inputs.answer == "no"
    assert not model.risk_.is_known
    assert tiles["estimated error now"] == ("not known", "the reference does not cover the inputs")
    assert tiles["estimated error, fixed model"][0] == "not known"
    assert "not known: the reference does not cover the inputs" in model._repr_html_()
    # Labels still contradict what the reference makes likely, but no estimate is shown as if it had been one.
    measured = model.observe(late, late[:, 0] + late[:, 2] < 0).measured_
    assert measured.contradicts
    assert not measured.is_estimate_known
    assert "the estimate for these rows is not known: the reference does not cover the inputs" in measured.sentence


def test_an_error_is_not_known_where_the_weights_show_no_overlap() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(6, 2))
    model = AdaptiveClassifier().fit(X, [0, 1, 0, 1, 0, 1]).adapt(X)
    assert model.trust_.inputs.answer == "no"
    assert not model.risk_.is_covered


def test_labels_that_agree_make_the_estimate_believable() -> None:
    subject = observe(follow(0.0), n_rows=2000)
    assert subject.model.trust_.predictions.answer == "yes"
    assert "Rely on the measured error" in render_page(subject)


def test_a_replay_that_failed_is_evidence_against_the_estimate() -> None:
    page = render_page(SUBJECTS["order, labels turn round"]())
    assert badge_of(page) == "contradicted by the backtest: estimate"
    assert "In the backtest the error was" in page
    assert "The estimated error cannot be believed" in page
    assert "their labels show the error." in page
    assert "The fixed model is in use." in page


def test_before_the_first_round_there_is_nothing_to_judge() -> None:
    assert badge_of(render_page(follow(0.0, n_rounds=0, order=True))) == "no data yet"


@pytest.mark.parametrize("shift", [0.0, 1.0, 3.0])
def test_an_estimate_with_a_wide_interval_is_shown_as_not_known(shift: float) -> None:
    subject = follow(shift, n_rounds=60)
    risk = subject.model.risk_
    value = "not known" if risk.adapted_high - risk.adapted_low > 0.5 else f"{risk.adapted:.1%}"
    assert f"<span>estimated error now</span><strong>{value}</strong>" in render_page(subject)
    assert (value == "not known") == (shift == 3.0)


def test_a_few_rows_have_no_headline_about_the_inputs():
    assert judge_in_words(follow(0.0, n_rounds=5)).headline == (
        "There are too few rows so far to compare them with the reference"
    )


def test_rows_that_carry_the_weight_are_not_in_use_while_the_fixed_model_predicts():
    held = follow(1.0, order=True, turns_round=True, has_labels=False)
    assert "of 400; the fixed model, which is in use, weighs all alike" in render_page(held)
    assert "weighs all alike" not in render_page(follow(1.0))


def test_a_tile_says_that_its_labels_are_about_an_earlier_reference():
    subject = observe(follow(0.0, has_labels=False))
    notes = {name: note for name, _, note in tile_rows(subject)}
    measured = subject.model.measured_
    counted = f"by {measured.n_labelled} labels (a label counts half after 500 more)"
    assert notes["measured error, labels given last"].endswith(
        f"{counted}; {measured.error_plain:.1%} over all of them"
    )
    subject.model.extend(np.zeros((20, 4)), np.arange(20) % 2)
    names = [name for name, _, _ in tile_rows(subject)]
    assert "measured error, before rows joined the reference" in names
    assert "measured error, labels given last" not in names
