"""The comparison with other packages measures what it says; none of them is needed here."""

import io
import json

import numpy as np
import pytest
from rich.console import Console
from scipy.optimize import minimize

from benchmarks.peers import objectives
from benchmarks.peers.contests import verdict
from benchmarks.peers.edges import summarise
from benchmarks.peers.problems import gaussian_problem
from benchmarks.peers.risks import look_at_stream, measure_risks, risk_grid
from benchmarks.peers.serving import Contender, answer_request
from benchmarks.peers.tables import BEGIN, END, PAGE, agreement_grid, edge_grid, milliseconds, speed_grid

PROBLEM = gaussian_problem(n_reference=40, n_features=2, batch_size=4, n_batches=2)
REFERENCE, BATCH = PROBLEM.reference, PROBLEM.batches[0]


def kernel(x, c, width):
    return np.exp(-sum((a - b) ** 2 for a, b in zip(x, c, strict=True)) / (2.0 * width**2))


def test_columns_of_the_reference_are_standardised():
    np.testing.assert_allclose(REFERENCE.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(REFERENCE.std(axis=0), 1.0, rtol=1e-12)
    assert PROBLEM.batches.shape == (2, 4, 2)


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_least_squares_objective_term_by_term(alpha):
    coefs, width, ridge = np.array([0.5, -0.2, 0.0, 1.0]), 1.3, 0.7

    def r(x):
        return sum(coef * kernel(x, center, width) for coef, center in zip(coefs, BATCH, strict=True))

    expected = 0.5 * (1.0 - alpha) * np.mean([r(x) ** 2 for x in REFERENCE]) + 0.5 * ridge * (0.25 + 0.04 + 1.0)
    expected += np.mean([0.5 * alpha * r(x) ** 2 - r(x) for x in BATCH])
    value = objectives.least_squares_objective(REFERENCE, BATCH, coefs, width=width, ridge=ridge, alpha=alpha)
    assert value == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_least_squares_solution_is_where_a_search_ends(alpha):
    settings = {"width": 1.3, "ridge": 0.2, "alpha": alpha}
    found = minimize(lambda coefs: objectives.least_squares_objective(REFERENCE, BATCH, coefs, **settings), np.zeros(4))
    solution = objectives.least_squares_solution(REFERENCE, BATCH, **settings)
    np.testing.assert_allclose(solution, found.x, atol=1e-4)


def test_kliep_objective_does_not_see_the_scale_but_the_violation_does():
    r_reference, r_batch = np.array([0.5, 1.5]), np.array([2.0, 4.0])
    assert objectives.kliep_objective(r_reference, r_batch) == pytest.approx(-np.log(8.0) / 2.0)
    assert objectives.kliep_objective(3.0 * r_reference, 3.0 * r_batch) == pytest.approx(-np.log(8.0) / 2.0)
    assert objectives.kliep_violation(r_reference, r_batch) == 0.0
    assert objectives.kliep_violation(3.0 * r_reference, 3.0 * r_batch) == pytest.approx(2.0)
    assert objectives.kliep_violation(np.array([2.25, -0.25]), r_batch) == pytest.approx(0.25)
    assert objectives.kliep_objective(r_reference, np.array([0.0, 1.0])) == np.inf


def test_kmm_objective_term_by_term():
    weights, width = np.linspace(0.0, 2.0, len(REFERENCE)), 0.8
    quadratic = sum(
        weights[i] * weights[j] * kernel(REFERENCE[i], REFERENCE[j], width) for i in range(40) for j in range(40)
    )
    linear = sum(weights[i] * 40 / 4 * kernel(REFERENCE[i], x, width) for i in range(40) for x in BATCH)
    value = objectives.kmm_objective(REFERENCE, BATCH, weights, width=width)
    assert value == pytest.approx((0.5 * quadratic - linear) / 40**2, rel=1e-12)


@pytest.mark.parametrize(
    ("weights", "violation"),
    [([0.0, 2.0], 0.0), ([-0.3, 2.0], 0.3), ([0.0, 2.5], 0.5), ([0.1, 0.5], 0.6), ([1.9, 1.9], 0.8)],
)
def test_kmm_violation_is_the_worst_one(weights, violation):
    found = objectives.kmm_violation(np.array(weights), max_ratio=2.0, mass_tolerance=0.1)
    assert found == pytest.approx(violation)


class Repeating(Contender):
    """Centres drawn with replacement, as one peer does, and the number of calls as weights."""

    def __init__(self, method, settings):
        self.n_calls, self.settings = 0, settings

    def estimate(self, reference, batch):
        self.n_calls += 1
        self.batch = batch
        return np.full(len(reference), float(self.n_calls))

    def used(self):
        return self.settings

    def expansion(self):
        return self.batch[[2, 0, 2]], np.array([1.0, 2.0, 4.0])


@pytest.mark.parametrize("at_least_seconds", [0.0, 0.01])
def test_a_request_is_answered_batch_by_batch(tmp_path, at_least_seconds):
    np.savez(tmp_path / "data.npz", reference=REFERENCE, batches=PROBLEM.batches)
    request = {"data": tmp_path / "data.npz", "method": "any", "settings": {"width": 2.0}}
    answer = answer_request(request | {"at_least_seconds": at_least_seconds}, Repeating)
    np.testing.assert_array_equal(answer["weights"], np.outer([1.0, 2.0], np.ones(40)))
    np.testing.assert_array_equal(answer["coefs"], [[2.0, 0.0, 5.0, 0.0]] * 2)
    assert json.loads(answer["used"]) == [{"width": 2.0}] * 2
    assert answer["times"].shape == (2, 2)
    assert np.all(np.isfinite(answer["times"]))


ROW = {
    "method": "kmm",
    "peer": "skada",
    "peer_version": "0.6.0",
    "peer_settings": "default",
    "peer_seconds": 1.5,
    "our_seconds": 0.01,
    "our_seconds_same_settings": 0.02,
    "our_seconds_of_fit": 0.03,
    "times_faster": 150.0,
    "times_faster_same_settings": 75.0,
    "times_less_work": 151.0,
    "times_less_work_same_settings": 76.0,
    "largest_weight_difference": 0.01,
    "our_objective": -0.2,
    "peer_objective": -0.1,
    "worst_relative_excess": -0.5,
    "our_violation": 0.0,
    "peer_violation": 3.0,
}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, "pass"),
        ({"times_faster": 49.0}, "miss"),
        ({"times_faster_same_settings": 49.0}, "miss"),
        ({"times_less_work": 49.0}, "miss"),
        ({"times_less_work_same_settings": 49.0}, "miss"),
        ({"worst_relative_excess": 1e-5}, "miss"),
        ({"our_violation": 1e-5}, "miss"),
    ],
)
def test_the_verdict_asks_for_speed_and_for_a_solution_no_worse(changed, expected):
    assert verdict(50.0, ROW | changed) == expected
    assert not verdict(None, ROW | changed)


