"""What people pass by mistake is an AccousError whose message is one line and says what to do."""

import numpy as np
import pytest

import accous
from accous import AccousError, AdaptiveClassifier

ROWS = np.random.default_rng(0).normal(size=(120, 3))
CLASSES = (ROWS[:, 0] > 0).astype(int)


REFUSALS = {
    "name as order": (
        lambda: AdaptiveClassifier().fit(ROWS, CLASSES, order="day"),
        r"order is 'day', but it takes the times themselves, as X\['day'\], or True",
    ),
    "class for a model": (
        lambda: accous.backtest(AdaptiveClassifier, ROWS, CLASSES),
        "got the class AdaptiveClassifier: ",
    ),
    "none for a model": (lambda: accous.backtest(None, ROWS, CLASSES), "got a NoneType: pass a model"),
}


@pytest.mark.parametrize(("call", "message"), REFUSALS.values(), ids=REFUSALS)
def test_a_mistake_is_an_error_of_ours_in_one_line(call, message):
    with pytest.raises(AccousError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
