"""Rows arrive one at a time: predict each row, then learn from it without its label.

At row 301 the stream jumps to a population that makes up a tenth of the reference. At row 601 it jumps back, and so on.
"""

import numpy as np

from accous import AdaptiveClassifier, NoShift
from accous.streams import GaussianStream, SquareShift

stream = GaussianStream(SquareShift(period=300), n_rounds=1200, batch_size=1)
fixed = AdaptiveClassifier(ratio=NoShift()).fit(*stream.reference())
adapted = AdaptiveClassifier().fit(*stream.reference())

is_wrong = np.zeros((len(stream), 2), dtype=bool)
for row in stream:
    is_wrong[row.round - 1] = [model.predict(row.X)[0] != row.y[0] for model in (fixed, adapted)]
    adapted.adapt(row.X)

is_rare = stream.alphas == 0.0
for kind, is_kind in (("common", ~is_rare), ("rare", is_rare)):
    n_fixed, n_adapted = is_wrong[is_kind].sum(axis=0)
    print(f"{is_kind.sum()} rows of the {kind} population: wrong on {n_fixed} (fixed) and {n_adapted} (adapted)")
print(f"The predictor was refitted {adapted.n_refits_} times in {adapted.n_rounds_} rounds.")
