"""What the tests of the Gaussian stream share."""

from functools import cache

import pytest

from accous.streams import ConstantShift, GaussianStream

geometries = pytest.mark.parametrize("geometry", ["published", "reconstructed"])


def class_means(stream):
    """The means of D' negative, D' positive, D'' negative, D'' positive."""
    return stream.means


@cache
def many_rows(alpha, n_rows, **parameters):
    stream = GaussianStream(ConstantShift(0.5), n_rounds=1, alpha_0=alpha, n_reference=n_rows, **parameters)
    return stream.reference()
