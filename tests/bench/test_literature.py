"""The later methods against slow, obvious versions."""

import numpy as np
import pytest
from scipy.optimize import minimize

from accous import LogisticRatio
from accous.streams import GaussianStream, SquareShift
from accous_bench.contenders import DECISION, LIMIT, fit_on, get_contender, make_contender, rounds
from accous_bench.literature import LAME, T3A, DoubleWeighting, WindowRatio, fit_minimax, smallest_confidence

STREAM = GaussianStream(SquareShift(period=4), n_features=3, n_reference=60, n_rounds=12, batch_size=5)
X, y = STREAM.reference()
BATCHES = [batch.X for batch in STREAM]


def entropy(p: np.ndarray) -> float:
    return -sum(one * np.log(one) for one in p)


def test_t3a_sums_the_most_confident_rows_of_each_class() -> None:
    model = T3A(n_supports=4).fit(X, y)
    weights = model.fitted_coefs_
    supports: list[list[tuple[float, np.ndarray]]] = [[], []]
    for row in [*weights[:, :-1], *np.concatenate(BATCHES)]:
        scores = weights[:, :-1] @ row + weights[:, -1]
        p = np.exp(scores) / np.exp(scores).sum()
        supports[int(p.argmax())].append((entropy(p), row / np.linalg.norm(row)))
    for batch in BATCHES:
        model.adapt(batch)
    for k in (0, 1):
        kept = sorted(supports[k], key=lambda one: one[0])[:4]
        template = sum(row for _, row in kept)
        np.testing.assert_allclose(model.coefs_[k, :-1], template / np.linalg.norm(template))
    rows = X @ (model.coefs_[1] - model.coefs_[0])[:-1] > 0
    assert np.array_equal(model.predict(X), rows.astype(int))


def test_lame_is_the_fixed_point_of_its_equation() -> None:
    model = LAME(n_neighbors=2).fit(X, y)
    batch = np.concatenate(BATCHES)[:12]
    unit = [row / np.linalg.norm(row) for row in batch]
    affinity = np.zeros((12, 12))
    for i in range(12):
        nearest = sorted((j for j in range(12) if j != i), key=lambda j: -float(unit[i] @ unit[j]))[:2]
        affinity[i, nearest] = 1.0
    affinity = (affinity + affinity.T) / 2
    q = model.fixed_.predict_proba(batch)
    z = q.copy()
    for _ in range(100):
        z = np.array([q[i] * np.exp(affinity[i] @ z) for i in range(12)])
        z /= z.sum(axis=1, keepdims=True)
    assert np.array_equal(model.predict(batch), z.argmax(axis=1))
    assert np.array_equal(model.predict(batch[:1]), model.fixed_.predict(batch[:1]))  # nobody to agree with
    assert not get_contender("LAME").has_risk


def test_the_window_is_a_regression_of_the_latest_rows() -> None:
    ratio = WindowRatio(n_rows=12).fit(X)
    assert np.array_equal(ratio.reference_ratio_, np.ones(60))
    for batch in BATCHES:
        ratio.partial_fit(batch)
    expected = LogisticRatio().fit(X).partial_fit(np.concatenate(BATCHES)[-12:])
    np.testing.assert_allclose(ratio.reference_ratio_, expected.reference_ratio_)
    np.testing.assert_allclose(ratio.predict_ratio(X[:3]), expected.predict_ratio(X[:3]))


def test_double_weights_match_the_means_of_the_kernel() -> None:
    model = DoubleWeighting().fit(X, y)
    batch = (BATCHES[0] - model.center_) / model.scale_
    alpha = model.weigh(batch, n_sweeps=30)
    rows = np.concatenate((model.rows_, batch))
    kernel = np.array([[np.exp(-np.sum((a - b) ** 2) / (2 * model.width_**2)) for b in rows] for a in rows])

    def distance(weights: np.ndarray) -> float:
        signed = np.append(weights[:60] / 60, -weights[60:] / 5)
        return float(signed @ kernel @ signed)

    ours = np.append(model.beta_, alpha)
    reach = 0.5 * np.sqrt(5)  # D = 4
    assert np.linalg.norm(alpha - 1) <= reach + 1e-9
    assert ((alpha >= 0) & (alpha <= 1)).all()
    inside = {"type": "ineq", "fun": lambda weights: reach - np.linalg.norm(weights[60:] - 1)}
    bounds = [(0, None)] * 60 + [(0, 1)] * 5
    slow = minimize(distance, np.ones(65), bounds=bounds, constraints=[inside], method="SLSQP")
    assert distance(ours) <= slow.fun + 1e-3


def test_the_minimax_fit_is_the_optimum_of_its_objective() -> None:
    rng = np.random.default_rng(0)
    weighted, tau = rng.normal(size=(4, 3)), rng.normal(size=(2, 3)) / 4
    confidence = smallest_confidence(tau, weighted)
    assert (confidence >= 0).all()
    confidence = confidence + 0.05  # away from the edge, where the optimum is at infinity
    mu = fit_minimax(tau, confidence, weighted)

    def objective(flat: np.ndarray) -> float:
        parts = [np.log(sum(np.exp(flat.reshape(2, 3)[k] @ row) for k in (0, 1))) for row in weighted]
        return float(np.mean(parts) - flat @ tau.ravel() + np.abs(flat) @ confidence.ravel())

    slow = minimize(objective, np.zeros(6), method="Nelder-Mead", options={"maxiter": 20_000, "maxfev": 20_000})
    assert objective(mu.ravel()) <= slow.fun + 1e-6


def test_the_decision_is_never_worse_than_fitting_at_the_mean_alpha() -> None:
    stream = GaussianStream(SquareShift(period=20), geometry="published", n_rounds=60, random_state=1)
    risks = {}
    for name in (LIMIT, DECISION):
        contender = get_contender(name)
        model = make_contender(name)
        fit_on(stream, contender, model)
        risks[name] = np.mean([stream.risk(model.estimator_, one.alpha) for one in rounds(contender, model, stream)])
    assert risks[DECISION] < risks[LIMIT]


@pytest.mark.parametrize("name", ["double weighting", "T3A", "LAME", "LR (window)", "LR (literal)", "OLRE (literal)"])
def test_a_later_method_runs_under_every_batch_size(name: str) -> None:
    for size in (1, 5):
        model = make_contender(name).fit(X, y)
        for batch in BATCHES[:3]:
            model.adapt(batch[:size])
        assert set(model.predict(X)) <= {0, 1}
