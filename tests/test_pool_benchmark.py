"""The ablations of the pool switch what they say, and their streams have the answers they claim."""

import argparse
import json
from pathlib import Path

import numpy as np
import pytest

from accous.core import pool as support
from accous.model import safeguards as fallback
from accous.model import safeguards as shrinkage
from accous.model.safeguards import shrink
from accous.streams import GaussianStream, SquareShift
from accous_bench.contenders import get_contender
from benchmarks import limit, pool
from benchmarks.limit import play
from benchmarks.pool_arms import ARMS, DEFAULT, ENSEMBLE, FALLBACK, constants
from benchmarks.pool_cases import GaussianCase, RegimeCase, StreamCase, TableCase
from benchmarks.pool_regimes import KINDS, RegimeStream
from benchmarks.record import keep_row

CONSTANTS = (shrinkage.STRENGTHS, fallback.FIRST_STRENGTH, support._NO_HOLD, support._FULL_HOLD)
OPTIONS = argparse.Namespace(rounds=60, full=False, quick=True, match="")


def in_force() -> tuple[object, ...]:
    return shrinkage.STRENGTHS, fallback.FIRST_STRENGTH, support._NO_HOLD, support._FULL_HOLD


@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: arm.name)
def test_an_arm_switches_its_constants_and_puts_them_back(arm: object) -> None:
    with arm.switched():
        assert (support.hold_for(100.0) > 0.0) is arm.has_guard
        assert (shrinkage.STRENGTHS == (0.0,)) is (not arm.has_shrinkage)
    assert in_force() == CONSTANTS


def test_constants_come_back_after_an_error() -> None:
    def fail() -> None:
        with constants({"accous.core.pool._NO_HOLD": 5.0}):
            raise ValueError(support._NO_HOLD)

    with pytest.raises(ValueError, match=r"5\.0"):
        fail()
    assert in_force() == CONSTANTS


def test_without_shrinkage_the_weights_are_those_of_the_ratio() -> None:
    weights = np.array([3.0, 0.5, 0.25, 0.25])
    assert shrink(weights, np.ones(4), 0.0).tobytes() == weights.tobytes()
    stream = GaussianStream(SquareShift(period=20), n_rounds=60, n_reference=150, batch_size=3)
    no_shrinkage = ARMS[3]
    with no_shrinkage.switched():
        model = no_shrinkage.model().fit(*stream.reference())
        for batch in stream:
            n_refits = model.n_refits_
            model.adapt(batch.X)
            if model.n_refits_ > n_refits:
                np.testing.assert_array_equal(model.state_.fitted_weights, model.reference_weight_)
    assert model.n_refits_ > 0


@pytest.mark.parametrize(("arm", "name"), [(ENSEMBLE, None), (DEFAULT, "Accous")])
def test_the_first_and_the_last_arm_are_the_paper_and_the_default(arm: object, name: str | None) -> None:
    stream = GaussianStream(SquareShift(period=20), n_rounds=40, n_reference=150, batch_size=3)
    with arm.switched():
        found = play(arm.contender(), stream)
    if name is None:
        model = arm.model().fit(*stream.reference())
        assert model.ratio_.pool_ is None
        assert (model.fallback, arm.memory) == ("none", 4)
    else:
        assert found.tobytes() == play(get_contender(name), stream).tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_streams_of_many_regimes_know_their_ratio_and_risk(kind: str) -> None:
    stream = RegimeStream(kind, n_rounds=400, batch_size=200, random_state=3)
    batches = {int(batch.alpha): batch for batch in stream}
    X, y = stream.reference()
    model = get_contender("FIX")(0).fit(X, y).estimator_
    for part, batch in batches.items():
        ratio = stream.reference_ratio(float(part))
        assert ratio.mean() == pytest.approx(1.0, abs=0.35)
        assert ratio.max() <= 1.0 / stream.shares[part] + 1e-9
        wrong = float(np.mean(model.predict(batch.X) != batch.y))
        assert wrong == pytest.approx(stream.risk(model, part), abs=0.12)
        # The weighted reference has the mean of the part's rows.
        weighted = (ratio[:, None] * X).mean(axis=0) / ratio.mean()
        assert np.linalg.norm(weighted - batch.X.mean(axis=0)) < 1.0
    assert stream.parts.max() == len(stream.shares) - 1 or kind == "six"


