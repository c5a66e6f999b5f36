"""The fingerprint names what the states of keys depend on: the same model has the same one, another one has not."""

import numpy as np

import accous
from accous import AdaptiveClassifier, OnlineDensityRatio
from accous.keyed import KeyedAdapter
from tests.keyed.conftest import labelled


def sampled(random_state: object) -> AdaptiveClassifier:
    """A model whose gradients are summed over a random third of the reference."""
    ratio = OnlineDensityRatio(max_reference=100, random_state=random_state)
    return AdaptiveClassifier(ratio=ratio).fit(*labelled(300, 0))


def fingerprint(model: AdaptiveClassifier) -> bytes:
    return KeyedAdapter(model).fingerprint


def test_another_sample_of_the_reference_is_another_model(tmp_path):
    first, second = (sampled(None) for _ in range(2))
    assert fingerprint(first) != fingerprint(second)
    accous.save(first, tmp_path)
    assert fingerprint(accous.load(tmp_path)) == fingerprint(first)


def test_a_generator_in_the_same_state_gives_the_same_model():
    found = {fingerprint(sampled(np.random.RandomState(0))) for _ in range(2)}
    assert len(found) == 1
