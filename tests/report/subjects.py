"""Subjects of reports: a model that has followed a stream, with or without an order in time and late labels."""

import numpy as np

from accous import AdaptiveClassifier
from accous.model.snapshot import Snapshot
from accous.report.words import ReportSource
from accous.table.history import History


class Followed(ReportSource):
    """What a report on a model is about, whatever the model has done since."""

    def __init__(self, name, snapshot, history, columns, settings=None, preparation=()):
        settings, preparation = settings or {}, list(preparation)
        vars(self).update(name=name, history=history, columns=columns, settings=settings, preparation=preparation)
        vars(self)["model"] = snapshot

    @property
    def snapshot(self):
        return self.model if isinstance(self.model, Snapshot) else self.model.current()


NAMES = ["age", "<b>income</b>", "</script>", "plan"]


def rows(random, n_rows):
    X = random.normal(size=(n_rows, 4))
    return X, (X[:, 0] + 0.5 * random.normal(size=n_rows) > 0).astype(int)


def follow(
    shift, *, n_rounds=40, has_labels=True, ratio=None, times=(), n_reference=400, order=False, turns_round=False
):
    """A model that has seen batches moved by so many deviations, and its history."""
    random = np.random.default_rng(0)
    X, y = rows(random, n_reference)
    if turns_round:
        y = np.where(np.arange(n_reference) < n_reference // 2, y, 1 - y)
    model, history = AdaptiveClassifier(ratio=ratio, random_state=0).fit(X, y, order=order), History()
    for number in range(n_rounds):
        batch = random.normal(size=(10, 4)) + shift * np.array([1.0, 0.0, 0.0, 0.0])
        model.adapt(batch)
        history.add(model, 10, *(10, 3, 2) * has_labels, time=times[number] if times else None)
    return Followed("model <1>", model, history, NAMES, {"seed": "0"}, [("age", "number", "scaled")])


def observe(subject, n_rows=300, *, is_turned=False):
    """Pass labels to the model that arrive late, as the reference has them or the other way round."""
    X, y = rows(np.random.default_rng(7), n_rows)
    subject.model.observe(X, 1 - y if is_turned else y)
    return subject


def about(model):
    """The subject of a page about a model without a history."""
    return Followed("model", model, History(), [f"x{number}" for number in range(model.n_features_in_)])
