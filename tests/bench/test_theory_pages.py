"""The scripts behind the theory's figures, at a small size."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from accous_bench.reporting.regret import exponent_with_logs
from benchmarks.theory import excess_risks, learner_costs, theorem_regrets
from benchmarks.theory_page import theory_blocks, theory_words, verdict


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
    assert {block.name: block.caption for block in blocks[2:]} == theory_words(rows)
    assert theory_blocks(tmp_path / "missing.json") == ([], {})


def words_on(regret: float, risk: float, milliseconds: list[float]) -> list[str]:
    """Return the verdicts on regrets and risks that grow with known powers of T, but for a factor by seed."""
    lengths, seeds = [500, 1000, 2000, 4000], [0, 1, 2]
    jitter = np.random.default_rng(0).normal(1.0, 0.01, (len(lengths), len(seeds)))

    def powers(p: float) -> list[list[float]]:
        return (np.array(lengths, dtype=float)[:, None] ** p * jitter).tolist()

    rows = {
        "lengths": lengths,
        "seeds": seeds,
        "cost": {"round": [64, 128, 256, 512], "n_learners": [5.0, 6.0, 7.0, 8.0], "milliseconds": milliseconds},
        "excess_risk": {shift: powers(risk) for shift in ("Lin", "Squ")},
        "theorem_regret": {path: powers(regret) for path in ("fixed path", "growing path")},
    }
    return list(theory_words(rows).values())


def test_verdicts_turn_with_the_numbers() -> None:
    regret, risk, cost = words_on(regret=0.4, risk=-0.5, milliseconds=[0.05, 0.06, 0.07, 0.08])
    assert "it grows like T^0.4" in regret
    assert "above" not in regret
    assert risk.count("within the bound") == 2
    assert "so a round costs O(log t), as claimed" in cost
    regret, risk, cost = words_on(regret=0.99, risk=-0.1, milliseconds=[0.05, 0.02, 0.2, 0.9])
    assert regret.count("above the bound") == 2
    assert risk.count("above the bound") == 2
    assert "as claimed" not in cost


@pytest.mark.parametrize(("exponent", "words"), [(0.5, "within"), (0.7, "above"), (0.61, "not distinguishable from")])
def test_a_verdict_knows_its_error(exponent: float, words: str) -> None:
    assert verdict(exponent, 0.01, 0.6) == words
