"""A plugin of pytest that shuffles the files, and the tests of each file: `pytest -p tests.shuffled`.

The environment variable SHUFFLE_SEED gives another order than the default.
"""

import os
import random
from itertools import groupby

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of a file stay together, so that what they share is made once."""
    chance = random.Random(os.environ.get("SHUFFLE_SEED", "0"))
    files = [list(group) for _, group in groupby(items, key=lambda item: item.path)]
    chance.shuffle(files)
    for group in files:
        chance.shuffle(group)
    items[:] = [item for group in files for item in group]
