"""Metrics equal scikit-learn's on labels; their gradients are those of finite differences."""

from statistics import harmonic_mean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from accous.diagnostics.metrics import ClassRows, NumberRows, decide, one_hot, read_metric
from accous.exceptions import ParameterError

COSTS = np.array([[0.0, 1.0, 4.0], [2.0, -1.0, 1.0], [5.0, 1.0, 0.0]])


def rows_of(seed: int, n_classes: int, n: int = 60, ties: bool = False):
    """Return labels and rows whose probabilities know something of them."""
    rng = np.random.default_rng(seed)
    y = np.concatenate((np.arange(n_classes), rng.integers(n_classes, size=n - n_classes)))
    scores = rng.normal(size=(n, n_classes)) + 1.2 * one_hot(y, n_classes)
    probabilities = np.exp(scores.round(0 if ties else 12))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    return y, ClassRows(decide(probabilities), probabilities, one_hot(y, n_classes))


def of_sklearn(name: str, y, rows: ClassRows) -> float:
    p, predicted, n_classes = rows.probabilities, rows.predicted, rows.mass.shape[1]
    scores = p[:, 1] if n_classes == 2 else p
    kind, _, detail = name.partition(":")
    number = int(detail or 1)
    counted = {"precision": sk.precision_score, "recall": sk.recall_score, "f1": sk.f1_score}
    several = {"average": "macro"} | ({} if n_classes == 2 else {"multi_class": "ovr"})
    return {
        "error": lambda: sk.zero_one_loss(y, predicted),
        "balanced_error": lambda: 1.0 - sk.balanced_accuracy_score(y, predicted),
        "log_loss": lambda: sk.log_loss(y, p),
        "brier": lambda: sk.brier_score_loss(y, scores),
        "roc_auc": lambda: (
            sk.roc_auc_score(y == number, p[:, number]) if detail else sk.roc_auc_score(y, scores, **several)
        ),
        "roc_auc_macro": lambda: sk.roc_auc_score(one_hot(y, n_classes), p, average="macro"),
        "average_precision": lambda: (
            sk.average_precision_score(y == number, p[:, number]) if detail else sk.average_precision_score(y, scores)
        ),
        "average_precision_macro": lambda: sk.average_precision_score(one_hot(y, n_classes), p),
        "cost": COSTS[:n_classes, :n_classes][y, predicted].mean,
        **{each: lambda f=f: f(y == number, predicted == number) for each, f in counted.items()},
        **{f"{each}_macro": lambda f=f: f(y, predicted, average="macro") for each, f in counted.items()},
    }[kind]()


TWO = [
    "error",
    "balanced_error",
    "log_loss",
    "brier",
    "roc_auc",
    "average_precision",
    "precision",
    "recall",
    "f1",
    "cost",
]
SEVERAL = [
    *TWO[:6],
    "cost",
    "f1_macro",
    "precision_macro",
    "recall_macro",
    "f1:2",
    "recall:0",
    "precision:1",
    "roc_auc:2",
    "average_precision:0",
]
OF_BOTH = ["f1_macro", "f1:0", "recall_macro", "precision_macro", "roc_auc_macro", "average_precision_macro"]
SEVERAL += ["roc_auc_macro", "average_precision_macro"]
CASES = [(name, 2) for name in [*TWO, *OF_BOTH, "roc_auc:0", "average_precision:0"]] + [(name, 3) for name in SEVERAL]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
@pytest.mark.parametrize(
    "name", ["error", "balanced_error", "f1_macro", "recall_macro", "precision_macro", "f1:1", "roc_auc:1"]
)
def test_a_class_that_cannot_be_predicted_is_an_error_by_every_metric(name):
    y, known = rows_of(0, 2)
    y[10:25] = 2
    rows = ClassRows(known.predicted, known.probabilities, one_hot(y, 3))
    assert read_metric(name, range(2)).value(rows) == pytest.approx(of_sklearn(name, y, rows), abs=1e-12)


def test_a_class_that_cannot_be_predicted_costs_most():
    y, known = rows_of(0, 2)
    rows = ClassRows(known.predicted, known.probabilities, one_hot(np.full_like(y, -1), 3))
    assert read_metric("cost", range(2), costs=COSTS[:2, :2]).value(rows) == COSTS[:2, :2].max()
    assert read_metric("log_loss", range(2)).value(rows) > 30.0
    assert read_metric("brier", range(2)).value(rows) == pytest.approx(
        0.5 * (1.0 + np.square(known.probabilities).sum(axis=1)).mean()
    )


