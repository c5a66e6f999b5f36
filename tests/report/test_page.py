"""The report opens offline, says state and metric first, and its charts hold what they say they hold."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import accous
from accous import AdaptiveRegressor, NoShift
from accous.cli import main
from accous.diagnostics.metrics import read_metric
from accous.diagnostics.status import Finding
from accous.report.figures import (
    CONDITIONS,
    ReportSource,
    headline,
    headline_notes,
    moved_figures,
    performance_figure,
    report_source,
)
from accous.report.page import render_page, tile_rows
from accous.table.history import History
from tests.cli.tables import make_tables
from tests.report.subjects import NAMES, follow


def data_of(page):
    return json.loads(re.search(r'id="figures">(.*?)</script>', page, re.DOTALL)[1])


@pytest.fixture(scope="module")
def subject():
    return follow(1.0)


@pytest.fixture(scope="module")
def page(subject):
    return render_page(subject)


# --- the page -----------------------------------------------------------------------------------------------------


def test_the_page_is_small_needs_nothing_else_and_escapes_names(page):
    assert not re.search(r"(src|href)=|url\(|@import|import\(|fetch\(", page)
    assert re.findall(r"https?://[^\"]*", page) == ["http://www.w3.org/2000/svg"]  # a name, not an address
    assert page.count("function drawAll") == 1
    assert page.count("<!doctype html>") == 1
    assert len(page.encode()) < 100_000
    assert "model &lt;1&gt;" in page
    assert "<b>income" not in page
    assert data_of(page)["figures"]["moved-0"]["name"] == "age", "what looks like a place of the page is left alone"


def test_state_and_metric_come_first_and_the_data_are_the_models_own(subject, page):
    assert re.findall(r"<h2>(.*?)</h2>", page) == [headline(subject), "Error over time", "What moved"]
    assert data_of(page)["state"] == subject.snapshot.to_json()
    assert page.count("<summary>") == 3
    status = subject.snapshot.status
    assert page.count("<li>") >= len(status.reasons)
    assert f"<code>{status.advice.command()}</code>" in page


@pytest.mark.parametrize(
    ("options", "state", "basis", "tone"),
    [
        ({"shift": 0.0}, "healthy", "expected", "good"),
        ({"shift": 0.0, "labels": range(10, 40)}, "healthy", "labels", "good"),
        ({"shift": 0.0, "labels": range(10, 40), "is_turned": True}, "degraded", "labels", "bad"),
        ({"shift": 3.0}, "uncertain", "expected", "thin"),
    ],
)
def test_the_state_is_the_models_own(options, state, basis, tone):
    subject = follow(**options)
    page = render_page(subject)
    assert (subject.snapshot.status.state, subject.now.basis) == (state, basis)
    assert f'<section class="verdict {tone}">' in page
    assert headline(subject).startswith(f"{state.capitalize()}: error {subject.now.value:.1%}")
    assert ("alarm since round" in page) == subject.snapshot.status.alarm == options.get("is_turned", False)


def test_before_the_first_row_nothing_is_judged():
    subject = follow(0.0, n_rounds=0)
    page = render_page(subject)
    assert f"{subject.now.at_fit:.1%}" in headline(subject)
    assert 'class="verdict none"' in page
    assert "badge" not in page.partition("<main>")[2]
    found = data_of(page)
    assert (found["figures"], found["state"]["state"], found["state"]["value"]) == ({}, None, None)


def test_texts():
    """One example of all that is said; what it says is tested by codes and numbers elsewhere."""
    subject = follow(0.0, labels=[10, 11])
    now, numbers = subject.now, subject.limit
    assert [headline(subject), *headline_notes(subject)] == [
        f"Healthy: error {now.value:.1%} expected",
        f"90% interval {now.low:.1%} to {now.high:.1%}; at fit {now.at_fit:.1%}; tolerated up to {numbers:.1%}.",
        f"{CONDITIONS['expected']} Labels last came 280 rows ago.",
    ]


@pytest.mark.parametrize(
    ("name", "words", "text"),
    [("error", "error", "12.3%"), ("roc_auc", "AUC", "0.123"), ("recall:b", "recall of b", "0.123")],
)
def test_metrics_have_names_and_numbers_for_people(name, words, text):
    metric = read_metric(name, ["a", "b"])
    assert (metric.in_words, metric.shown(0.1234), metric.shown(None)) == (words, text, "not defined")


# --- the metric over time -----------------------------------------------------------------------------------------


def series_of(figure):
    return {one["kind"]: one for one in figure["series"]}


def test_without_labels_there_is_one_line_that_ends_with_now(subject):
    figure = performance_figure(subject)
    assert set(series_of(figure)) == {"line"}
    line = series_of(figure)["line"]
    assert line["x"] == sorted(line["x"])
    assert (line["x"][-1], line["y"][-1]) == (figure["x"]["range"][1], pytest.approx(subject.now.value, abs=1e-4))
    levels = {each["name"]: each["y"] for each in figure["levels"]}
    assert list(levels.values()) == [subject.now.at_fit, subject.limit]
    low, high = figure["y"]["range"]
    assert all(low <= each <= high for each in (*line["y"], *levels.values()))


def test_labels_that_the_history_counted_are_points_with_intervals_of_their_own():
    """Of ten rows two are wrong in every round; 40 rounds have 400 labels, 30 or a few more for each point."""
    dots = series_of(performance_figure(follow(0.0, n_scored=10)))["dots"]
    assert dots["y"] == [0.2] * len(dots["x"])
    assert 10 <= len(dots["x"]) <= 13
    assert all(low < 0.2 < high for low, high in zip(dots["low"], dots["high"], strict=True))


def test_of_other_metrics_labels_are_points_too_and_the_line_has_a_gap_there():
    subject = follow(0.0, labels=range(10, 40), metric="roc_auc")
    figure = performance_figure(subject)
    dots, line = series_of(figure)["dots"], series_of(figure)["line"]
    assert dots["y"][-1] == pytest.approx(subject.now.value, abs=1e-4)
    assert (dots["low"][-1], dots["high"][-1]) == pytest.approx((subject.now.low, subject.now.high), abs=1e-4)
    assert max(line["x"]) < min(dots["x"])
    assert figure["y"]["percent"] is False
    assert figure["levels"][1]["y"] < figure["levels"][0]["y"], "a lower AUC is worse"


@pytest.mark.parametrize(
    ("times", "kind"),
    [
        ([86_400.0 * number for number in range(40)], "time"),
        ([86_400.0 * (40 - number) for number in range(40)], "round"),
        ([86_400.0 * number if number % 3 else None for number in range(40)], "round"),
    ],
)
def test_the_axis_has_dates_where_every_point_has_one_and_time_runs_forward(times, kind):
    figure = performance_figure(follow(1.0, times=times))
    assert figure["x"]["kind"] == kind
    low, high = figure["x"]["range"]
    assert (low, high) == ((-86_400.0, 39 * 86_400.0) if kind == "time" else (0.0, 40.0))
    for series in figure["series"]:
        assert low <= series["x"][0] <= series["x"][-1] <= high


@pytest.mark.slow
def test_the_longest_history_gives_a_small_page():
    assert len(render_page(follow(1.0, n_rounds=1_100)).encode()) < 150_000


# --- then and now -------------------------------------------------------------------------------------------------


def test_the_column_that_moved_leads_with_its_distributions(subject):
    figures = moved_figures(subject)
    assert figures[0]["name"] == "age"
    assert {each["name"] for each in figures} <= set(NAMES)
    for each in figures:
        assert len(each["edges"]) - 1 == len(each["then"]) == len(each["now"])
        assert (sum(each["then"]), sum(each["now"])) == pytest.approx((1.0, 1.0), abs=1e-3)
    then, now = figures[0]["means"]
    assert now - then == pytest.approx(1.0, abs=0.2)


def test_a_model_that_never_adapts_has_a_report_too():
    page = render_page(follow(50.0, ratio=NoShift()))
    assert "No column" in page
    assert set(data_of(page)["figures"]) == {"performance"}


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A table model whose first number has jumped and whose category has turned, in rounds that have times."""
    monkeypatch.chdir(tmp_path)
    reference, stream = make_tables()
    reference.write_csv("reference.csv")
    stream.write_csv("stream.csv")
    assert main(["fit", "reference.csv", "--label", "label", "--drop", "id", "-o", "model", "-q"]) == 0
    table = accous.load("model")
    moved = stream.with_columns(pl.col("x1") + 3.0, colour=pl.lit("red"))
    for number in range(60):
        table.step(moved[5 * number : 5 * number + 5])
    return table


