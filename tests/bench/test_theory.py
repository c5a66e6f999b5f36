"""The script behind the theory's figures, at a small size."""

import numpy as np

from benchmarks.pages import kept
from benchmarks.theory import (
    base_bound,
    draw,
    excess_risks,
    interval_regrets,
    meta_bound,
    ratio_errors_and_risks,
    regrets_and_ratio_errors,
    theorem_regrets,
)


def test_theory_is_measured_and_drawn() -> None:
    lengths, seeds = [32, 64], [0]
    rows = {
        "lengths": lengths,
        "seeds": seeds,
        "excess_risk": excess_risks(lengths, seeds),
        "theorem_regret": theorem_regrets(lengths, seeds),
        "intervals": interval_regrets(31, seeds),
    }
    for values in rows["theorem_regret"].values():
        assert np.array(values).shape == (2, 1)
        assert np.min(values) > 0.0
    for found in rows["intervals"].values():
        assert [row[0] for row in found].count(4) == 7  # [4, 7] to [28, 31]
        assert min(row[1] for row in found) > 0.0  # no learner beats the true ratio
    assert {name: png[1:4] for name, png in draw(rows).items()} == dict.fromkeys(
        ("theory-proposition", "theory-conversion", "theory-lemmas"), b"PNG"
    )


def test_the_documented_verdicts_are_those_of_the_kept_results() -> None:
    for points, n_runs in ((ratio_errors_and_risks(), 680), (regrets_and_ratio_errors(), 120)):
        assert (len(points.bounds), points.share_within) == (n_runs, 1.0)
    for found in kept("theory")["intervals"].values():
        lengths, base, meta, path = np.array(found).T
        assert (base / base_bound(lengths, path)).max() < 0.005
        assert meta.max() < 1.4 < meta_bound(2047)