@pytest.mark.parametrize(("name", "n_classes"), CASES)
@pytest.mark.parametrize("ties", [False, True])
def test_labelled_rows_give_what_scikit_learn_gives(name, n_classes, ties):
    metric = read_metric(name, range(n_classes), costs=COSTS[:n_classes, :n_classes])
    for seed in range(3):
        y, rows = rows_of(seed, n_classes, ties=ties)
        assert metric.value(rows) == pytest.approx(of_sklearn(name, y, rows), abs=1e-12)


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("mean_absolute_error", sk.mean_absolute_error),
        ("median_absolute_error", sk.median_absolute_error),
        ("root_mean_squared_error", sk.root_mean_squared_error),
        ("bias", lambda y, predicted: np.mean(predicted - y)),
        ("pinball:0.9", lambda y, predicted: sk.mean_pinball_loss(y, predicted, alpha=0.9)),
    ],
)
@pytest.mark.parametrize("n", [1, 20, 21])
def test_numbers_give_what_scikit_learn_gives(name, theirs, n):
    rng = np.random.default_rng(n)
    y, predicted = rng.normal(size=(2, n))
    rows = NumberRows(predicted - y, np.ones(n))
    assert read_metric(name, None).value(rows) == pytest.approx(theirs(y, predicted), abs=1e-12)


@pytest.mark.parametrize(("name", "n_classes"), CASES)
def test_gradient_is_that_of_small_changes(name, n_classes):
    metric = read_metric(name, range(n_classes), costs=COSTS[:n_classes, :n_classes])
    _, rows = rows_of(5, n_classes, n=12, ties=True)
    rng = np.random.default_rng(0)
    rows = ClassRows(rows.predicted, rows.probabilities, rng.uniform(0.1, 1.0, rows.mass.shape))
    slopes = metric.gradient(rows)
    for place in np.ndindex(rows.mass.shape):
        moved = [rows.mass.copy(), rows.mass.copy()]
        moved[0][place] -= 1e-6
        moved[1][place] += 1e-6
        below, above = (metric.value(ClassRows(rows.predicted, rows.probabilities, mass)) for mass in moved)
        assert slopes[place] == pytest.approx((above - below) / 2e-6, abs=1e-6)


@pytest.mark.parametrize("name", ["mean_absolute_error", "root_mean_squared_error", "bias", "pinball:0.2"])
def test_gradient_of_numbers_is_that_of_small_changes(name):
    rng = np.random.default_rng(0)
    residuals, mass = rng.normal(size=9), rng.uniform(0.1, 1.0, 9)
    metric = read_metric(name, None)
    slopes = metric.gradient(NumberRows(residuals, mass))
    for place in range(9):
        step = np.eye(9)[place] * 1e-6
        below, above = (metric.value(NumberRows(residuals, mass + sign * step)) for sign in (-1.0, 1.0))
        assert slopes[place] == pytest.approx((above - below) / 2e-6, abs=1e-6)


def test_gradient_of_the_median_tells_its_deviation():
    rng = np.random.default_rng(0)
    metric = read_metric("median_absolute_error", None)
    medians = [np.median(np.abs(rng.normal(size=400))) for _ in range(300)]
    rows = NumberRows(rng.normal(size=400), np.full(400, 1 / 400))
    assert np.sqrt(np.mean(metric.gradient(rows) ** 2) / 400) == pytest.approx(np.std(medians), rel=0.35)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(CASES), st.floats(0.1, 10.0))
def test_only_shares_of_the_mass_matter(seed, case, factor):
    name, n_classes = case
    metric = read_metric(name, range(n_classes), costs=COSTS[:n_classes, :n_classes])
    _, rows = rows_of(seed, n_classes, n=20)
    mass = np.random.default_rng(seed).uniform(size=rows.mass.shape)
    one, other = (ClassRows(rows.predicted, rows.probabilities, scale * mass) for scale in (1.0, factor))
    assert metric.value(one) == pytest.approx(metric.value(other), abs=1e-9)
    # Euler: what is homogeneous of degree 0 does not change along its masses.
    assert (metric.gradient(one) * mass).sum() == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(("name", "n_classes"), [case for case in CASES if case[0] not in ("log_loss", "brier")])
def test_soft_labels_give_the_mean_over_drawn_labels(name, n_classes):
    metric = read_metric(name, range(n_classes), costs=COSTS[:n_classes, :n_classes])
    _, rows = rows_of(1, n_classes, n=400)
    rng, values = np.random.default_rng(0), []
    for _ in range(100):
        drawn = (rng.random(400)[:, None] > np.cumsum(rows.probabilities, axis=1)).sum(axis=1)
        values.append(metric.value(ClassRows(rows.predicted, rows.probabilities, one_hot(drawn, n_classes))))
    expected = metric.value(ClassRows(rows.predicted, rows.probabilities, rows.probabilities))
    assert expected == pytest.approx(np.mean(values), abs=4.0 * np.std(values) / np.sqrt(100) + 0.003)