def test_a_table_shows_numbers_and_categories_of_its_own(table):
    figures = {each["name"]: each for each in moved_figures(report_source(table.snapshot(), "model"))}
    colour, x1 = figures["colour"], figures["x1"]
    reference = pl.read_csv("reference.csv")
    assert colour["now"][colour["names"].index("red")] == 1.0
    share = reference["colour"].eq("red").mean()
    assert colour["then"][colour["names"].index("red")] == pytest.approx(share, abs=1e-4)
    assert x1["missing"][0] == pytest.approx(reference["x1"].is_null().mean(), abs=1e-3)
    assert x1["means"][0] == pytest.approx(reference["x1"].mean(), rel=1e-4)
    assert sum(x1["then"]) + x1["missing"][0] == pytest.approx(1.0, abs=1e-3)


def test_rows_unlike_the_reference_are_as_many_as_the_reason_says():
    subject = follow(0.0)
    reason = {"code": Finding.FEW_INSIDE, "number": 0.875}
    vars(subject)["said"] = subject.said | {"drift": {"outside": 0.125}, "reasons": [reason]}
    assert tile_rows(subject)[-1][1] == "88%"


def test_changes_have_their_date_and_seasonal_ones_are_counted_apart(table):
    first = next(event for event in table.drift_.events if event.kind == "shift")
    page = render_page(report_source(table.snapshot(), "model"))
    assert f"<td>{first.round}</td><td>2024-" in page
    table.seasons = replace(table.seasons, seasonal=(first.round,))
    page = render_page(report_source(table.snapshot(), "model"))
    assert "1 more change" in page
    assert not re.search(rf"<td>{first.round}</td>(<td>[^<]*</td>)?<td>shift</td>", page)