def test_a_week_has_five_working_days() -> None:
    parts = RegimeStream("week", n_rounds=168, batch_size=1, random_state=0).parts
    assert np.bincount(parts).tolist() == [60, 60, 48]


def test_a_case_is_measured_against_fix_and_its_bounds() -> None:
    row = pool.measure(GaussianCase("Squ", 12, 1000, 5, 140), [FALLBACK, DEFAULT], [0, 1])
    assert list(row["errors"]) == ["FIX", "limit", "oracle", FALLBACK.name, DEFAULT.name]
    assert row["standard_errors"]["FIX"] == 0.0
    table = pool.markdown([row])
    share = (row["errors"]["FIX"] - row["errors"][DEFAULT.name]) / (row["errors"]["FIX"] - row["errors"]["limit"])
    assert f"{row['errors'][DEFAULT.name]:.2f} ({100 * share:.0f})" in table
    assert ENSEMBLE.name not in table


def test_the_parts_have_the_cases_they_name() -> None:
    labels = {part: [case.label for case in pool.cases_of(part, OPTIONS)] for part in ("headline", "gaussian")}
    assert "d = 12, N_0 = 1,000, N_t = 1, standing still" in labels["headline"]
    assert len(labels["gaussian"]) == 5 * 4
    assert not set(labels["headline"]) & set(labels["gaussian"])
    full = argparse.Namespace(**vars(OPTIONS) | {"full": True, "match": "Sin"})
    assert len(pool.cases_of("gaussian", full)) == 27
    assert len(pool.cases_of("regimes", OPTIONS)) == 6


def test_regimes_are_measured_with_the_oracle_as_bound() -> None:
    found = RegimeCase("three", 5, 84).errors([DEFAULT], 0)
    assert set(found) == {"FIX", "oracle", DEFAULT.name}
    assert found["oracle"] < found["FIX"]


def test_tables_and_streams_are_predicted_first(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCOUS_DATA", str(data_folder))
    of_table = TableCase("diabetes", "Squ", 70).errors([DEFAULT], 0)
    assert 10.0 < of_table["FIX"] < 50.0
    assert 10.0 < of_table[DEFAULT.name] < 50.0
    # A stream shorter than the first rounds of the ensemble is predicted by the fixed model alone.
    of_stream = StreamCase("powersupply", False, most_rows=1020).errors([DEFAULT], 0)
    assert of_stream["FIX"] == of_stream[DEFAULT.name]


def test_a_run_replaces_only_a_run_of_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.record.FOLDER", tmp_path / "benchmarks" / "results")
    (tmp_path / "benchmarks").mkdir()
    run = {"case": "a", "n_rounds": 10, "seeds": [0], "errors": {"FIX": 1.0}}
    keep_row("pool", "regimes", run)
    keep_row("pool", "tables", run)
    for other in ({"n_rounds": 20}, {"seeds": [1]}, {"errors": {"FIX": 1.0, "mine": 2.0}}, {"errors": {"FIX": 3.0}}):
        keep_row("pool", "regimes", run | other)
    stored = json.loads((tmp_path / "benchmarks" / "results" / "pool.json").read_text())["rows"]
    assert list(stored) == ["regimes", "tables"]
    assert [(row["n_rounds"], row["seeds"], row["errors"]) for row in stored["regimes"]] == [
        (20, [0], {"FIX": 1.0}),
        (10, [1], {"FIX": 1.0}),
        (10, [0], {"FIX": 1.0, "mine": 2.0}),
        (10, [0], {"FIX": 3.0}),
    ]
    assert all("commit" in row for row in stored["regimes"])


def test_the_limit_keeps_its_risks_by_shift(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.record.FOLDER", tmp_path / "benchmarks" / "results")
    (tmp_path / "benchmarks").mkdir()
    for seeds in ("3", "4"):
        options = ["--seeds", seeds, "--rounds", "28", "--shifts", "Squ", "--jobs", "1"]
        monkeypatch.setattr("sys.argv", ["limit", *options])
        limit.main()
    stored = json.loads((tmp_path / "benchmarks" / "results" / "limit.json").read_text())["rows"]
    assert [row["seeds"] for row in stored["Squ"]] == [[3], [4]]
    assert set(stored["Squ"][0]["risks"]) == {"FIX", "Accous", "limit", "oracle"}
