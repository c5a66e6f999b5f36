"""The report opens offline, says the verdict first, and holds what it says it holds."""

import json
import re
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest

from accous import AdaptiveClassifier, NoShift
from accous.cli import main
from accous.report.page import render_page
from accous.report.subject import Subject
from accous.report.words import judge_in_words
from accous.tabular.history import History
from tests.cli.tables import make_tables

NAMES = ["age", "<b>income</b>", "</script>", "plan"]


def follow(shift: float, *, n_rounds: int = 40, has_labels: bool = True, ratio: object = None) -> Subject:
    """A model that has seen batches moved by so many deviations."""
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 4))
    y = (X[:, 0] + 0.5 * random.normal(size=400) > 0).astype(int)
    model, history = AdaptiveClassifier(ratio=ratio, random_state=0).fit(X, y), History()
    for _ in range(n_rounds):
        batch = random.normal(size=(10, 4)) + shift * np.array([1.0, 0.0, 0.0, 0.0])
        model.adapt(batch)
        history.add(model, 10, *(10, 3, 2) * has_labels)
    return Subject("model <1>", model, history, NAMES, {"seed": "0"}, [("age", "number", "scaled")])


def figures_of(page: str) -> dict:
    content = re.search(r'id="figures">(.*?)</script>', page, re.DOTALL)
    return json.loads(content[1])


@pytest.fixture(scope="module")
def page() -> str:
    return render_page(follow(1.0))


def test_columns_called_like_places_of_the_page_stand_as_they_are():
    subject = replace(follow(1.0), columns=["[[figures]]", "[[plotly]]", "[[script]]", "[[nothing]]"])
    page = render_page(replace(subject, preparation=[("[[figures]]", "number", "[[body]]")]))
    assert "error" in figures_of(page)
    assert "<td>[[figures]]</td>" in page
    assert page.count("plotly.js v") == 1


def test_the_page_needs_nothing_else(page):
    own = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"(src|href)=|url\(|@import", own)
    assert page.count("plotly.js v") == 1
    assert page.count("<!doctype html>") == 1


def test_the_verdict_comes_first_and_everything_promised_follows(page):
    titles = re.findall(r"<h2>(.*?)</h2>", page)
    assert titles == [
        judge_in_words(follow(1.0)).headline,
        "How often it is wrong",
        "How much of the reference is in use",
        "Changes in the inputs",
        "How far back it looks",
        "What moved",
        "How the weights are distributed",
        "Settings",
        "What is done with each column",
    ]
    assert page.index('class="verdict') < page.index('class="tiles"') < page.index('class="chart"')


def test_names_of_the_user_are_escaped(page):
    assert "model &lt;1&gt;" in page
    assert "<b>income" not in page
    assert "</script>" not in re.search(r'id="figures">(.*)</script>\n<script>', page, re.DOTALL)[1]


def test_every_figure_is_one_that_plotly_accepts(page):
    figures = figures_of(page)
    assert set(figures) == {"error", "sample", "lengths", "moved", "weights"}
    for figure in figures.values():
        assert go.Figure(figure).data


def test_the_note_counts_the_columns_that_the_chart_shows():
    random = np.random.default_rng(0)
    X = np.hstack((random.normal(size=(200, 5)), np.zeros((200, 15))))
    model, history = AdaptiveClassifier(random_state=0).fit(X, (X[:, 0] > X[:, 1]).astype(int)), History()
    for _ in range(25):
        model.adapt(np.hstack((random.normal(size=(20, 5)) + 1.0, np.zeros((20, 15)))))
        history.add(model, 20, 0, 0, 0)
    page = render_page(Subject("model", model, history, [f"x{number}" for number in range(20)], {}, []))
    assert len(figures_of(page)["moved"]["data"][0]["y"]) == 5
    assert "The chart shows 5 of 20 columns; together they account for 100%." in page


def test_the_column_that_moved_leads(page):
    assert figures_of(page)["moved"]["data"][0]["y"][-1] == "age"


def test_measured_errors_are_shown_only_where_there_were_labels():
    assert "measured" in render_page(follow(1.0))
    unlabelled = render_page(follow(1.0, has_labels=False))
    assert "measured with labels" not in unlabelled
    assert "Only labels can confirm that" in unlabelled


@pytest.mark.parametrize(
    ("shift", "n_rounds", "tone", "words"),
    [
        (0.0, 0, "none", "Nothing to report yet"),
        (0.0, 60, "good", "look like the reference"),
        (1.0, 60, "good", "the model follows"),
        (50.0, 60, "bad", "have left the range that the reference covers"),
    ],
)
def test_the_verdict_is_the_models_own(shift, n_rounds, tone, words):
    subject = follow(shift, n_rounds=n_rounds)
    verdict = judge_in_words(subject)
    assert (verdict.tone, words in verdict.headline) == (tone, True)
    assert verdict.advice
    if n_rounds:
        assert verdict.trust == subject.model.trust_.reason
    assert words in render_page(subject)


def test_a_model_that_never_adapts_has_a_report_too():
    figures = figures_of(render_page(follow(1.0, ratio=NoShift())))
    assert "lengths" not in figures


def test_the_command_writes_the_page_and_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    reference, stream = make_tables()
    reference.write_csv("reference.csv")
    stream.write_csv("stream.csv")
    assert main(["fit", "reference.csv", "--label", "label", "-o", "model", "--drop", "id", "--quiet"]) == 0
    assert main(["report", "model", "-o", "early.html"]) == 0
    assert "Nothing to report yet. Report: early.html" in capsys.readouterr().err
    assert main(["adapt", "model", "stream.csv", "-o", "predictions.csv", "--label", "label"]) == 0
    assert main(["report", "model", "-o", "report.html"]) == 0
    page = (tmp_path / "report.html").read_text()
    assert "colour" in page
    assert "position in the week" in page
    assert main(["report", "model", "-o", "report.html"]) == 1
    assert "report.html already exists" in capsys.readouterr().err
    assert main(["report", "model", "-o", "report.html", "--force"]) == 0
    assert (tmp_path / "report.html").read_text() == page
    assert main(["report", "model", "-o", "report.txt"]) == 2
    assert main(["report", "model", "-o", "nowhere/report.html"]) == 1
