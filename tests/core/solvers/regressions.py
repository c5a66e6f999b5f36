"""The penalised regression of a batch against the reference, plainly, and rows to try it on."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.builders import Array
from tests.oracles import logistic_gradient, logistic_loss


def penalised_loss(theta: Array, reference: Array, batch: Array, ridge: float) -> float:
    return logistic_loss(theta, reference, batch) + 0.5 * ridge * float(theta[:-1] @ theta[:-1])


def penalised_gradient(theta: Array, reference: Array, batch: Array, ridge: float) -> Array:
    return np.asarray(logistic_gradient(theta, reference, batch) + ridge * np.append(theta[:-1], 0.0))


def draw_rows(data: st.DataObject, scale: float) -> tuple[Array, Array]:
    """A reference and a batch of a few rows, with a constant as last column."""
    n_features = data.draw(st.integers(1, 4))
    numbers = st.integers(-10, 10).map(lambda value: scale * value / 10.0)
    reference, batch = (
        data.draw(hnp.arrays(np.float64, (data.draw(st.integers(1, 6)), n_features), elements=numbers))
        for _ in range(2)
    )
    reference[:, -1] = batch[:, -1] = 1.0
    return reference, batch