@pytest.mark.parametrize(
    ("name", "counted"),
    [
        ("f1:b", lambda true, predicted: "b" in (true, predicted)),
        ("recall:b", lambda true, _: true == "b"),
        ("precision:b", lambda _, predicted: predicted == "b"),
        ("average_precision:b", lambda true, _: true == "b"),
        ("f1_macro", lambda *_: True),
        ("error", lambda *_: True),
    ],
)
def test_the_rows_that_count_are_those_of_the_denominator(name, counted):
    y, rows = rows_of(0, 3)
    classes = ["a", "b", "c"]
    wanted = np.mean([counted(classes[true], classes[made]) for true, made in zip(y, rows.predicted, strict=True)])
    assert read_metric(name, classes).share_counted(rows) == pytest.approx(wanted)


def test_auc_counts_as_many_rows_as_the_harmonic_mean_of_its_sides():
    y, rows = rows_of(0, 3)
    n_of_class = int((y == 1).sum())
    wanted = 2.0 * harmonic_mean([n_of_class, len(y) - n_of_class]) / len(y)
    assert read_metric("roc_auc:1", range(3)).share_counted(rows) == pytest.approx(wanted)


def test_roc_auc_counts_pairs():
    _, rows = rows_of(2, 2, n=30, ties=True)
    mass, scores = np.random.default_rng(1).uniform(size=(30, 2)), rows.probabilities[:, 1]
    order = (scores[:, None] > scores) + 0.5 * (scores[:, None] == scores)
    slow = mass[:, 1] @ order @ mass[:, 0] / (mass[:, 1].sum() * mass[:, 0].sum())
    assert read_metric("roc_auc", [0, 1]).value(ClassRows(rows.predicted, rows.probabilities, mass)) == pytest.approx(
        slow
    )


def test_classes_that_do_not_occur_are_left_out_as_by_scikit_learn():
    y, rows = rows_of(0, 3)
    kept = (y != 2) & (rows.predicted != 2)
    part = ClassRows(rows.predicted[kept], rows.probabilities[kept], rows.mass[kept])
    assert read_metric("f1_macro", range(3)).value(part) == pytest.approx(
        sk.f1_score(y[kept], part.predicted, average="macro")
    )
    assert np.isnan(
        read_metric("roc_auc", [0, 1]).value(ClassRows(y[:1], np.array([[0.1, 0.9]]), np.array([[0.0, 1.0]])))
    )


@pytest.mark.parametrize("name", ["f1_macro", "recall_macro", "precision_macro", "balanced_error"])
def test_a_class_that_is_expected_in_less_than_half_a_row_does_not_occur(name):
    rng = np.random.default_rng(0)
    p = np.column_stack((rng.uniform(0.1, 0.9, 500), np.zeros(500), np.full(500, 5e-4)))
    p[:, 1] = 1.0 - p.sum(axis=1)
    two, three = (
        read_metric(name, range(k)).value(ClassRows(decide(p[:, :2]), p[:, :k], p[:, :k] / p[:, :k].sum()))
        for k in (2, 3)
    )
    assert three == pytest.approx(two, abs=2e-3)


def test_threshold_decides_between_two_classes():
    probabilities = np.array([[0.7, 0.3], [0.8, 0.2], [0.1, 0.9]])
    assert decide(probabilities).tolist() == [0, 0, 1]
    assert decide(probabilities, 0.3).tolist() == [1, 0, 1]
    with pytest.raises(ParameterError, match="two classes"):
        decide(np.ones((1, 3)) / 3, 0.5)


def test_losses_and_directions():
    auc, error, bias = read_metric("roc_auc", [0, 1]), read_metric("error", [0, 1]), read_metric("bias", None)
    assert (auc.higher_is_better, error.higher_is_better, bias.higher_is_better) == (True, False, False)
    assert (auc.loss(0.9), error.loss(0.1), bias.loss(-2.0)) == (pytest.approx(0.1), 0.1, 2.0)


@pytest.mark.parametrize(
    ("name", "classes", "message"),
    [
        ("accuracy", ["a", "b"], "no metric 'accuracy'.*error, balanced_error.*f1_macro"),
        ("error_macro", ["a", "b"], "no metric"),
        ("error", None, "mean_absolute_error.*pinball:QUANTILE"),
        ("f1", ["a", "b", "c"], "f1_macro or f1:CLASS"),
        ("f1:d", ["a", "b"], "are a, b"),
        ("pinball", None, "no metric"),
        ("pinball:2", None, "above 0 and below 1"),
        ("cost", ["a", "b"], "no costs"),
    ],
)
def test_wrong_names_are_refused_with_those_that_exist(name, classes, message):
    with pytest.raises(ParameterError, match=message):
        read_metric(name, classes)
