"""A table's own findings about its columns decide in every reading: the answers, the estimate and what labels say."""

import numpy as np
import polars as pl
import pytest

import accous
from accous.cli import main
from accous.diagnostics.trust import VERDICTS
from accous.report import figures
from accous.report.words import judge_in_words, report_source
from accous.service.live import Metrics
from accous.table.summary import summarize_table_model


def rows(n_rows, seed, category=None):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_rows, 6))
    plan = rng.choice(["basic", "family", "pro"], n_rows) if category is None else np.full(n_rows, category)
    numbers = {f"x{number}": x[:, number] for number in range(6)}
    return pl.DataFrame(numbers | {"plan": plan, "y": 2.0 * x[:, 0] + rng.normal(scale=0.5, size=n_rows)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("coverage")
    rows(400, 0).write_csv(folder / "reference.csv")
    fit = ["fit", str(folder / "reference.csv"), "--label", "y", "--unordered", "--estimator", "linear", "--quiet"]
    assert main([*fit, "-o", str(folder / "model")]) == 0
    return folder


@pytest.fixture
def model(folder):
    """A model of numbers, half of whose recent rows have a category that the reference does not have."""
    model = accous.load(folder / "model")
    rng = np.random.default_rng(1)
    for seed in range(30):
        new = rng.random(10) < 0.5
        batch = rows(10, 2 + seed)
        model.step(batch.with_columns(plan=pl.when(pl.Series(new)).then(pl.lit("student")).otherwise("plan")))
    return model


def test_a_new_category_in_many_rows_is_not_covered_in_any_reading(model):
    assert model.trust_.inputs.answer == "no"
    assert (
        "'plan' has categories that the model's columns do not know, such as 'student'" in model.trust_.inputs.sentence
    )
    assert model.model.risk_.is_covered  # the features alone do not show it
    assert not model.risk_.is_covered
    later = rows(200, 99, "student").with_columns(pl.col("y") + 50.0)
    found = model.observe(later).measured_
    assert (found.is_covered, found.concept_changed) == (False, "not known")
    assert np.isnan(found.estimated)
    assert found.sentence.count("the reference does not cover the inputs") == 1


def play(model, category, n_rounds=60):
    for seed in range(n_rounds):
        model.step(rows(10, 200 + seed, category))


def test_categories_that_have_joined_are_not_new_and_others_are(model, tmp_path):
    model.extend(rows(100, 100, "student"))
    assert model.coverage_.columns == ()
    play(model, "student")
    assert model.coverage_.columns == ()
    accous.save(model, tmp_path / "model")
    model = accous.load(tmp_path / "model")
    assert model.encoder.joined_categories == {"plan": ("student",)}
    play(model, "martian")
    assert model.trust_.inputs.answer == "no"
    assert [each.sentence for each in model.coverage_.columns] == [
        "Column 'plan' has categories that the model's columns do not know, such as 'martian', in all recent rows."
    ]
    assert not model.risk_.is_covered


def test_what_joined_is_still_counted_as_unknown_to_the_model(model):
    model.extend(rows(100, 100, "student"))
    assert int(model.prepare(rows(10, 0, "student")).n_unknown.sum()) == 10


def test_of_several_new_categories_the_rows_so_far_stay_new(model):
    play(model, "martian", 20)
    model.extend(rows(100, 100, "student"))
    assert [each.kind for each in model.coverage_.columns] == ["categories"]


def test_many_categories_that_occur_once_do_not_hide_a_new_one(tmp_path):
    once = rows(400, 0).with_columns(
        plan=pl.when(pl.int_range(pl.len()) < 30).then(pl.format("u{}", pl.int_range(pl.len()))).otherwise("plan")
    )
    once.write_csv(tmp_path / "reference.csv")
    fit = ["fit", str(tmp_path / "reference.csv"), "--label", "y", "--unordered", "--estimator", "linear", "--quiet"]
    assert main([*fit, "-o", str(tmp_path / "model")]) == 0
    model = accous.load(tmp_path / "model")
    play(model, "martian", 40)
    assert model.trust_.inputs.answer == "no"


def test_the_report_says_that_only_fit_learns_new_categories(model):
    advice = judge_in_words(report_source(model.snapshot(), "model")).advice
    assert (
        advice[0] == "To learn the new categories of 'plan', run accous fit again: accous extend does not teach them."
    )
    assert "Label a few hundred recent rows (accous labels), and take them into the reference of that fit." in advice
    assert not any("(accous extend)" in each for each in advice)


def test_a_part_of_a_calendar_is_told_with_the_way_to_leave_it_out(tmp_path):
    months = pl.Series("Month", ["Feb", "Mar", "May"] * 100)
    rows(300, 0).with_columns(months).write_csv(tmp_path / "reference.csv")
    fit = ["fit", str(tmp_path / "reference.csv"), "--label", "y", "--unordered", "--estimator", "linear", "--quiet"]
    assert main([*fit, "-o", str(tmp_path / "model")]) == 0
    model = accous.load(tmp_path / "model")
    model.step(rows(200, 1).drop("y").with_columns(Month=pl.lit("Dec")))
    (found,) = model.coverage_.columns
    assert found.sentence == (
        "Column 'Month' has categories that the model's columns do not know, such as 'Dec', in all recent rows. To "
        "leave it out, run accous fit with --drop Month."
    )


def test_the_report_says_that_only_fit_uses_a_column_that_was_constant(tmp_path):
    rows(400, 0).with_columns(fee=pl.lit(1.0)).write_csv(tmp_path / "reference.csv")
    fit = ["fit", str(tmp_path / "reference.csv"), "--label", "y", "--unordered", "--estimator", "linear", "--quiet"]
    assert main([*fit, "-o", str(tmp_path / "model")]) == 0
    model = accous.load(tmp_path / "model")

    def advice():
        return " ".join(judge_in_words(report_source(model.snapshot(), "model")).advice)

    model.step(rows(200, 1).drop("y").with_columns(fee=pl.lit(1.0)))
    assert "run accous fit again" not in advice()
    model.step(rows(200, 2).drop("y").with_columns(fee=pl.lit(2.5)))
    assert "To use 'fee', run accous fit again on rows in which the values differ: the model leaves it out" in advice()


def test_metrics_leave_out_what_labels_measured_of_an_earlier_model(model):
    def shown():
        metrics = Metrics()
        metrics.take_state(summarize_table_model(model.snapshot())["state"], 0)
        line = next(
            each for each in metrics.exposition().decode().splitlines() if 'measured_error{bound="value"}' in each
        )
        return line.rpartition(" ")[2]

    model.observe(rows(200, 99))
    assert float(shown()) == pytest.approx(model.measured_.error)
    model.extend(rows(100, 100))
    assert shown() == "NaN"


def test_the_chart_has_no_line_of_numbers_where_the_reference_has_no_rows(model, monkeypatch):
    monkeypatch.setattr(figures, "is_telling", lambda *_: True)  # however narrow the interval is
    subject = report_source(model.snapshot(), "model")
    is_out = subject.history.column("verdict") == VERDICTS.index("no overlap")
    line = next(one for one in figures.error_figure(subject)["series"] if one["kind"] == "line")
    assert is_out.sum() > 5
    assert line["known"].count(False) >= is_out.sum()
