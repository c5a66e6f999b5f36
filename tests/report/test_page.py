"""The report opens offline, says the verdict first, and its charts hold what they say they hold."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import accous
from accous import AdaptiveClassifier, NoShift
from accous.cli import main
from accous.diagnostics.drift import DriftEvent
from accous.report.page import answers_section, render_page
from accous.report.words import judge_in_words, report_source
from tests.cli.tables import make_tables
from tests.report.subjects import about, follow


def figures_of(page):
    content = re.search(r'id="figures">(.*?)</script>', page, re.DOTALL)
    return json.loads(content[1])


@pytest.fixture(scope="module")
def page():
    return render_page(follow(1.0))


def test_columns_called_like_places_of_the_page_stand_as_they_are():
    subject = replace(follow(1.0), columns=["[[figures]]", "[[title]]", "[[script]]", "[[nothing]]"])
    page = render_page(replace(subject, preparation=[("[[figures]]", "number", "[[body]]")]))
    assert "error" in figures_of(page)
    assert "<td>[[figures]]</td>" in page
    assert page.count("function drawAll") == 1


def test_the_page_is_small_needs_nothing_else_and_escapes_names(page):
    assert not re.search(r"(src|href)=|url\(|@import|import\(|fetch\(", page)
    assert re.findall(r"https?://[^\"]*", page) == ["http://www.w3.org/2000/svg"]  # a name, not an address
    assert page.count("function drawAll") == 1
    assert page.count("<!doctype html>") == 1
    assert len(page.encode()) < 100_000
    assert "model &lt;1&gt;" in page
    assert "<b>income" not in page
    assert "</script>" not in re.search(r'id="figures">(.*)</script>\n<script>', page, re.DOTALL)[1]


def test_the_verdict_comes_first_and_everything_promised_follows(page):
    titles = re.findall(r"<h2>(.*?)</h2>", page)
    assert titles == [
        judge_in_words(follow(1.0)).headline,
        "How often it is wrong",
        "How much of the reference is in use",
        "Changes in the inputs",
        "Regimes",
        "How far back it looks",
        "What moved",
        "How the weights are distributed",
        "Settings",
        "What is done with each column",
    ]
    assert page.index('class="verdict') < page.index('class="tiles"') < page.index('class="chart"')


def test_every_series_has_its_points_in_order(page):
    figures = figures_of(page)
    assert set(figures) == {"error", "sample", "lengths", "moved", "weights"}
    for name in ("error", "sample"):
        for series in figures[name]["series"]:
            assert series["x"] == sorted(series["x"])
            for part in {"y", "low", "high"} & set(series):
                assert len(series[part]) == len(series["x"]) > 0
    heat = figures["lengths"]
    assert np.shape(heat["cells"]) == (len(heat["rows"]), len(heat["edges"]) - 1)
    for name in ("moved", "weights"):
        for series in figures[name]["series"]:
            assert len(series["values"]) == len(figures[name]["names"])
            assert sum(series["values"]) == pytest.approx(1.0, abs=1e-3)


def test_measured_errors_are_means_over_intervals_with_their_own_interval(page):
    """Of ten rows 3 and 2 are wrong in every round."""
    measured = [one for one in figures_of(page)["error"]["series"] if one["kind"] == "dots"]
    assert [one["y"] for one in measured] == [[0.3] * 40, [0.2] * 40]
    for one in measured:
        assert all(low < y < high for low, y, high in zip(one["low"], one["y"], one["high"], strict=True))
    unlabelled = figures_of(render_page(follow(1.0, has_labels=False)))["error"]["series"]
    assert "dots" not in [one["kind"] for one in unlabelled]


@pytest.mark.parametrize(
    ("times", "kind"),
    [
        ([86_400.0 * number for number in range(40)], "time"),
        ([86_400.0 * (40 - number) for number in range(40)], "round"),
        ([86_400.0 * number if number % 3 else None for number in range(40)], "round"),
    ],
)
def test_the_axis_has_dates_where_every_point_has_one_and_time_runs_forward(times, kind):
    figure = figures_of(render_page(follow(1.0, times=times)))["error"]
    assert figure["x"]["kind"] == kind
    low, high = figure["x"]["range"]
    assert (low, high) == ((-86_400.0, 39 * 86_400.0) if kind == "time" else (0.0, 40.0))
    for series in figure["series"]:
        assert low <= series["x"][0] <= series["x"][-1] <= high


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A table model whose first feature has jumped, in rounds that have times."""
    monkeypatch.chdir(tmp_path)
    reference, stream = make_tables()
    half = reference.with_columns(pl.when(pl.int_range(pl.len()) % 5 > 0).then(pl.col("x1")).alias("x1"))
    half.write_csv("reference.csv")
    stream.write_csv("stream.csv")
    assert main(["fit", "reference.csv", "--label", "label", "--drop", "id", "-o", "model", "-q"]) == 0
    table, random = accous.load("model"), np.random.default_rng(0)
    width = len(table.encoder.feature_names)
    for number in range(120):
        rows = random.normal(size=(5, width)) + np.eye(width)[-1] * 3.0 * (number > 40)
        table.run_round(rows, times=86_400.0 * (number + np.arange(5) / 5))
    return table


