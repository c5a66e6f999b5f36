"""Follow a stream that jumps between two populations, and draw what the estimators make of it.

Run it with ``make demo``; it needs no data and takes a few seconds. Writes demo.png, or the file named on the
command line.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from accous import NoShift, OnlineDensityRatio, SingleLearnerRatio
from accous.streams import GaussianStream, SquareShift

stream = GaussianStream(SquareShift(period=250), n_rounds=2000, batch_size=5)
X_reference, _ = stream.reference()
estimators = {
    "ratio 1 (no adaptation)": NoShift(),
    "single learner": SingleLearnerRatio(),
    "accous": OnlineDensityRatio(),
}
for estimator in estimators.values():
    estimator.fit(X_reference)

# The rows of the rarer population: a tenth of the reference, all or nothing of the stream.
is_rare = X_reference.mean(axis=1) < 0
curves: dict[str, list[float]] = {name: [] for name in ("truth", *estimators)}
errors: dict[str, list[float]] = {name: [] for name in estimators}
for batch in track(stream, "Following the stream"):
    truth = stream.true_ratio(X_reference, batch.alpha)
    curves["truth"].append(truth[is_rare].mean())
    for name, estimator in estimators.items():
        ratio = estimator.reference_ratio_
        curves[name].append(ratio[is_rare].mean())
        errors[name].append(np.abs(ratio - truth).mean())
        estimator.partial_fit(batch.X)

table = Table(title="Mean distance of the estimated from the true ratio, on the reference rows")
table.add_column("estimator")
table.add_column("mean |r_hat - r*|", justify="right")
for name, values in errors.items():
    table.add_row(name, f"{np.mean(values):.3f}")
Console().print(table)

figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
styles = {
    "truth": {"color": "0.6", "linewidth": 3},
    "ratio 1 (no adaptation)": {"color": "0.3", "linestyle": ":"},
    "single learner": {"color": "tab:blue"},
    "accous": {"color": "tab:red"},
}
for name, values in curves.items():
    axes.plot(np.arange(1, len(values) + 1), values, label=name, **styles[name])
axes.set(
    title="How much more common than in the reference is the rarer population now?",
    xlabel="round (five unlabelled rows each)",
    ylabel="mean ratio of its reference rows",
    xlim=(0, len(stream)),
)
axes.legend(loc="upper center", ncols=4, bbox_to_anchor=(0.5, -0.16), frameon=False)
picture = Path(sys.argv[1] if len(sys.argv) > 1 else "demo.png")
figure.savefig(picture, dpi=120)
Console().print(f"Picture: {picture}")
