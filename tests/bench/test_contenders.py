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

RATIOS = {
    "FIX": NoShift,
    "KMM": KMM,
    "KLIEP": KLIEP,
    "uLSIF": ULSIF,
    "LR": LogisticRatio,
    "OLRE": SingleLearnerRatio,
    "Accous": OnlineDensityRatio,
}


@pytest.fixture
def relative() -> Iterator[Contender]:
    contender = Contender("RuLSIF", lambda seed: AdaptiveClassifier(ratio=RULSIF(random_state=seed)), learns_first=True)
    register(contender)
    yield contender
    unregister("RuLSIF")


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
    if name == "DANN":
        pytest.importorskip("torch", reason="needs PyTorch: pip install 'accous[deep]'")
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


def test_only_the_methods_that_know_one_batch_learn_before_they_predict() -> None:
    first = {name for name in PAPER_CONTENDERS if get_contender(name).learns_first}
    assert first == {"DANN", "KMM", "KLIEP", "uLSIF", "LR"}


def test_a_user_adds_a_contender_of_his_own(relative: Contender) -> None:
    variants = ("Accous (paper)", "Accous (batch first)")
    assert contender_names() == (*PAPER_CONTENDERS, *variants, LIMIT, ORACLE, "RuLSIF")
    assert get_contender("RuLSIF") is relative
    assert isinstance(make_contender("RuLSIF").ratio, RULSIF)


def test_a_name_that_is_taken_is_refused(relative: Contender) -> None:
    with pytest.raises(ParameterError, match="'RuLSIF' already"):
        register(relative)
    with pytest.raises(ParameterError, match="'KMM' already"):
        register(Contender("KMM", lambda seed: AdaptiveClassifier(random_state=seed), learns_first=False))


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
