"""The pool as its equations say it: explicit loops, and exact fractions where the kernels use logarithms."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

SHAPES = [(0.0, 1.0), (0.5, None), (1.0, None), *((tau, cut) for tau in (1.0, 2.0, 4.0) for cut in (3.0, 10.0, 30.0))]
SHARES = [1.0 / 32.0, 1.0 / 128.0, 1.0 / 512.0]
HALF_LIVES = [16.0, 64.0]


def plain_shape(ratio: float, number: int, max_ratio: float) -> float:
    """One shape of a ratio, not divided by its mean."""
    tau, cut = SHAPES[number]
    return min(ratio**tau, max_ratio if cut is None else min(cut, max_ratio))


def plain_means(ratios: Any, max_ratio: float) -> list[float]:
    """Mean of each shape over the reference."""
    return [
        math.fsum(plain_shape(float(ratio), number, max_ratio) for ratio in ratios) / len(ratios)
        for number in range(len(SHAPES))
    ]


def plain_pooled(ratios: Any, max_ratio: float, proportions: Any, other_ratios: Any) -> list[float]:
    """The mixture of all candidates, for each row of the reference."""
    means, pooled = plain_means(ratios, max_ratio), []
    for row, ratio in enumerate(ratios):
        candidates = [plain_shape(float(ratio), number, max_ratio) / means[number] for number in range(len(SHAPES))]
        candidates += [float(of_candidate[row]) for of_candidate in other_ratios]
        pooled.append(math.fsum(q * r for q, r in zip(proportions, candidates, strict=True)))
    return pooled


def plain_candidates(
    ratios: Any, max_ratio: float, means: Any, slot_ratios: Any, factors: Any, given: Any = ()
) -> list[list[float]]:
    """The ratio of any row under each candidate, given the means of the shapes over the reference."""
    candidates = []
    for row, ratio in enumerate(ratios):
        values = [plain_shape(float(ratio), number, max_ratio) / means[number] for number in range(len(SHAPES))]
        for of_slot, factors_of_slot in zip(slot_ratios, factors, strict=True):
            shapes = [plain_shape(float(of_slot[row]), number, max_ratio) for number in range(len(SHAPES))]
            values.append(math.fsum(f * shape for f, shape in zip(factors_of_slot, shapes, strict=True)))
        values += [float(of_candidate[row]) for of_candidate in given]
        candidates.append(values)
    return candidates


def plain_likelihoods(*candidates: Any) -> list[list[float]]:
    """Likelihood of each row of a batch under each of the `plain_candidates`."""
    return [[0.99 * value + 0.01 for value in values] for values in plain_candidates(*candidates)]


def plain_pooled_rows(max_ratio: float, proportions: Any, candidates: list[list[float]]) -> list[float]:
    """The mixture of the `plain_candidates` of each row, cut to what is allowed."""
    mixed = [math.fsum(q * r for q, r in zip(proportions, values, strict=True)) for values in candidates]
    return [min(max(value, 0.0), max_ratio) for value in mixed]


@dataclass
class PlainFilters:
    """The five filters; proportions are computed on request."""

    weights: list[float]
    posteriors: list[list[float]]
    counts: list[list[float]]

    def predictions(self, prior: Any) -> list[list[float]]:
        """What each filter predicts."""
        decayed = []
        for counts in self.counts:
            total = math.fsum(counts) + 1.0
            decayed.append([(n + p) / total for n, p in zip(counts, prior, strict=True)])
        return [*self.posteriors, *decayed]

    def proportions(self, prior: Any) -> list[float]:
        """What all filters together predict."""
        each = self.predictions(prior)
        return [math.fsum(w * q[c] for w, q in zip(self.weights, each, strict=True)) for c in range(len(prior))]

    def after(self, prior: Any, likelihoods: list[list[float]]) -> "PlainFilters":
        """The filters after a batch."""
        predictions = self.predictions(prior)
        evidence = []
        for weight, predicted in zip(self.weights, predictions, strict=True):
            product = Fraction(weight)
            for row in likelihoods:
                product *= sum(Fraction(q) * Fraction(value) for q, value in zip(predicted, row, strict=True))
            evidence.append(product)
        weights = [0.995 * float(each / sum(evidence)) + 0.005 / len(evidence) for each in evidence]
        posteriors = []
        for share, posterior in zip(SHARES, self.posteriors, strict=True):
            products = [Fraction(p) for p in posterior]
            for row in likelihoods:
                products = [product * Fraction(value) for product, value in zip(products, row, strict=True)]
            total = sum(products)
            posteriors.append(
                [(1.0 - share) * float(each / total) + share * p for each, p in zip(products, prior, strict=True)]
            )
        counts = []
        for half_life, before, predicted in zip(HALF_LIVES, self.counts, predictions[len(SHARES) :], strict=True):
            after = [0.5 ** (1.0 / half_life) * n for n in before]
            for row in likelihoods:
                total_of_row = math.fsum(q * value for q, value in zip(predicted, row, strict=True))
                after = [n + q * v / total_of_row for n, q, v in zip(after, predicted, row, strict=True)]
            counts.append(after)
        return PlainFilters(weights, posteriors, counts)


def plain_log_likelihood(proportions: Any, likelihoods: list[list[float]]) -> float:
    """Mean log likelihood of the rows under some proportions."""
    logs = [math.log(math.fsum(q * v for q, v in zip(proportions, row, strict=True))) for row in likelihoods]
    return float(np.mean(logs))