def page_of(table):
    return render_page(report_source(table.snapshot(), "model"))


def test_changes_have_their_date_and_seasonal_ones_are_counted_apart(table):
    first = next(event for event in table.drift_events_ if event.kind == "shift")
    assert f"<td>{first.round}</td><td>1970-" in page_of(table)
    table.seasons = replace(table.seasons, seasonal=(first.round,))
    assert "1 more change was what the same hours did" in page_of(table)
    assert not re.search(rf"<td>{first.round}</td>(<td>[^<]*</td>)?<td>shift</td>", page_of(table))
    # Of rows that have a date alone, all are of the same hour.
    hours = np.arange(len(table.seasons.slots.day)) % 24
    of_dates = replace(table.seasons.slots, day=np.where(hours == 0, table.seasons.slots.day, -1))
    table.seasons = replace(table.seasons, slots=of_dates)
    section = page_of(table).split("<h2>Changes in the inputs</h2>")[1].split("</section>")[0]
    assert "the same days of the week" in section
    assert "hours" not in section


def test_missing_values_have_their_share_before_and_now_if_it_is_known(table):
    events = tuple(DriftEvent(32, 0.0, (name,), None, "missing") for name in ("x1", "gone"))
    table.watch = replace(table.watch, columns=replace(table.watch.columns, events=events))
    page = page_of(table)
    before = pl.read_csv("reference.csv")["x1"].is_null().mean()
    assert before > 0.15
    assert f"<td>missing</td><td>{before:.0%} → 0% of the rows</td><td>x1</td><td>–</td>" in page
    assert "<td>missing</td><td>–</td><td>gone</td><td>–</td>" in page


def test_only_long_cells_may_wrap():
    subject = replace(follow(1.0), preparation=[("age", "2013-01-21", "a sentence that is longer than a date")])
    assert '<td>2013-01-21</td><td class="long">a sentence' in render_page(subject)


def test_where_the_fixed_model_predicts_the_error_has_one_line():
    held = follow(1.0, order=True, turns_round=True, has_labels=False)
    assert held.model.rules_.guard.name == "off"
    lines = [one for one in figures_of(render_page(held))["error"]["series"] if one["kind"] == "line"]
    assert [one["name"] for one in lines] == ["in use (= fixed), estimated without labels"]
    free = figures_of(render_page(follow(1.0)))["error"]["series"]
    assert [one["name"].split(",")[0] for one in free if one["kind"] != "band"] == ["fixed model", "in use"] * 2


@pytest.mark.slow
def test_the_longest_history_gives_a_small_page():
    subject = follow(1.0, n_rounds=1_100)
    assert len(render_page(subject).encode()) < 150_000


