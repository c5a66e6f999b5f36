"""The search over readings: against known orders, against the obvious loop, and as a page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from accous.streams import GaussianStream, MixtureStream
from accous_bench.contenders import get_contender
from accous_bench.protocols import PROTOCOLS, fit_on, rounds
from accous_bench.reporting.paper import PAPER_RESULTS
from benchmarks import readings, record
from benchmarks.reading_data import SHIFTS, Gaussians, Halves
from benchmarks.reading_fit import ESTIMATORS, fit_to_paper, mean_fit
from benchmarks.reading_scores import Cell, LinearModel, Predictor, errors_in
from benchmarks.readings import SYNTHETIC, TABLES, cells_of, names_for
from benchmarks.readings_page import readings_blocks, readings_of

NAMES = tuple(ESTIMATORS["regularised"])
CELLS = cells_of(SYNTHETIC[0])


def published(cell: tuple[str, str, int]) -> dict[str, float]:
    return {name: PAPER_RESULTS[(*cell, name)].mean for name in NAMES}


def test_the_papers_own_numbers_fit_perfectly() -> None:
    for cell in CELLS:
        assert fit_to_paper(published(cell), cell) == (0.0, pytest.approx(1.0))


def test_a_reversed_order_has_the_correlation_minus_one() -> None:
    for cell in CELLS:
        fit = fit_to_paper({name: 70.0 - error for name, error in published(cell).items()}, cell)
        assert fit.order == pytest.approx(-1.0)
        assert fit.distance > 0.0


def test_means_are_over_the_cells_of_a_batch_size() -> None:
    fits = {cell: fit_to_paper(published(cell), cell) for cell in CELLS}
    worse = {name: error + 2.0 for name, error in published(CELLS[0]).items()}
    fits[CELLS[0]] = fit_to_paper(worse, CELLS[0])
    assert mean_fit(fits, batch_size=1).distance == pytest.approx(0.5)
    assert mean_fit(fits, batch_size=5).distance == 0.0
    assert mean_fit(fits).order == pytest.approx(1.0)


def test_ties_up_to_rounding_stay_ties() -> None:
    cell = CELLS[0]
    errors = published(cell) | {"KLIEP": 36.0, "uLSIF": 36.0}
    nearly = errors | {"uLSIF": 36.0 - 1e-9}
    assert fit_to_paper(nearly, cell).order == fit_to_paper(errors, cell).order


@pytest.mark.parametrize("name", ["OLRE", "LR"])
def test_one_pass_gives_the_errors_of_every_protocol(name: str) -> None:
    cell = Cell("gaussian", "Squ", 5, 24, 0)
    found = errors_in(Gaussians(), cell, ["FIX", name], [Predictor()], every=1)
    stream = Gaussians().stream("gaussian", "Squ", 5, 24, 0)
    for protocol in PROTOCOLS[:2]:
        contender = get_contender(name)
        model = contender(0).set_params(refit="always")
        fit_on(stream, contender, model)
        risks = [stream.risk(model.estimator_, batch.alpha) for batch in rounds(contender, model, stream, protocol)]
        assert found[name, Predictor(), protocol] == pytest.approx(100.0 * np.mean(risks), abs=1e-3)


def test_fix_has_its_exact_risk_under_every_protocol_and_whatever_is_scored() -> None:
    errors = [errors_in(Gaussians(), Cell("gaussian", "Lin", 1, 40, 1), ["FIX"], [Predictor()], n) for n in (1, 8)]
    assert len({round(error, 9) for found in errors for error in found.values()}) == 1


def test_the_chance_of_an_error_given_the_row_is_the_share_of_wrong_labels() -> None:
    stream = GaussianStream(SHIFTS["Lin"], n_rounds=400, batch_size=20, random_state=0)
    model = LinearModel(np.r_[1.0, np.zeros(11)], 0.2)
    pairs = [(Gaussians.chance_of_error(stream, b, model.predict(b.X)), model.predict(b.X) != b.y) for b in stream]
    chances, wrong = (np.concatenate(part) for part in zip(*pairs, strict=True))
    # The standard error of the difference is 0.5 points at most.
    assert chances.mean() == pytest.approx(wrong.mean(), abs=0.02)


def test_scaling_divides_the_penalty_out_of_the_units() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = (X[:, 0] + 0.3 * rng.normal(size=200) > 0).astype(int)

    class Stretched(Halves):
        def stream(self, dataset: str, shift: str, batch_size: int, n_rounds: int, seed: int) -> MixtureStream:
            scale = 1000.0 if dataset == "large" else 1.0
            pool = (scale * X, y)
            return MixtureStream(pool, pool, SHIFTS[shift], n_rounds=n_rounds, batch_size=batch_size)

    strong = [Predictor(0.001, is_scaled=is_scaled) for is_scaled in (True, False)]
    small, large = (
        errors_in(Stretched(), Cell(name, "Squ", 5, 8, 0), ["FIX"], strong, 1) for name in ("small", "large")
    )
    is_scaled, is_raw = (("FIX", predictor, "predict_first") for predictor in strong)
    assert small[is_scaled] == pytest.approx(large[is_scaled])
    assert small[is_raw] != pytest.approx(large[is_raw])


def test_the_page_says_what_fits_before_and_after(tmp_path: Path) -> None:
    ours = ESTIMATORS["regularised"]

    def row(protocol: str, angle: float | None, sign: float) -> dict[str, object]:
        errors = {ours[name]: [35.0 + sign * (published(cell)[name] - 35.0) for cell in CELLS] for name in NAMES}
        cells = [", ".join(map(str, cell)) for cell in CELLS]
        choices = {"angle": angle, "lin_falls": False, "C": 1.0, "is_scaled": False, "protocol": protocol}
        return {**choices, "n_seeds": 2, "cells": cells, "errors": errors}

    synthetic = [row("predict_first", 75.0, 0.5), row("batch_first", 75.0, -1.0), row("predict_first", None, 1.0)]
    file = tmp_path / "readings.json"
    rows = {"n_rounds": 4000, "score_every": 20, "synthetic": synthetic, "tables": []}
    file.write_text(json.dumps({"rows": rows}))
    _heading, _method, finding, table = readings_blocks(file)
    assert "learning first gives a rank correlation of −1.00 (N_t = 1), −1.00 (N_t = 5)" in finding.text
    assert "predicting first, as on this page, a rank correlation of 1.00" in finding.text
    assert (
        '"published geometry": a rank correlation of 1.00 (N_t = 1), 1.00 (N_t = 5) and a distance of 0.0'
        in finding.text
    )
    assert len(table.rows) == len(readings_of(synthetic)) == 3
    assert readings_blocks(tmp_path / "missing.json") == []


def test_every_reading_has_kernels_of_unit_width_too() -> None:
    unit = set(ESTIMATORS["unit width"].values())
    assert {"KLIEP (unit width)", "uLSIF (unit width)", "KMM (unit width)", "LR (weak penalty)"} <= unit
    for data in (*SYNTHETIC, *TABLES):
        assert unit <= set(names_for(data))


def test_a_family_that_is_not_measured_keeps_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "FOLDER", tmp_path / "benchmarks" / "results")
    monkeypatch.setattr(readings, "FOLDER", tmp_path / "benchmarks" / "results")
    monkeypatch.setitem(readings.FAMILIES, "tables", (Halves(),))
    monkeypatch.setattr(readings, "measure", lambda *given: seeds.append(given[3]))
    seeds: list[int] = []
    record.FOLDER.mkdir(parents=True)
    kept = {"n_rounds": 100, "score_every": 5, "synthetic": [{"angle": 75.0}], "tables": [{"split": "seed"}]}
    record.write_results("readings", kept)

    readings.search(["tables"], n_seeds=2, n_rounds=100, every=5)
    written = json.loads((record.FOLDER / "readings.json").read_text())["rows"]
    assert written == kept | {"tables": []}
    assert seeds == [1, 2]  # not the one that settings were looked at on

    readings.search(["tables"], n_seeds=1, n_rounds=200, every=5)
    written = json.loads((record.FOLDER / "readings.json").read_text())["rows"]
    assert written["synthetic"] == []  # streams of another length
