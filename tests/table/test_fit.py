"""Which predictor `--estimator auto` takes, given what both did on the reference."""

import numpy as np
import polars as pl
import pytest

from accous.diagnostics.risk import Evidence, Residuals
from accous.model.backtest import Backtest
from accous.table.fit import FitJob, FitRequest, Trial, choose, is_worth_comparing, n_rows_to_compare


def make_trial(name: str, errors: list[int], gain: float = 0.0, drift: float = 0.01) -> Trial:
    """A trial with so many errors in each of four blocks of a hundred rows, and with this gain of adaptation."""
    is_right = np.concatenate([np.arange(100) >= n_wrong for n_wrong in errors])
    residuals = Residuals(mean=0.0, shift=0.0, spread=0.01, spread_down=0.01, unexplained=0.0)
    evidence = Evidence(fixed=residuals, adapted=residuals, drift=drift, gain=gain, n_looks=9)
    return Trial(name, 1.0 - is_right, True, Backtest(n_reference=500, looks=(), evidence=evidence))


@pytest.mark.parametrize(
    ("linear", "boosting", "chosen", "reason"),
    [
        ([10, 11, 12, 13], [11, 12, 13, 14], "linear", "ahead, and by more than 1.5 standard errors"),
        ([10, 11, 12, 13], [40, 40, 40, 12], "linear", "ahead, and by more than 1.5 standard errors"),
        # As on the first 1,000 rows of elec2: ahead in two blocks by far, behind in one by little.
        ([23, 20, 25, 24], [22, 31, 25, 37], "linear", "ahead, and by more than 1.5 standard errors"),
        # As on those of occupancy: one block alone is no evidence, however much it differs.
        ([5, 0, 0, 0], [91, 0, 0, 0], "boosting", "Linear is ahead, but not by more than 1.5 standard errors"),
        ([10, 11, 12, 13], [10, 11, 12, 14], "boosting", "Linear is ahead, but not by more than 1.5 standard errors"),
        ([10, 11, 12, 13], [10, 11, 12, 13], "boosting", "Neither is ahead"),
        ([0, 0, 0, 0], [0, 0, 0, 0], "boosting", "Neither is ahead"),
        ([10, 12, 10, 12], [12, 10, 12, 10], "boosting", "Neither is ahead"),
        ([20, 20, 20, 20], [10, 10, 10, 10], "boosting", "It is ahead on the reference"),
        ([10, 10, 10, 40], [12, 12, 12, 12], "boosting", "It is ahead on the reference"),
    ],
)
def test_linear_has_to_be_ahead_by_more_than_the_noise_between_blocks(linear, boosting, chosen, reason):
    choice = choose(make_trial("linear", linear), make_trial("boosting", boosting))
    assert choice.name == chosen
    assert reason in choice.reason
    assert choice.trials[0].errors[0] == pytest.approx(np.mean(linear) / 100)
    # What is said agrees with the table.
    is_ahead = np.mean(linear) < np.mean(boosting)
    assert is_ahead == ("inear is ahead" in choice.reason or choice.name == "linear")
    assert choice.to_json()["compared"]["boosting"] == {
        "error": pytest.approx(np.mean(boosting) / 100),
        "adapted_minus_fixed": 0.0,
    }


@pytest.mark.parametrize(
    ("gain", "drift", "chosen"), [(-0.05, 0.01, "linear"), (0.05, 0.01, "boosting"), (-0.05, 0.2, "boosting")]
)
def test_what_adaptation_saves_counts(gain, drift, chosen):
    linear, boosting = make_trial("linear", [20] * 4, gain, drift), make_trial("boosting", [18] * 4)
    assert choose(linear, boosting).name == chosen
    assert linear.errors == (pytest.approx(0.2), pytest.approx(0.2 + gain))
    # The table shows 15 % for linear with adaptation and 18 % for boosting.
    assert ("with linear does not count" in choose(linear, boosting).reason) == (drift == 0.2)


@pytest.mark.parametrize(("n_better", "chosen"), [(0, "linear"), (3, "linear"), (60, "boosting")])
def test_without_an_order_boosting_has_to_be_clearly_better(n_better, chosen):
    is_right = np.arange(1000) < 700
    others = is_right | (np.arange(1000) >= 1000 - n_better - 4)
    others[:4] = False
    trials = Trial("linear", 1.0 - is_right, False, None), Trial("boosting", 1.0 - others, False, None)
    assert choose(*trials).name == chosen
    assert trials[0].errors == (pytest.approx(0.3), None)


def test_too_few_rows_are_not_compared():
    assert choose(Trial("linear", None, True, None), Trial("boosting", None, True, None)).name == "linear"
    assert "fewer than 500 rows" in is_worth_comparing(499, 5, 2)
    assert "too many features and classes" in is_worth_comparing(100_000, 5_000, 10)
    assert is_worth_comparing(5_000, 20, 2) == is_worth_comparing(5_000_000, 20, 2) == ""


@pytest.mark.parametrize(
    ("shape", "n_rows"),
    [((5_000, 20, 2), 5_000), ((50_000, 50, 2), 50_000), ((50_001, 50, 2), 10_000), ((600, 3_000, 3), 500)],
)
def test_of_a_large_reference_some_thousand_rows_are_compared(shape, n_rows):
    assert n_rows_to_compare(*shape) == n_rows


@pytest.mark.parametrize(("is_ordered", "which"), [(True, "the latest 500"), (False, "a sample of 500")])
def test_a_part_of_a_large_reference_decides_and_the_model_has_all_rows(is_ordered, which, monkeypatch, tmp_path):
    monkeypatch.setattr("accous.table.fit.MOST_NUMBERS", 2_300)
    monkeypatch.setattr("accous.table.fit.ENOUGH_NUMBERS", 2_000)
    generator = np.random.default_rng(0)
    x = generator.normal(size=(600, 2))
    # A rule that no line has, in the latest rows only.
    y = np.where(np.arange(600) < 100, generator.random(600) < 0.5, x[:, 0] * x[:, 1] > 0)
    pl.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": y.astype(int)}).write_csv(tmp_path / "reference.csv")
    options = {"label": "y", "estimator": "auto", "is_ordered": is_ordered, "folder": tmp_path / "m"}
    job = FitJob(FitRequest(reference=str(tmp_path / "reference.csv"), **options))
    part = job.reference.part(500, seed=0)
    assert len(part.y) == len(part.X) == part.frame.height == 500
    assert np.array_equal(part.frame["a"].cast(pl.Float64), x[100:, 0]) == is_ordered
    model = job.fit_and_save()
    assert job.choice.name == "boosting"
    assert f"The two were compared on {which} of 600 rows" in job.choice.reason
    assert len(model.model.reference_) == 600
