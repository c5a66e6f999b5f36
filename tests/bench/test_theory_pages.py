"""The scripts behind the theory's figures, at a small size."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from accous_bench.reporting.regret import exponent_with_logs
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
