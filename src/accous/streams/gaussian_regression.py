"""A synthetic stream of numbers to predict, where the true ratio and a linear model's risk are known exactly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accous.exceptions import DataError
from accous.parameters import require_number_in
from accous.streams.batch import Batch, mix_risks
from accous.streams.gaussian import GaussianStream
from accous.streams.linear_models import linear_predictions
from accous.streams.shifts import Shift

__all__ = ["GaussianRegressionStream"]

FloatArray = NDArray[np.float64]

SAMPLE_SIZE = 20_000  # rows of each part, on which models that are not linear are measured


@dataclass(frozen=True, eq=False)
class GaussianRegressionStream:
    r"""The rows of `GaussianStream` with a number to predict, whose relation to the rows never changes.

    .. math:: y = u(x) + \big(1 - \mathrm{bend} \, (1 - u(x))\big) \, v \cdot x + \mathrm{noise} \cdot \varepsilon

    Here u is the mean of the coordinates, which is about -1 in ``D'`` and +1 in ``D''``, v is a unit vector across the
    line between the two, and epsilon is standard normal. The slope along v is therefore about 1 in ``D''`` and about
    ``1 - 2 bend`` in ``D'``. Unlike the classes of `GaussianStream`, P(y | x) is exactly the same in all rounds.

    With ``bend=0`` the target is linear. One linear model is then right everywhere, and weights only cost rows. With
    the default the target is close to linear in each part, but no linear model fits both. Ridge regression on the
    reference, 90 % of which is ``D''``, has a squared error of 2.1 in ``D'``, and with the true ratio as weights it has
    1.2 (means of five seeds). The variance of the noise is 1.

    Parameters
    ----------
    shift : Shift
        How alpha, the weight of ``D''``, moves.
    bend : float, default=0.5
        How far the target is from linear, in [0, 1].
    noise : float, default=1.0
        Standard deviation of the noise, in [0, 1e6].
    n_features, n_reference, n_rounds, batch_size, alpha_0, random_state
        As in `GaussianStream`; at least 2 features. The rows are the same as there.

    Examples
    --------
    >>> import numpy as np
    >>> from accous.streams import GaussianRegressionStream, LinearShift
    >>> stream = GaussianRegressionStream(LinearShift(), n_rounds=4, batch_size=2)
    >>> X, y = stream.reference()
    >>> X.shape, y.shape
    ((1000, 12), (1000,))
    >>> [(batch.round, batch.alpha, batch.y.shape) for batch in stream][:2]
    [(1, 0.25, (2,)), (2, 0.5, (2,))]
    >>> always_zero = (np.zeros(12), 0.0)
    >>> round(stream.risk(always_zero, alpha=1.0), 3), round(stream.risk(always_zero, alpha=0.0), 3)
    (3.413, 2.11)
    """

    shift: Shift
    _: KW_ONLY
    bend: float = 0.5
    noise: float = 1.0
    n_features: int = 12
    n_reference: int = 1000
    n_rounds: int = 10_000
    batch_size: int = 1
    alpha_0: float = 0.9
    random_state: int | None = 0

    def __post_init__(self) -> None:
        require_number_in("bend", self.bend, 0, 1)
        require_number_in("noise", self.noise, 0, 1e6)
        self._inputs  # noqa: B018 - checks the other parameters

    @cached_property
    def _inputs(self) -> GaussianStream:
        names = ("n_features", "n_reference", "n_rounds", "batch_size", "alpha_0", "random_state")
        return GaussianStream(self.shift, **{name: getattr(self, name) for name in names})

    @property
    def alphas(self) -> FloatArray:
        """The weight of ``D''`` in each round: a read-only array of shape (n_rounds,)."""
        return self._inputs.alphas

    def reference(self) -> tuple[FloatArray, FloatArray]:
        """Draw the labelled reference, the same in every call.

        Returns
        -------
        X : ndarray of shape (n_reference, n_features)
            The rows.
        y : ndarray of shape (n_reference,)
            Their targets.
        """
        X, _ = self._inputs.reference()
        return X, self._targets(X, self._inputs.generator(3))

    def __len__(self) -> int:
        return len(self._inputs)

    def __iter__(self) -> Iterator[Batch]:
        generator = self._inputs.generator(4)
        for batch in self._inputs:
            yield Batch(batch.X, self._targets(batch.X, generator), batch.alpha, batch.round)

    def mean_target(self, X: ArrayLike) -> FloatArray:
        """Compute the target of each row without its noise, the best prediction there is.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        """
        rows = np.asarray(X, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.n_features:
            raise DataError(f"X must have shape (n_rows, {self.n_features}), got {rows.shape}.")
        u = rows.mean(axis=1)
        targets: FloatArray = u + (1.0 - self.bend * (1.0 - u)) * (rows @ self._across)
        return targets

    def true_ratio(self, X: ArrayLike, alpha: float) -> FloatArray:
        """Compute the exact ratio ``D_alpha(x) / D_{alpha_0}(x)`` of each row, as `GaussianStream.true_ratio` does.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        alpha : float
            The weight of ``D''``, in [0, 1].
        """
        return self._inputs.true_ratio(X, alpha)

    def reference_ratio(self, alpha: float) -> FloatArray:
        """Compute the exact ratio of every reference row."""
        return self._inputs.reference_ratio(alpha)

    @overload
    def risk(self, model: Any, alpha: float) -> float: ...
    @overload
    def risk(self, model: Any, alpha: FloatArray) -> FloatArray: ...
    def risk(self, model: Any, alpha: float | FloatArray) -> float | FloatArray:
        """Compute the mean squared error of a model under ``D_alpha``.

        Parameters
        ----------
        model : object with predict, object with coef_ and intercept_, or tuple (coef, intercept)
            If its predictions are affine in x, the error is exact. Otherwise it is the mean over 20,000 rows of each
            part, the same in every call, plus the variance of the noise.
        alpha : float or ndarray
            The weight of ``D''``, in [0, 1]. An array gives one risk per entry.

        Returns
        -------
        float or ndarray
            ``(1 - alpha) risk under D' + alpha risk under D''``.
        """
        return mix_risks(self.component_risks(model), alpha)

    def component_risks(self, model: Any) -> tuple[float, float]:
        r"""Compute the mean squared errors of a model under ``D'`` and under ``D''``.

        The target without its noise is :math:`\beta \cdot x + x^\top Q x` with a symmetric Q. Under a Gaussian with
        mean mu and unit covariance, the error of the model :math:`w \cdot x + b` has the mean square

        .. math:: (\operatorname{tr} Q + c)^2 + 2 \operatorname{tr} Q^2 + |g|^2, \qquad
                  c = \mu^\top Q \mu + (\beta - w) \cdot \mu - b, \quad g = 2 Q \mu + \beta - w ,

        to which the noise adds its variance.

        Parameters
        ----------
        model : object with predict, object with coef_ and intercept_, or tuple (coef, intercept)
            As in `risk`.

        Returns
        -------
        tuple of float
            The risk under ``D'`` and the risk under ``D''``.
        """
        means = self._inputs.means
        linear = linear_predictions(model, means)
        if linear is None:
            errors = np.array([np.mean((model.predict(X) - targets) ** 2) for X, targets in self._sample])
        else:
            slopes, quadratic = self._coefficients
            gaps = slopes - linear[0]
            centres = np.einsum("mi,ij,mj->m", means, quadratic, means) + means @ gaps - linear[1]
            gradients = 2.0 * means @ quadratic + gaps
            squares = (np.trace(quadratic) + centres) ** 2 + np.square(gradients).sum(axis=1)
            errors = squares.reshape(2, 2).mean(axis=1) + 2.0 * np.square(quadratic).sum()
        first, second = (errors + self.noise**2).tolist()
        return first, second

    @cached_property
    def _across(self) -> FloatArray:
        """The unit vector v; sampled cosines sum to zero, so it is orthogonal to the line between the parts."""
        cosines = np.cos(2 * np.pi * np.arange(int(self.n_features)) / int(self.n_features))
        across: FloatArray = cosines / np.linalg.norm(cosines)
        return across

    @property
    def _coefficients(self) -> tuple[FloatArray, FloatArray]:
        """The slopes beta and the symmetric matrix Q."""
        average = np.full(int(self.n_features), 1.0 / self.n_features)
        product = 0.5 * self.bend * np.outer(average, self._across)
        return average + (1.0 - self.bend) * self._across, product + product.T

    @cached_property
    def _sample(self) -> list[tuple[FloatArray, FloatArray]]:
        """Rows of each part and their targets without noise."""
        generator = self._inputs.generator(5)
        noise = generator.standard_normal((2, SAMPLE_SIZE, int(self.n_features)))
        rows = np.repeat(self._inputs.means, SAMPLE_SIZE // 2, axis=0).reshape(noise.shape) + noise
        return [(X, self.mean_target(X)) for X in rows]

    def _targets(self, X: FloatArray, generator: np.random.Generator) -> FloatArray:
        return self.mean_target(X) + self.noise * generator.standard_normal(len(X))