def printed(grid):
    """What both forms of a table say, which is the same."""
    console = Console(width=300, file=io.StringIO())
    console.print(grid.rich())
    terminal, page = console.file.getvalue(), grid.markdown()
    for line in grid.lines:
        assert all(cell in terminal for cell in line)
        assert "| " + " | ".join(line) + " |" in page
    return terminal


def test_tables_show_the_rows():
    rows = [ROW | {"aim": 50.0, "verdict": "pass"}, ROW | {"aim": None, "verdict": "", "method": "kliep"}]
    speed = printed(speed_grid(rows, "a shape"))
    for part in ("a shape", "skada 0.6.0", "1500", "10", "150 (151)", "75 (76)", "pass", "kliep"):
        assert part in speed
    agreement = printed(agreement_grid(rows))
    for part in ("-0.20000000", "-0.10000000", "-5.0e-01", "3e+00"):
        assert part in agreement


def test_hard_cases_are_counted():
    answers = [np.array([0.0, 2.0]), np.array([np.nan, 1.0]), "ValueError: no"]
    summary = summarise(answers)
    assert summary == {
        "n_batches": 3,
        "n_not_finite": 1,
        "errors": ["ValueError: no"],
        "effective_sample_size": [1.0, 1.0],
        "mean": [1.0, 1.0],
        "n_zero": [1.0, 1.0],
    }
    text = printed(edge_grid([{"case": "one row", "method": "ulsif", "who": "densratio"} | summary]))
    assert "2 of 3" in text
    assert "densratio" in text
    assert summarise([np.zeros(2)])["effective_sample_size"] == [0.0, 0.0]
    assert summarise(["ValueError: no"])["mean"] is None


def test_milliseconds():
    assert [milliseconds(seconds) for seconds in (2.5e-4, 0.0123456, 5.1234)] == ["0.25", "12.3", "5123"]


def test_the_page_has_a_place_for_the_tables():
    text = PAGE.read_text(encoding="utf-8")
    assert text.count(BEGIN) == text.count(END) == 1
    assert text.index(BEGIN) < text.index(END)


class Pessimist:
    """A peer that takes every second row for wrong, in a second."""

    def ask(self, request, **arrays):
        assert arrays["reference_probabilities"].shape == arrays["reference_labels"].shape == (1000,)
        n_chunks, n_rows = arrays["chunk_probabilities"].shape
        assert n_rows == 100
        seconds = {"seconds": np.ones(n_chunks), "seconds_together": np.array(3.0)}
        return {"errors": np.full(n_chunks, 0.5), **seconds}, "1.0"


def test_risks_are_compared_with_the_true_error_of_the_same_looks():
    row = measure_risks(Pessimist(), "none", n_references=1)
    true = look_at_stream("none", seed=0)[0]["true_fixed"]
    assert row["theirs_bias"] == pytest.approx(100.0 * (0.5 - true.mean()))
    assert row["ours_error"] < 10.0 < row["theirs_error"]
    assert (row["their_milliseconds"], row["their_milliseconds_together"]) == (1000.0, 500.0)
    assert risk_grid([row]).lines[0][0] == "standing still"