def test_the_command_writes_the_page_and_says_so(table, capsys):
    assert main(["report", "model", "-o", "early.html"]) == 0
    assert "No rows yet" in capsys.readouterr().err
    assert main(["adapt", "model", "stream.csv", "-o", "predictions.csv", "--label", "label"]) == 0
    assert main(["report", "model", "-o", "report.html", "--by", "colour"]) == 0
    page = Path("report.html").read_text()
    assert "<h1>label</h1>" in page
    segments = re.search(r"<h2>Segments by colour.*?</section>", page, re.DOTALL)[0]
    assert len(re.findall("<tr><td>", segments)) == len(data_of(page)["state"]["segments"]) >= 2
    assert main(["report", "model", "-o", "report.html"]) == 1
    assert "report.html already exists" in capsys.readouterr().err
    assert main(["report", "model", "-o", "report.html", "--force", "--by", "colour"]) == 0
    assert Path("report.html").read_text() == page
    assert main(["report", "model", "-o", "report.txt"]) == 2
    assert main(["report", "model", "-o", "nowhere/report.html"]) == 1
    assert main(["report", "model", "-o", "other.html", "--by", "nowhere"]) == 2


def test_numbers_are_not_percentages():
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 3))
    model, history = AdaptiveRegressor().fit(X, 100.0 * X[:, 0] + 50.0 * random.normal(size=400), order=True), History()
    for _ in range(20):
        model.adapt(random.normal(size=(20, 3)))
        history.add(model, 20)
    subject = ReportSource("delays", model.snapshot(), history)
    figure = performance_figure(subject)
    assert figure["y"]["percent"] is False
    assert figure["y"]["title"] == "mean absolute error"
    assert "%" not in headline(subject)


def test_only_long_cells_may_wrap(subject):
    found = render_page(replace(subject, preparation=[("age", "2013-01-21", "a sentence that is longer than a date")]))
    assert '<td>2013-01-21</td><td class="long">a sentence' in found
