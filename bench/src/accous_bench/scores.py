"""The measurements of a run: errors in every round, more expensive scores in some rounds, averaged over blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray

__all__ = ["RoundScores", "expected_excess_loss", "observed_loss", "scored_rounds"]

SCORES = ("risk", "estimator_loss", "ratio_error", "effective_sample_size", "excess_loss")


def scored_rounds(n_rounds: int, every: int, seed: int) -> NDArray[np.bool_]:
    """Return which rounds are scored: one drawn at random from every stretch of ``every`` rounds.

    A fixed stride that divides the period of a shift would never score some phases of it, such as the rounds just after
    a switch. All contenders of a seed are scored in the same rounds.
    """
    starts = np.arange(0, n_rounds, every)
    lengths = np.minimum(every, n_rounds - starts)
    is_scored = np.zeros(n_rounds, dtype=bool)
    is_scored[starts + np.random.default_rng([seed, 5]).integers(lengths)] = True
    return is_scored


def observed_loss(reference_ratio: FloatArray, batch_ratio: FloatArray, max_ratio: float) -> float:
    r"""Return the logistic loss of a round as a function of the ratio.

    .. math:: \tfrac12 \Big( \operatorname*{mean}_{S_0} \log(1 + r) + \operatorname*{mean}_{S_t} \log(1 + 1/r) \Big)

    This is the paper's loss of theta at r = exp(-phi.theta). Batch ratios below 1 / ``max_ratio`` count as that value.
    """
    floored = np.maximum(batch_ratio, 1.0 / max_ratio)
    return float(0.5 * (np.log1p(reference_ratio).mean() + np.log1p(1.0 / floored).mean()))


def expected_excess_loss(ratio: FloatArray, true_ratio: FloatArray) -> float:
    r"""Return the mean excess of the expected logistic loss over rows from the reference's distribution.

    .. math:: \tfrac12 E_{D_0} \big[ \log(1 + r) + r^* \log(1 + 1/r) - \log(1 + r^*) - r^* \log(1 + 1/r^*) \big]

    This is the Bregman divergence of r from the true ratio (paper, section "Density Ratio Estimation"). No term is
    negative.
    """

    def loss(r: FloatArray) -> FloatArray:
        values: FloatArray = np.log1p(r) + true_ratio * np.log1p(1.0 / r)
        return values

    smallest = np.finfo(np.float64).tiny
    return float(0.5 * (loss(np.maximum(ratio, smallest)) - loss(np.maximum(true_ratio, smallest))).mean())


class RoundScores:
    """Collects the scores of a run.

    Parameters
    ----------
    n_rounds : int
    n_points : int
        Maximum number of blocks of rounds that curves are averaged over.
    """

    def __init__(self, n_rounds: int, n_points: int) -> None:
        self._n_wrong, self._n_rows = np.zeros(n_rounds), np.zeros(n_rounds)
        self._scores = {name: np.full(n_rounds, np.nan) for name in SCORES}
        self._learner_weights: list[tuple[int, dict[int, float]]] = []
        n_blocks = min(n_rounds, n_points)
        # Blocks differ by at most one round.
        self._ends = np.round(np.arange(1, n_blocks + 1) * (n_rounds / n_blocks)).astype(np.int64)

    def add_errors(self, this_round: int, is_wrong: NDArray[np.bool_]) -> None:
        """Count the wrong predictions of a round."""
        self._n_wrong[this_round - 1] = np.count_nonzero(is_wrong)
        self._n_rows[this_round - 1] = len(is_wrong)

    def add(self, this_round: int, **scores: float | None) -> None:
        """Record scores of a round; None means that a score is unknown."""
        for name, score in scores.items():
            if score is not None:
                self._scores[name][this_round - 1] = score

    def add_learner_weights(self, this_round: int, lengths: NDArray[Any], weights: FloatArray) -> None:
        """Record the weight of the learner of every active interval."""
        self._learner_weights.append((this_round, dict(zip(lengths.tolist(), weights.tolist(), strict=True))))

    @property
    def n_rows(self) -> int:
        """Number of predicted rows."""
        return int(self._n_rows.sum())

    @property
    def error(self) -> float:
        """Share of wrong predictions among all rows."""
        return float(self._n_wrong.sum() / self._n_rows.sum())

    def mean(self, name: str) -> float | None:
        """Return the mean of a score over the rounds in which it is known, or None if there are none."""
        known = self._scores[name][~np.isnan(self._scores[name])]
        return float(known.mean()) if len(known) else None

    def total(self, name: str) -> float | None:
        """Return the sum of a score over all rounds; rounds between two scored ones count as their mean."""
        mean = self.mean(name)
        return None if mean is None else mean * len(self._n_rows)

    def curve(self) -> dict[str, list[Any] | None]:
        """Return means over blocks of rounds; ``round`` is the last round of each block."""
        starts = np.concatenate(([0], self._ends[:-1]))
        errors = _ratios(np.add.reduceat(self._n_wrong, starts), np.add.reduceat(self._n_rows, starts))
        curve: dict[str, list[Any] | None] = {"round": self._ends.tolist(), "error": _rounded(errors)}
        for name, scores in self._scores.items():
            is_known = ~np.isnan(scores)
            if not is_known.any():
                curve[name] = None
                continue
            counts = np.add.reduceat(is_known.astype(np.float64), starts)
            sums = np.add.reduceat(np.where(is_known, scores, 0.0), starts)
            curve[name] = _rounded(_ratios(sums, counts))
        return curve

    def learner_weights(self) -> dict[str, list[Any]] | None:
        """Return the mean weight of the learners of each length over blocks of rounds, or None without records."""
        if not self._learner_weights:
            return None
        lengths = sorted({length for _, weights in self._learner_weights for length in weights})
        sums, counts = np.zeros((len(self._ends), len(lengths))), np.zeros((len(self._ends), 1))
        for this_round, weights in self._learner_weights:
            block = int(np.searchsorted(self._ends, this_round))
            sums[block] += [weights.get(length, 0.0) for length in lengths]
            counts[block] += 1
        is_known = counts[:, 0] > 0
        means = sums[is_known] / counts[is_known]
        return {"round": self._ends[is_known].tolist(), "length": lengths, "weight": [_rounded(row) for row in means]}


def _ratios(sums: FloatArray, counts: FloatArray) -> FloatArray:
    """Divide, with NaN where there is nothing to count."""
    ratios: FloatArray = np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0)
    return ratios


def _rounded(values: FloatArray) -> list[float | None]:
    """Round to six digits, which is enough for a plot."""
    return [None if np.isnan(value) else float(f"{value:.6g}") for value in values.tolist()]
