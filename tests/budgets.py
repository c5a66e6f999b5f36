"""How many examples a property test tries: a share of what the chosen hypothesis profile allows."""

from hypothesis import settings


def examples(percent: int) -> settings:
    """Decorate a property test whose examples are costly, or cheap: so many percent of the profile's number.

    An explicit number would be the same in `make test`, which must be quick, and in `make test-slow`, which searches.
    """
    return settings(max_examples=max(8, percent * settings.default.max_examples // 100))
