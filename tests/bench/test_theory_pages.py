"""The scripts behind the theory's figures and the search over readings, at a small size."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from accous_bench.reporting.regret import exponent_with_logs
from benchmarks.readings import CONTENDERS, SHIFTS, Reading, distance_and_order, errors_of
from benchmarks.readings_page import readings_blocks
from benchmarks.theory import excess_risks, learner_costs, theorem_regrets
from benchmarks.theory_page import theory_blocks


def test_the_bounds_logarithms_make_its_slope_steeper() -> None:
    lengths = [1000, 2000, 4000]
    by_hand = np.polyfit(np.log(lengths), np.log(np.array(lengths) ** (1 / 3) * np.log(lengths) ** 2), 1)[0]
    assert exponent_with_logs("fixed path", lengths) == pytest.approx(by_hand)
    assert by_hand > 0.5


def test_theory_is_measured_and_drawn(tmp_path: Path) -> None:
    lengths, seeds = [32, 64], [0]
    rows = {
        "lengths": lengths,
        "seeds": seeds,
        "cost": learner_costs(64),
        "excess_risk": excess_risks(lengths, seeds),
        "theorem_regret": theorem_regrets(lengths, seeds),
    }
    assert rows["cost"]["n_learners"] == [3.0, 4.0]
    for values in rows["theorem_regret"].values():
        assert np.array(values).shape == (2, 1)
        assert np.min(values) > 0.0
    file = tmp_path / "theory.json"
    file.write_text(json.dumps({"rows": rows}))
    blocks, drawings = theory_blocks(file)
    assert set(drawings) == {"theory-regret", "theory-excess-risk", "theory-cost"}
    assert len(blocks) == 2 + len(drawings)
    assert theory_blocks(tmp_path / "missing.json") == ([], {})


def test_a_reading_is_compared_with_the_paper(tmp_path: Path) -> None:
    plain, scaled = (
        errors_of(Reading(is_scaled=is_scaled), "FIX", "Squ", 5, 40, seed=0) for is_scaled in (False, True)
    )
    assert 20.0 < plain < 50.0
    assert 5.0 < scaled < 60.0
    paper = {("FIX", "Lin", 1): 32.85}
    errors = {
        (name, shift, size): 30.0 + CONTENDERS.index(name) for name in CONTENDERS for shift in SHIFTS for size in (1, 5)
    }
    distance, order = distance_and_order(errors | paper)
    assert 0.0 < distance < 10.0
    assert -1.0 <= order <= 1.0
    readings = [
        {"angle": 75.0, "protocol": protocol, "C": 1.0, "is_scaled": False, "distance": 3.0, "order": order}
        for protocol in ("predict_first", "batch_first")
    ]
    file = tmp_path / "readings.json"
    file.write_text(json.dumps({"rows": {"n_rounds": 40, "n_seeds": 1, "readings": readings}}))
    _heading, paragraph, table = readings_blocks(file)
    assert "learning first gives a rank correlation of" in paragraph.text
    assert len(table.rows) == 2
    assert readings_blocks(tmp_path / "missing.json") == []
