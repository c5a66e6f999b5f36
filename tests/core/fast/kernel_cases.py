"""What the tests of the compiled loops share: sizes, seeds, blocks of rows, a comparison."""

import numpy as np
from hypothesis import strategies as st

from accous.core.ensemble import NarrowReference
from accous.core.kernels_rows import BLOCK, to_blocks
from tests.builders import Array

AROUND_BLOCKS = [1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 1]

seeds = st.integers(0, 2**32 - 1)
widths = st.integers(1, 21)
row_counts = st.integers(1, 3 * BLOCK)


def narrow(features: Array) -> NarrowReference:
    return NarrowReference(features, to_blocks(features))


def assert_close(found: Array, wanted: Array, tolerance: float = 1e-12) -> None:
    """Equal up to a tolerance relative to the largest entry."""
    assert np.all(np.isfinite(found))
    np.testing.assert_allclose(found, wanted, rtol=0.0, atol=tolerance * max(1.0, float(np.abs(wanted).max(initial=0))))
