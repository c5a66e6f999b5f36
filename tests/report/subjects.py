"""Subjects of reports: a model that has followed a stream, with or without an order in time and labels."""

import numpy as np
import pandas as pd

from accous import AdaptiveClassifier
from accous.report.figures import ReportSource
from accous.table.history import History

NAMES = ["age", "<b>income</b>", "</script>", "[[figures]]"]


def rows(random, n_rows, shift=0.0):
    X = random.normal(size=(n_rows, 4)) + shift * np.array([1.0, 0.0, 0.0, 0.0])
    return pd.DataFrame(X, columns=NAMES), (X[:, 0] + 0.5 * random.normal(size=n_rows) > 0).astype(int)


def follow(shift, *, n_rounds=40, n_scored=0, labels=(), is_turned=False, times=(), metric=None, **options):
    """A model that has seen batches moved by so many deviations, and in some rounds their labels."""
    random = np.random.default_rng(0)
    model = AdaptiveClassifier(random_state=0, metric=metric, **options).fit(*rows(random, 600), order=True)
    history = History()
    for number in range(n_rounds):
        X, y = rows(random, 10, shift)
        model.adapt(X)
        if number in labels:
            model.observe(X, 1 - y if is_turned else y, probability=1.0)
        counts = (n_scored, 0.3 * n_scored, 0.2 * n_scored)
        history.add(model, 10, *counts, time=times[number] if times else None)
    return ReportSource("model <1>", model.snapshot(), history, {"seed": "0"}, [("age", "number", "scaled")])
