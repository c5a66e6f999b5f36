"""What `make test` runs of a test, and what it leaves to `make test-slow`: examples of properties, and settings."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings


def examples(percent: int) -> settings:
    """Decorate a property test whose examples are costly, or cheap: so many percent of the profile's number.

    An explicit number would be the same in `make test`, which must be quick, and in `make test-slow`, which searches.
    """
    return settings(max_examples=max(8, percent * settings.default.max_examples // 100))


def rest_slow(values: Iterable[Any], n_fast: int = 1) -> list[Any]:
    """Give these to `pytest.mark.parametrize`: the first ones run always, the others in `make test-slow` only.

    For settings that go through the same code: one of them shows what the name of the test says.
    """
    chosen = list(values)
    return [*chosen[:n_fast], *(pytest.param(value, marks=pytest.mark.slow) for value in chosen[n_fast:])]
