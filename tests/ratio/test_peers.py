"""Our one-step estimators beside the frozen answers of ADAPT, densratio and skada to the same problems.

``python -m benchmarks.peers --freeze`` writes the answers anew; what each peer computes is in docs/peers.md.
"""

import json

import numpy as np
import pytest

from accous import KMM, RULSIF, ULSIF
from benchmarks.peers.__main__ import FROZEN, QUESTIONS
from benchmarks.peers.contests import compare, estimate_ours, judge
from benchmarks.peers.processes import Answer, Problem

with np.load(FROZEN) as frozen:
    ANSWERS = {name: frozen[name] for name in frozen.files}
SETTINGS = json.loads(str(ANSWERS["settings"]))
PROBLEM = Problem(ANSWERS["reference"], ANSWERS["batches"])
N_BATCHES = len(PROBLEM.batches)


def their_answer(question, peer):
    weights, coefs = (ANSWERS[f"{question}/{peer}/{part}"] for part in ("weights", "coefs"))
    return Answer(np.zeros((N_BATCHES, 2)), weights, coefs, [SETTINGS[question]] * N_BATCHES, "frozen")


def our_answer(question):
    method, *_ = QUESTIONS[question]
    return estimate_ours(method, PROBLEM, [SETTINGS[question]] * N_BATCHES)


def compared(question, peer):
    method, *_ = QUESTIONS[question]
    return compare(method, PROBLEM, our_answer(question), their_answer(question, peer))


def test_the_questions_are_the_frozen_ones():
    assert {question: settings for question, (_, settings, _) in QUESTIONS.items()} == SETTINGS
    asked = {f"{question}/{peer}/weights" for question, (_, _, peers) in QUESTIONS.items() for peer in peers}
    assert asked == {name for name in ANSWERS if name.endswith("/weights")}


@pytest.mark.parametrize("peer", ["adapt", "densratio"])
@pytest.mark.parametrize(("question", "estimator"), [("ulsif", ULSIF), ("rulsif", RULSIF)])
def test_least_squares_weights_are_those_of_both_peers(question, estimator, peer):
    theirs = their_answer(question, peer)
    # Coefficients that have to be cut at zero are among them.
    assert np.any(theirs.coefs == 0.0)
    model = estimator(feature_map="identity", **SETTINGS[question]).fit(PROBLEM.reference)
    for batch, weights, coefs in zip(PROBLEM.batches, theirs.weights, theirs.coefs, strict=True):
        model.partial_fit(batch)
        np.testing.assert_allclose(model.reference_ratio_, weights, rtol=1e-10)
        np.testing.assert_allclose(model.coef_, coefs, rtol=1e-10, atol=1e-12)


def test_kliep_agrees_with_adapt_and_ends_a_little_higher():
    result = compared("kliep", "adapt")
    assert result["largest_weight_difference"] < 3e-3
    assert -1e-4 < result["worst_relative_excess"] < 0.0
    assert result["our_violation"] < 1e-12


@pytest.mark.parametrize(("peer", "at_least"), [("densratio", 0.1), ("skada", 0.2)])
def test_kliep_is_more_likely_than_with_peers_that_stop_early(peer, at_least):
    result = compared("kliep", peer)
    assert result["our_objective"] < result["peer_objective"] - at_least
    assert result["worst_relative_excess"] < 0.0
    assert max(result["our_violation"], result["peer_violation"]) < 1e-12


@pytest.mark.parametrize("question", ["kmm", "kmm_tight"])
def test_kmm_agrees_with_adapt_and_ends_no_higher(question):
    result = compared(question, "adapt")
    assert result["largest_weight_difference"] < 5e-3
    assert -1e-6 < result["worst_relative_excess"] < 1e-9
    assert max(result["our_violation"], result["peer_violation"]) < 1e-7


def test_kmm_ends_lower_than_skada_where_that_keeps_the_bounds():
    result = compared("kmm", "skada")
    assert result["worst_relative_excess"] < -1e-6
    assert max(result["our_violation"], result["peer_violation"]) < 1e-12


def test_kmm_keeps_the_bound_on_weights_that_skada_ignores():
    settings = SETTINGS["kmm_tight"]
    _, violations = judge("kmm", PROBLEM, their_answer("kmm_tight", "skada"), [settings] * N_BATCHES)
    assert violations.min() > 1.0
    model = KMM(feature_map="identity", ridge=0.0, **settings).fit(PROBLEM.reference)
    for batch in PROBLEM.batches:
        weights = model.partial_fit(batch).reference_ratio_
        assert weights.min() >= 0.0
        assert weights.max() == pytest.approx(settings["max_ratio"], rel=1e-12)
        assert abs(weights.mean() - 1.0) <= settings["mass_tolerance"] + 1e-12
