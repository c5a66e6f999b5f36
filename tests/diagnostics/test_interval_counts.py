"""Prediction intervals are counted by late labels, and doubted in one sentence where they do not hold."""

import math
from dataclasses import replace

import numpy as np
import pytest

import accous
from accous import AdaptiveClassifier, AdaptiveRegressor
from accous.diagnostics.labels import NO_INTERVALS, doubt_about_intervals
from accous.diagnostics.risk import wilson_interval
from accous.diagnostics.trust import Answer
from accous.exceptions import DataError, ParameterError


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    return AdaptiveRegressor().fit(X, X[:, 0] + 0.3 * rng.normal(size=300)).adapt(X[:100])


@pytest.fixture
def model(fitted, tmp_path):
    accous.save(fitted, tmp_path / "model")
    return accous.load(tmp_path / "model")


def observe(model, n_rows, *, offset):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n_rows, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=n_rows) + offset
    return model.observe(X, y, intervals=model.predict_interval(X, alpha=0.1))


def test_the_share_is_that_of_the_labelled_rows_and_is_saved(model, tmp_path):
    found = observe(model, 200, offset=0.0).measured_.intervals
    assert found.n_rows == 200
    assert 0.8 < found.share < 0.97
    assert not found.are_too_narrow
    assert found.sentence.endswith("90% were promised.")
    accous.save(model, tmp_path / "again")
    assert accous.load(tmp_path / "again").measured_.intervals == found


def test_intervals_that_hold_too_few_numbers_are_not_to_be_relied_on(model):
    found = observe(model, 200, offset=1.0).measured_.intervals
    assert found.are_too_narrow
    assert found.sentence == (
        f"Of the true numbers of 200 labelled rows, {found.share:.0%} lay between low and high (recent rows count "
        "more); 90% were promised: do not rely on them."
    )


@pytest.mark.parametrize(("share", "is_too_few"), [(0.88, False), (0.84, True)])
def test_many_labels_do_not_make_a_small_gap_a_large_one(share, is_too_few):
    """With 3,000 labels the interval of 88 % ends below the 90 % that were promised; nobody is misled by that."""
    powers = 0.5 ** (np.arange(3_000)[::-1] / 500)
    is_inside = (np.arange(3_000) % 25 < 25 * share).astype(float)
    found = NO_INTERVALS.after(is_inside, powers, 1.0)
    assert found.share == pytest.approx(share, abs=0.005)
    assert wilson_interval(found.share, found.weight**2 / found.squares)[1] < 0.9
    assert found.are_too_narrow is is_too_few
    assert ("do not rely" in found.sentence) is is_too_few


def test_rows_with_intervals_fade_when_none_has_come_for_long():
    found = NO_INTERVALS.after(np.zeros(30), np.ones(30), 1.0).after(np.full(2, np.nan), np.ones(2), 1e-300)
    assert (found.sentence, found.are_too_narrow) == ("", False)
    assert math.isnan(found.share)


def test_few_rows_and_rows_without_an_interval_say_nothing(model):
    assert observe(model, 19, offset=9.0).measured_.intervals.sentence == ""
    model.observe(np.zeros((5, 2)), np.zeros(5), intervals=np.full((5, 2), np.nan))
    assert model.measured_.intervals.n_rows == 19
    assert math.isnan(NO_INTERVALS.share)


def test_rows_that_join_the_reference_start_the_count_again(model):
    observe(model, 200, offset=1.0)
    X = np.random.default_rng(2).normal(size=(50, 2))
    model.extend(X, X[:, 0] + 1.0)
    assert model.measured_.intervals == NO_INTERVALS


def test_without_labels_intervals_are_doubted_where_the_estimate_is(model):
    trust = model.trust_

    def doubt(**answers):
        given = {name: Answer(answer, "") for name, answer in answers.items()}
        return doubt_about_intervals(None, replace(trust, **given))

    assert doubt(inputs="yes", predictions="not known") == ""
    assert "does not cover the inputs" in doubt(inputs="no", predictions="not known")
    assert "cannot be believed" in doubt(inputs="yes", predictions="no")
    observe(model, 200, offset=0.0)
    bad = replace(trust, inputs=Answer("no", ""))
    assert doubt_about_intervals(model.measured_, bad) == model.measured_.intervals.sentence


def test_intervals_of_another_shape_and_of_classes_are_refused(model):
    with pytest.raises(DataError, match=r"shape \(5, 2\), got \(5,\)"):
        model.observe(np.zeros((5, 2)), np.zeros(5), intervals=np.zeros(5))
    classes = AdaptiveClassifier().fit(np.arange(20.0)[:, None], np.arange(20) % 2)
    with pytest.raises(ParameterError, match="predicts sets"):
        classes.observe(np.zeros((1, 1)), [0], intervals=np.zeros((1, 2)))
