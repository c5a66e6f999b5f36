"""Subjects of reports: a model that has followed a stream, with or without an order in time and late labels."""

from typing import Any

import numpy as np

from accous import AdaptiveClassifier
from accous.report.words import Subject
from accous.table.history import History

NAMES = ["age", "<b>income</b>", "</script>", "plan"]


def rows(random: np.random.Generator, n_rows: int) -> tuple[Any, Any]:
    X = random.normal(size=(n_rows, 4))
    return X, (X[:, 0] + 0.5 * random.normal(size=n_rows) > 0).astype(int)


def follow(
    shift: float,
    *,
    n_rounds: int = 40,
    has_labels: bool = True,
    ratio: object = None,
    times: Any = (),
    n_reference: int = 400,
    order: bool | None = None,
    turns_round: bool = False,
) -> Subject:
    """A model that has seen batches moved by so many deviations."""
    random = np.random.default_rng(0)
    X, y = rows(random, n_reference)
    if turns_round:
        y = np.where(np.arange(n_reference) < n_reference // 2, y, 1 - y)
    model, history = AdaptiveClassifier(ratio=ratio, random_state=0).fit(X, y, order=order), History()
    for number in range(n_rounds):
        batch = random.normal(size=(10, 4)) + shift * np.array([1.0, 0.0, 0.0, 0.0])
        model.adapt(batch)
        history.add(model, 10, *(10, 3, 2) * has_labels, time=times[number] if times else None)
    return Subject("model <1>", model, history, NAMES, {"seed": "0"}, [("age", "number", "scaled")])


def observe(subject: Subject, n_rows: int = 300, *, is_turned: bool = False) -> Subject:
    """Pass labels to the model that arrive late, as the reference has them or the other way round."""
    X, y = rows(np.random.default_rng(7), n_rows)
    subject.model.observe(X, 1 - y if is_turned else y)
    return subject