def test_answers_are_marked_and_escaped():
    section = answers_section([("a<b", "yes", "Fine & good."), ("c", "no", "Bad."), ("d", "not known", "Who knows.")])
    assert re.findall(r'<b class="(\w+)">([^<]*)</b>', section) == [
        ("good", "yes"),
        ("bad", "no"),
        ("none", "not known"),
    ]
    assert "a&lt;b" in section
    assert "Fine &amp; good." in section


def test_the_note_counts_the_columns_that_the_chart_shows(page):
    assert figures_of(page)["moved"]["names"][0] == "age", "the column that moved leads"
    random = np.random.default_rng(0)
    X = np.hstack((random.normal(size=(200, 5)), np.zeros((200, 15))))
    model = AdaptiveClassifier(random_state=0).fit(X, (X[:, 0] > X[:, 1]).astype(int))
    for _ in range(25):
        model.adapt(np.hstack((random.normal(size=(20, 5)) + 1.0, np.zeros((20, 15)))))
    found = render_page(about(model))
    assert len(figures_of(found)["moved"]["names"]) == 5
    assert "5 of 20 columns" in found


def test_a_model_that_never_adapts_has_a_report_too():
    page = render_page(follow(50.0, ratio=NoShift()))
    assert "lengths" not in figures_of(page)
    assert "moved very little" not in page


def test_the_command_writes_the_page_and_says_so(table, capsys):
    assert main(["report", "model", "-o", "early.html"]) == 0
    assert "Report: early.html" in capsys.readouterr().err
    assert main(["adapt", "model", "stream.csv", "-o", "predictions.csv", "--label", "label"]) == 0
    assert main(["report", "model", "-o", "report.html"]) == 0
    page = Path("report.html").read_text()
    assert "colour" in page
    assert "position in the week" in page
    assert "error_fixed" not in page  # the choice is shown as a sentence
    assert main(["report", "model", "-o", "report.html"]) == 1
    assert "report.html already exists" in capsys.readouterr().err
    assert main(["report", "model", "-o", "report.html", "--force"]) == 0
    assert Path("report.html").read_text() == page
    assert main(["report", "model", "-o", "report.txt"]) == 2
    assert main(["report", "model", "-o", "nowhere/report.html"]) == 1


def test_the_error_chart_ends_where_its_axis_does_also_without_labels_or_late_readings():
    subject = follow(1.0, n_rounds=600, has_labels=False)
    last_read = subject.history.column("risk_round")
    assert np.nanmax(last_read) < subject.history.rounds[-1]  # the last rounds were not read
    chart = figures_of(render_page(subject))["error"]
    now = subject.model.risk_
    ends = {series["kind"]: (series["x"][-1], series.get("y", series.get("high"))[-1]) for series in chart["series"]}
    assert ends["band"] == (chart["x"]["range"][1], round(now.adapted_high, 5))
    assert ends["line"] == (chart["x"]["range"][1], round(now.adapted, 5))


def test_an_estimate_that_is_not_known_has_no_line():
    subject = follow(3.0, has_labels=False)
    chart = figures_of(render_page(subject))["error"]
    line = next(one for one in chart["series"] if one["kind"] == "line" and "known" in one)
    assert len(line["known"]) == len(line["x"])
    assert line["known"][-1] == subject.snapshot.risk.is_known
    assert 0 < line["known"].count(False) < len(line["known"])
    band = next(one for one in chart["series"] if one["kind"] == "band")
    assert len(band["x"]) == len(line["x"])  # the interval says why


def test_the_time_line_has_a_bar_for_each_visit_of_each_regime(page):
    regimes = follow(1.0).model.regimes_
    section = re.search(r"<h2>Regimes</h2>.*?</section>", page, re.DOTALL)[0]
    visits = [visit for regime in regimes for visit in regime.visits]
    assert section.count('<rect class="visit"') == len(visits) >= 1
    for first, last in visits:
        assert f"rounds {first:,} to {last:,}</title>" in section
    assert section.count("<li>") == len(regimes)
    still = render_page(follow(0.0))
    assert "Regimes" not in still
    assert re.search(r"<span>changes detected</span><strong>\d+</strong></div>", still), "no second line without need"
