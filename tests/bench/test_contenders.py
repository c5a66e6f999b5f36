"""The registry of contenders: the paper's eight names, and the user's own."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator

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
from accous.exceptions import ParameterError
from accous.streams import GaussianStream, SquareShift
from accous_bench.contenders import (
    LIMIT,
    ORACLE,
    PAPER_CONTENDERS,
    Contender,
    contender_names,
    get_contender,
    make_contender,
    register,
    unregister,
)
from tests.docs_pages import DOCS, FENCE

RATIOS = {
    "FIX": NoShift,
    "KMM": KMM,
    "KLIEP": KLIEP,
    "uLSIF": ULSIF,
    "LR": LogisticRatio,
    "OLRE": SingleLearnerRatio,
    "Accous": OnlineDensityRatio,
}
VARIANTS = (
    *("KMM (no ridge)", "KLIEP (cv)", "uLSIF (cv)", "LR (Newton step)"),
    *("KMM (unit width)", "KLIEP (unit width)", "uLSIF (unit width)", "LR (weak penalty)"),
    *("Accous (literal)", "Accous (ensemble only)"),
)


@pytest.fixture
def relative() -> Iterator[Contender]:
    contender = Contender("RuLSIF", lambda seed: AdaptiveClassifier(ratio=RULSIF(random_state=seed)))
    register(contender)
    yield contender
    unregister("RuLSIF")


@pytest.mark.parametrize("page", ["benchmark.md", "howto/own_contender.md"])
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


def test_the_papers_eight_names_come_first_and_in_its_order() -> None:
    assert PAPER_CONTENDERS == ("FIX", "DANN", "KMM", "KLIEP", "uLSIF", "LR", "OLRE", "Accous")
    assert contender_names()[:8] == PAPER_CONTENDERS


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
def test_every_contender_plays_a_stream_the_same_way_twice(name: str) -> None:
    stream = GaussianStream(SquareShift(period=4), n_features=3, n_reference=60, n_rounds=6, batch_size=2)

    def play() -> list[Any]:
        model = make_contender(name, random_state=0).fit(*stream.reference())
        answers = []
        for batch in stream:
            model.adapt(batch.X)
            answers.append(model.predict_proba(stream.reference()[0]))
        return answers

    first, second = play(), play()
    assert np.array(first).tobytes() == np.array(second).tobytes()
    is_moved = any(not np.array_equal(first[0], later) for later in first[1:])
    assert is_moved == (name != "FIX")


def test_every_call_makes_a_fresh_model() -> None:
    contender = get_contender("Accous")
    assert contender(1) is not contender(1)
    assert isinstance(contender(1), BaseEstimator)


def test_only_the_methods_that_know_one_batch_forget() -> None:
    forgetful = {name for name in contender_names() if get_contender(name).forgets}
    assert forgetful - set(VARIANTS) == {"DANN", "KMM", "KLIEP", "uLSIF", "LR"}
    assert forgetful & set(VARIANTS) == {name for name in VARIANTS if not name.startswith("Accous")}


@pytest.mark.parametrize("name", ["KMM", "KMM (no ridge)", "KLIEP", "uLSIF (cv)", "LR", "LR (Newton step)"])
def test_what_forgets_does_not_depend_on_earlier_batches(name: str) -> None:
    stream = GaussianStream(SquareShift(period=4), n_features=3, n_reference=60, n_rounds=5, batch_size=2)
    batches = [batch.X for batch in stream]
    long, short = (make_contender(name).fit(*stream.reference()) for _ in range(2))
    for X in batches:
        long.adapt(X)
    short.adapt(batches[-1])
    np.testing.assert_allclose(long.reference_weight_, short.reference_weight_, atol=1e-3)


def test_kliep_and_ulsif_are_the_same_for_batches_of_one_row() -> None:
    """One row is one centre, so both ratios are a multiple of the same kernel, and weights have mean 1."""
    stream = GaussianStream(SquareShift(period=4), n_features=3, n_reference=60, n_rounds=4, batch_size=1)
    models = [make_contender(name).fit(*stream.reference()) for name in ("KLIEP", "uLSIF")]
    for batch in stream:
        first, second = (model.adapt(batch.X).reference_weight_ for model in models)
        np.testing.assert_allclose(first, second, rtol=1e-9)


@pytest.mark.parametrize("name", ["KMM", "KLIEP", "uLSIF"])
def test_kernels_of_unit_width_do_not_look_at_the_data(name: str) -> None:
    stream = GaussianStream(SquareShift(period=4), n_features=3, n_reference=60, n_rounds=2, batch_size=3)
    X, y = stream.reference()
    batch = next(iter(stream)).X
    models = {label: make_contender(label).fit(X, y).adapt(batch) for label in (name, f"{name} (unit width)")}
    assert models[f"{name} (unit width)"].ratio_.width_ == 1.0
    assert models[name].ratio_.width_ > 1.0


def test_the_literal_accous_has_the_papers_settings() -> None:
    stream = GaussianStream(SquareShift(period=4), n_features=3, n_reference=60, n_rounds=4, batch_size=1)
    X, y = stream.reference()
    ratio = make_contender("Accous (literal)").fit(X, y).ratio_
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
    assert contender_names() == (*PAPER_CONTENDERS, *VARIANTS, LIMIT, ORACLE, "RuLSIF")
    assert get_contender("RuLSIF") is relative
    assert isinstance(make_contender("RuLSIF").ratio, RULSIF)


def test_a_name_that_is_taken_is_refused(relative: Contender) -> None:
    with pytest.raises(ParameterError, match="'RuLSIF' already"):
        register(relative)
    with pytest.raises(ParameterError, match="'KMM' already"):
        register(Contender("KMM", lambda seed: AdaptiveClassifier(random_state=seed)))


def test_what_is_no_contender_is_refused() -> None:
    with pytest.raises(ParameterError, match="takes a Contender"):
        register(AdaptiveClassifier)  # type: ignore[arg-type]


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ParameterError, match=r"no contender 'OLR' \(did you mean 'OLRE'\?\): name one of FIX"):
        make_contender("OLR")
    with pytest.raises(ParameterError, match="no contender 'mine'"):
        unregister("mine")


@pytest.mark.parametrize("name", ["FIX", LIMIT, ORACLE])
def test_what_is_built_in_cannot_be_taken_away(name: str) -> None:
    with pytest.raises(ParameterError, match="built in and cannot be removed"):
        unregister(name)
