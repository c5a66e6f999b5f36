"""The script behind the theory's figures, at a small size."""

import numpy as np

from benchmarks.theory import draw, excess_risks, learner_costs, theorem_regrets


def test_theory_is_measured_and_drawn() -> None:
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
    assert {name: png[1:4] for name, png in draw(rows).items()} == dict.fromkeys(
        ("theory-regret", "theory-excess-risk", "theory-cost"), b"PNG"
    )
