"""The registry of contenders, and the limit's filter against loops that spell out Bayes' rule."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from scipy.linalg import expm

from accous import (
    KLIEP,
    KMM,
    RULSIF,
    ULSIF,
    AdaptiveClassifier,
    LogisticRatio,
    NoShift,
    OnlineDensityRatio,
    SingleLearnerRatio,
)
from accous.arrays import FloatArray
from accous.exceptions import DataError, ParameterError
from accous.streams import GaussianStream, SquareShift
from accous_bench.contenders import (
    DIFFUSIONS,
    JUMPS,
    PAPER_CONTENDERS,
    SHARE,
    TOLD,
    AlphaFilter,
    Contender,
    Limit,
    contender_names,
    fit_on,
    get_contender,
    make_contender,
    register,
    rounds,
    unregister,
)
from accous_bench.grid import run_one
from accous_bench.spec import read_spec
from tests.docs_pages import DOCS, FENCE

RATIOS = {
    "FIX": NoShift,
    "KMM": KMM,
    "KLIEP": KLIEP,
    "uLSIF": ULSIF,
    "LR": LogisticRatio,
    "OLRE": SingleLearnerRatio,
    "accous": OnlineDensityRatio,
}
LATER = (
    *("LR (literal)", "LR (window)", "OLRE (literal)", "double weighting", "T3A", "LAME"),
    *("FTH", "ROGD", "UOGD", "ATLAS", "FLH-FTL", "Accous (literal)", "Accous (literal, scaled)", "accous"),
)
VARIANTS = (
    *("KMM (no ridge)", "KLIEP (cv)", "uLSIF (cv)", "LR (Newton step)"),
    *("KMM (unit width)", "KLIEP (unit width)", "uLSIF (unit width)", "LR (weak penalty)"),
)


@pytest.fixture
def relative() -> Iterator[Contender]:
    contender = Contender("RuLSIF", lambda seed: AdaptiveClassifier(ratio=RULSIF(random_state=seed)))
    register(contender)
    yield contender
    unregister("RuLSIF")


@pytest.mark.parametrize("page", ["howto/own_contender.md"])
def test_the_example_of_the_documentation_differs_from_a_built_in_contender_by_its_ratio_alone(page: str) -> None:
    (code,) = [block["code"] for block in FENCE.finditer((DOCS / page).read_text()) if "register(" in block["code"]]
    names: dict[str, Any] = {}
    try:
        exec(code, names)
        theirs, ours = make_contender("RuLSIF", random_state=7), make_contender("uLSIF", random_state=7)
    finally:
        unregister("RuLSIF")
    assert isinstance(theirs.ratio, RULSIF)
    assert theirs.ratio.random_state == 7
    assert repr(theirs.set_params(ratio=None)) == repr(ours.set_params(ratio=None))


def test_the_papers_eight_names_are_there_in_its_order() -> None:
    assert PAPER_CONTENDERS == ("FIX", "DANN", "KMM", "KLIEP", "uLSIF", "LR", "OLRE", "Accous (paper)")
    assert tuple(name for name in contender_names() if name in PAPER_CONTENDERS) == PAPER_CONTENDERS


@pytest.mark.parametrize("name", RATIOS)
def test_a_contender_is_weighted_erm_with_its_ratio_in_the_default_configuration(name: str) -> None:
    model = make_contender(name, random_state=7)
    assert isinstance(model, AdaptiveClassifier)
    assert type(model.ratio) is RATIOS[name]
    defaults = type(model.ratio)().get_params()
    given = model.ratio.get_params()
    assert {k: v for k, v in given.items() if k != "random_state"} == {
        k: v for k, v in defaults.items() if k != "random_state"
    }
    assert given.get("random_state", 7) == 7


@pytest.mark.parametrize("name", PAPER_CONTENDERS)
def test_every_contender_runs_a_stream_the_same_way_twice(name: str) -> None:
    stream = GaussianStream(SquareShift(period=4), n_features=3, n_reference=60, n_rounds=6, batch_size=2)

    def run_one() -> list[Any]:
        model = make_contender(name, random_state=0).fit(*stream.reference())
        answers = []
        for batch in stream:
            model.adapt(batch.X)
            answers.append(model.predict_proba(stream.reference()[0]))
        return answers

    first, second = run_one(), run_one()
    assert np.array(first).tobytes() == np.array(second).tobytes()
    is_moved = any(not np.array_equal(first[0], later) for later in first[1:])
    assert is_moved == (name != "FIX")


@pytest.mark.parametrize("name", ["KMM", "KMM (no ridge)", "KLIEP", "uLSIF (cv)", "LR", "LR (Newton step)"])
def test_what_forgets_does_not_depend_on_earlier_batches(name: str) -> None:
    stream = GaussianStream(SquareShift(period=4), n_features=3, n_reference=60, n_rounds=5, batch_size=2)
    batches = [batch.X for batch in stream]
    long, short = (make_contender(name).fit(*stream.reference()) for _ in range(2))
    for X in batches:
        long.adapt(X)
    short.adapt(batches[-1])
    np.testing.assert_allclose(long.reference_weight_, short.reference_weight_, atol=1e-3)


def test_the_literal_accous_has_the_papers_settings() -> None:
    stream = GaussianStream(SquareShift(period=4), n_features=3, n_reference=60, n_rounds=4, batch_size=1)
    X, y = stream.reference()
    ratio = make_contender("Accous (literal)", horizon=4).fit(X, y).ratio_
    assert ratio.horizon == 4
    largest = float(np.linalg.norm(X, axis=1).max())
    assert ratio.feature_bound_ == pytest.approx(largest)
    assert ratio.radius_ == 1.5
    assert ratio.step_size_ == pytest.approx(3 * (1 + np.exp(1.5 * largest)))


def test_the_newton_step_is_the_first_step_of_a_learner() -> None:
    stream = GaussianStream(SquareShift(period=4), n_features=3, n_reference=60, n_rounds=4, batch_size=2)
    X, y = stream.reference()
    model = make_contender("LR (Newton step)").fit(X, y)
    assert np.array_equal(model.ratio_.reference_ratio_, np.ones(60))
    for batch in stream:
        model.adapt(batch.X)
        single = SingleLearnerRatio().fit(X).partial_fit(batch.X)
        assert np.array_equal(model.ratio_.reference_ratio_, single.reference_ratio_)
        np.testing.assert_allclose(model.ratio_.predict_ratio(X[:5]), single.predict_ratio(X[:5]))


def test_a_user_adds_a_contender_of_his_own(relative: Contender) -> None:
    assert set(contender_names()) == {*PAPER_CONTENDERS, *VARIANTS, *LATER, *TOLD, "RuLSIF"}
    assert contender_names()[-9:-7] == ("RuLSIF", "Accous (literal)")
    assert get_contender("RuLSIF") is relative
    assert isinstance(make_contender("RuLSIF").ratio, RULSIF)


def test_a_name_that_is_taken_is_refused(relative: Contender) -> None:
    with pytest.raises(ParameterError, match="'RuLSIF' already"):
        register(relative)
    with pytest.raises(ParameterError, match="'KMM' already"):
        register(Contender("KMM", lambda seed: AdaptiveClassifier(random_state=seed)))


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ParameterError, match=r"'OLR' .*'OLRE'.* FIX"):
        make_contender("OLR")
    with pytest.raises(ParameterError, match="no contender 'mine'"):
        unregister("mine")


GRID = [i / 100 for i in range(101)]


def kernel_by_hand(diffusion: float, jump: float) -> list[list[float]]:
    generator = np.zeros((101, 101))
    for i in range(101):
        for neighbour in (i - 1, i + 1):
            if 0 <= neighbour <= 100:
                generator[i, neighbour] += 1.0
                generator[i, i] -= 1.0
    diffused = expm(diffusion**2 / (2 * 0.01**2) * generator)
    return [[(1 - jump) * float(diffused[i, j]) + jump / 101 for j in range(101)] for i in range(101)]


def means_by_hand(rounds: list[list[tuple[float, float]]]) -> list[float]:
    """The mean alpha before each round and after the last, with one loop for every sum."""
    kernels = [kernel_by_hand(diffusion, jump) for diffusion in DIFFUSIONS for jump in JUMPS]
    beliefs = [[1 / 101] * 101 for _ in kernels]
    weights = [1 / len(kernels)] * len(kernels)

    def mean() -> float:
        return sum(
            w * sum(p * a for p, a in zip(belief, GRID, strict=True))
            for w, belief in zip(weights, beliefs, strict=True)
        )

    means = [mean()]
    for rows in rounds:
        likelihood = [math.prod((1 - a) * first + a * second for first, second in rows) for a in GRID]
        for k, kernel in enumerate(kernels):
            joint = [p * chance for p, chance in zip(beliefs[k], likelihood, strict=True)]
            evidence = sum(joint)
            weights[k] *= evidence
            beliefs[k] = [sum(joint[i] / evidence * kernel[i][j] for i in range(101)) for j in range(101)]
        total = sum(weights)
        weights = [(1 - SHARE) * w / total + SHARE / len(kernels) for w in weights]
        means.append(mean())
    return means


densities = st.tuples(st.floats(0.01, 10.0), st.floats(0.01, 10.0))


def follow(alphas: FloatArray, seed: int = 0) -> AlphaFilter:
    """Show the filter a row of one of two unit Gaussians at -1.5 and +1.5 for every alpha."""
    generator = np.random.default_rng(seed)
    is_second = generator.random(len(alphas)) < alphas
    rows = np.where(is_second, 1.5, -1.5) + generator.standard_normal(len(alphas))
    tracker = AlphaFilter()
    for row in rows:
        tracker.learn(np.exp(-0.5 * (row + 1.5) ** 2)[None], np.exp(-0.5 * (row - 1.5) ** 2)[None])
    return tracker


def test_the_filter_agrees_with_loops() -> None:
    generator = np.random.default_rng(0)
    rounds = [
        [(float(first), float(second)) for first, second in generator.exponential(size=(n, 2))] for n in (1, 3, 1, 2, 5)
    ]
    tracker, means = AlphaFilter(), []
    for rows in rounds:
        means.append(tracker.mean)
        tracker.learn(*np.array(rows).T)
    assert [*means, tracker.mean] == pytest.approx(means_by_hand(rounds), rel=1e-10)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.8])
def test_a_constant_alpha_is_found(alpha: float) -> None:
    early, late = (follow(np.full(n_rounds, alpha)) for n_rounds in (20, 3000))
    assert late.mean == pytest.approx(alpha, abs=0.04)
    assert abs(late.mean - alpha) < abs(early.mean - alpha)


def small_stream(**changes: object) -> GaussianStream:
    keywords = {"n_features": 3, "n_reference": 200, "n_rounds": 30, "batch_size": 2} | changes
    return GaussianStream(SquareShift(period=10), **keywords)  # type: ignore[arg-type]


def test_the_model_of_a_round_knows_the_rows_before_it_only() -> None:
    stream, contender = small_stream(), get_contender("limit")
    model = contender(0)
    fit_on(stream, contender, model)
    tracker, X = AlphaFilter(), stream.reference()[0]
    for batch in rounds(contender, model, stream):
        ratio = stream.true_ratio(X, tracker.mean)
        np.testing.assert_allclose(model.weights_, ratio / ratio.mean(), rtol=1e-9)
        tracker.learn(stream.true_ratio(batch.X, 0.0), stream.true_ratio(batch.X, 1.0))


def test_the_limit_runs_in_a_spec_between_fix_and_the_oracle(write_spec: Callable[..., Path]) -> None:
    path = write_spec(
        ('["FIX", "uLSIF", "accous", "oracle"]', '["FIX", "limit", "oracle"]'),
        ('["Lin", "Squ"]', '["Squ"]'),
        ("seeds = 2", "seeds = 1"),
        ("rounds = [24]", "rounds = [400]"),
        ("n_reference = 60", "n_reference = 2000"),
        ("n_features = 3", "n_features = 12"),
    )
    rows = {row["contender"]: row for row in map(run_one, read_spec(path).runs())}
    assert {row["status"] for row in rows.values()} == {"done"}
    assert rows["oracle"]["risk"] < rows["limit"]["risk"] < rows["FIX"]["risk"] - 0.02
    assert rows["limit"]["settings"]["contender"] == {"": "Limit(C=1.0)"}


@pytest.mark.parametrize("alpha_0", [0.0, 1.0])
def test_a_reference_of_one_part_is_refused(alpha_0: float) -> None:
    with pytest.raises(DataError, match="densities"):
        Limit().know_parts(small_stream(alpha_0=alpha_0))
