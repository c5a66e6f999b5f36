"""The streams of a benchmark by data set name: simulated, mixed from real rows or images, or in order of time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from accous import datasets
from accous.arrays import FloatArray, IntArray
from accous.deep.features import embeddings_of, fit_reduction
from accous.exceptions import DataError, ParameterError
from accous.streams import (
    Batch,
    BernoulliShift,
    ConstantShift,
    GaussianStream,
    LinearShift,
    MixtureStream,
    Shift,
    SineShift,
    SquareShift,
)
from accous.text import did_you_mean, import_extra, require_integer
from accous_bench.images import ImagePair, ImageYears, load_cifar_cinic, load_mnist_svhn, load_yearbook
from accous_bench.label_shift import LabelShiftStream
from accous_bench.streams import MovingGaussianStream, OrderedStream

__all__ = [
    "ALPHA_0", "DESCRIBED", "MIXED", "NATURAL", "SHIFTS", "STUDIED", "TUNED", "Problem", "Setting", "Stream",
    "get_problem", "problem_names", "register_problem", "register_shift",
]  # fmt: skip

ALPHA_0 = 0.9
NATURAL = "natural"
DESCRIBED = "_described"  # ends the names of tables whose reference is one part (paper, "Experiment Setup", Datasets)
TUNED = "_tuned"  # ends the names of images whose backbone was trained on the reference
_MIXING: dict[str, Shift] = {
    "Lin": LinearShift(),
    "Squ": SquareShift(),
    "Sin": SineShift(),
    "Ber": BernoulliShift(),
    "none": ConstantShift(ALPHA_0),
}
_PERIODS = (16, 32, 64, 128, 256)
STUDIED = {f"Squ{period}": SquareShift(period=period) for period in _PERIODS}
"""Square shifts whose period is the length of an interval of the cover, to study the weights of the learners."""
MIXED = tuple(_MIXING)
"""Shifts of every stream that mixes two parts."""
SHIFTS = _MIXING | STUDIED | {"fixed path": LinearShift(), "growing path": SquareShift()}
"""All shifts by name."""


class Stream(Protocol):
    """What a run needs: a labelled reference and batches, and ``reference_ratio`` and ``risk`` if they are known."""

    def reference(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the labelled reference."""

    def __iter__(self) -> Iterator[Batch]: ...

    def __len__(self) -> int: ...


@dataclass(frozen=True)
class Setting:
    """The settings that a stream is made from; other processes get the shift itself, which may be a user's."""

    shift: str
    batch_size: int
    n_rounds: int
    seed: int
    options: Mapping[str, Any] = field(default_factory=dict)
    moves: Shift | None = None

    def __post_init__(self) -> None:
        if self.moves is None:
            object.__setattr__(self, "moves", SHIFTS.get(self.shift))

    @property
    def sizes(self) -> dict[str, Any]:
        """Keywords that all streams take."""
        return {"n_rounds": self.n_rounds, "batch_size": self.batch_size, "random_state": self.seed}

    def path(self, period: int | None = None) -> Shift:
        """Return how alpha moves; a period that is given is that of Squ and Sin."""
        assert self.moves is not None
        if period is None or not isinstance(self.moves, SquareShift | SineShift):
            return self.moves
        return replace(self.moves, period=period)


@dataclass(frozen=True)
class Problem:
    """A data set, with the streams that can be made from it.

    Attributes
    ----------
    name, title : str
    shifts : tuple of str
        Names of the shifts that its streams can have.
    make : callable
        Takes a `Setting` and returns a `Stream`.
    options : tuple of str
        Further options that a spec may set.
    prepare : callable
        Called once before any run; fetches the data, or raises an error that says why it cannot.
    patience : str
        Message to print before ``prepare`` if it may take minutes.
    """

    name: str
    title: str
    shifts: tuple[str, ...]
    make: Callable[[Setting], Any]
    options: tuple[str, ...] = ()
    prepare: Callable[[], object] = lambda: None
    patience: str = ""


# --- images ---


N_REFERENCE = 2000
BACKBONE = "efficientnet_lite0"
N_COMPONENTS = 512  # the width of the paper's features
_MAX_NORM = 5.0  # as of `accous.deep.BackboneFeatures`
PATIENCE = "images are embedded, which takes minutes the first time"
TUNED_PATIENCE = (
    "the backbone is trained on the reference of every seed, once per fold, which takes many minutes the first time"
)
YEARBOOK_FROM = 1945  # the paper's reference is the photos before this year


_LOADERS: dict[str, Callable[[], Any]] = {
    "mnist_svhn": load_mnist_svhn,
    "cifar_cinic": load_cifar_cinic,
    "cifar_cinic_full": lambda: load_cifar_cinic("full"),
    "yearbook": load_yearbook,
}


@cache
def _images(name: str) -> ImagePair | ImageYears:
    images: ImagePair | ImageYears = _LOADERS[name]()
    return images


def _all_images(name: str) -> NDArray[np.uint8]:
    images = _images(name)
    if isinstance(images, ImageYears):
        return images.images
    return np.concatenate((images.first.images, images.second.images))


@cache
def _embeddings(name: str, backbone: str = BACKBONE) -> NDArray[np.float32]:
    """Return a frozen backbone's features of all images; they are computed once and then read from the cache."""
    return embeddings_of(_all_images(name), backbone, cache=True)


def _features(name: str, labelled: IntArray, labels: IntArray, seed: int, options: dict[str, Any]) -> FloatArray:
    """Return features of all images, fitted on the labelled ones.

    With ``fine_tune``, the backbone is trained on labelled images too.
    """
    n_components, network = options.get("n_components", N_COMPONENTS), options.get("backbone", BACKBONE)
    if options.get("fine_tune"):
        tuning = import_extra("accous_bench.tuning", "A tuned backbone")
        backbone = tuning.TunedFeatures(network, n_components=n_components, random_state=seed)
        backbone.set_params(cross_fit=options.get("cross_fit", backbone.cross_fit))
        features: FloatArray = tuning.tuned_features(backbone, _all_images(name), labelled, labels)
        return features
    embeddings = _embeddings(name, network)
    return fit_reduction(embeddings[labelled], n_components, _MAX_NORM, seed).transform(embeddings)


@lru_cache(maxsize=2)  # the runs of a seed follow each other, whatever their shifts and contenders
def _mixed_features(name: str, n_reference: int, seed: int, options: tuple[tuple[str, Any], ...]) -> FloatArray:
    places = np.arange(sum(map(len, _pool_labels(name))))[:, None]
    sizes = {"n_rounds": 1, "batch_size": 1, "n_reference": n_reference, "random_state": seed}
    rows, labels = _mixture(name, places, LinearShift(), **sizes).reference()
    return _features(name, rows[:, 0], labels, seed, dict(options))


def _pool_labels(name: str) -> tuple[IntArray, IntArray]:
    pair = _images(name)
    assert isinstance(pair, ImagePair)
    return pair.first.labels, pair.second.labels


def _mixture(name: str, rows: NDArray[Any], shift: Shift, **sizes: Any) -> MixtureStream:
    """Mix the rows of both pools; which rows are the reference depends only on the seed and the number of rows."""
    first, second = _pool_labels(name)
    pools = (rows[: len(first)], first), (rows[len(first) :], second)
    return MixtureStream(*pools, shift, alpha_0=ALPHA_0, **sizes)


def _mixed(name: str, title: str) -> Problem:
    """Mix the two pools: 10 % of the reference from the first, 90 % from the second."""

    def make(setting: Setting) -> MixtureStream:
        options = dict(setting.options)
        n_reference, period = options.pop("n_reference", N_REFERENCE), options.pop("period", None)
        features = _mixed_features(name, n_reference, setting.seed, tuple(sorted(options.items())))
        return _mixture(name, features, setting.path(period), n_reference=n_reference, **setting.sizes)

    options = ("n_reference", "n_components", "backbone", "period")
    return Problem(name, title, MIXED, make, options, lambda: _embeddings(name), PATIENCE)


def _tuned(frozen: Problem) -> Problem:
    """Make the same streams, with a backbone trained on each seed's labelled images first, as in the paper."""

    def make(setting: Setting) -> Any:
        return frozen.make(replace(setting, options={**setting.options, "fine_tune": True}))

    return replace(
        frozen,
        name=frozen.name + TUNED,
        title=f"{frozen.title}, tuned backbone",
        make=make,
        options=(*frozen.options, "cross_fit"),
        prepare=lambda: embeddings_of(_all_images(frozen.name)[:1]),  # report missing data before any run starts
        patience=TUNED_PATIENCE,
    )


def _make_yearbook(setting: Setting) -> OrderedStream:
    """Return portraits in order of year, shuffled within a year; each seed takes a different nine tenths of them."""
    options = {"share": 0.9, **setting.options}
    features, labels, n_first = _portraits(setting.seed, options.pop("share"), tuple(sorted(options.items())))
    end = n_first + setting.n_rounds * setting.batch_size
    return OrderedStream(features[:end], labels[:end], n_reference=n_first, batch_size=setting.batch_size)


@lru_cache(maxsize=2)
def _portraits(seed: int, share: float, options: tuple[tuple[str, Any], ...]) -> tuple[FloatArray, IntArray, int]:
    """Return features and labels of the portraits that a seed takes, and how many of them are the reference."""
    portraits = _images("yearbook")
    assert isinstance(portraits, ImageYears)
    generator = np.random.default_rng([seed, 4])
    order = generator.permutation(len(portraits.years))  # the files list one sex after the other
    order = order[np.argsort(portraits.years[order], kind="stable")]
    kept = order[generator.random(len(order)) < share]
    n_first = int(np.count_nonzero(portraits.years[kept] < YEARBOOK_FROM))
    if not 2 <= n_first < len(kept):
        raise DataError(f"Yearbook needs portraits before {YEARBOOK_FROM} as reference and later ones as stream.")
    labels = portraits.labels[kept]
    features = _features("yearbook", kept[:n_first], labels[:n_first], seed, dict(options))
    return features[kept], labels, n_first


_FROZEN = (
    _mixed("mnist_svhn", "MNIST-SVHN"),
    _mixed("cifar_cinic", "CIFAR10-CINIC10 (stand-ins)"),
    _mixed("cifar_cinic_full", "CIFAR10-CINIC10"),
    Problem(
        "yearbook", "Yearbook", (NATURAL,), _make_yearbook,
        ("share", "n_components", "backbone"), lambda: _embeddings("yearbook"), PATIENCE,
    ),
)  # fmt: skip
IMAGE_PROBLEMS = (*_FROZEN, *map(_tuned, _FROZEN))


# --- simulated streams and tables ---

SPLITS = ("fixed", "seed")
"""How a table is split in two: the same way in all runs, or anew for each seed."""


def _simulated(kind: Callable[..., Any], **fixed: Any) -> Callable[[Setting], Any]:
    def make(setting: Setting) -> Any:
        options = {**fixed, **setting.options}
        return kind(setting.path(options.pop("period", None)), **setting.sizes, **options)

    return make


def _is_day(hours: NDArray[np.int64]) -> NDArray[np.int64]:
    """Reduce 24 hours to two classes of twelve hours each: two loads cannot distinguish 24 classes."""
    return ((hours >= 7) & (hours < 19)).astype(np.int64)


@cache
def _halves(name: str, split_seed: int) -> tuple[tuple[NDArray[Any], NDArray[Any]], ...]:
    """Split a table into two parts such that a classifier trained on one generalises poorly to the other."""
    table = datasets.load(name)
    is_second = split_in_two(table.X, table.y, random_state=split_seed)
    return (table.X[~is_second], table.y[~is_second]), (table.X[is_second], table.y[is_second])


def _halved(name: str, title: str, suffix: str = "", **defaults: Any) -> Problem:
    """Mix the two halves of a table: one split for all seeds, or with ``split = "seed"`` one for each seed."""

    def make(setting: Setting) -> MixtureStream:
        options = {"alpha_0": ALPHA_0, "split": "fixed", **defaults, **setting.options}
        split = options.pop("split")
        if split not in SPLITS:
            raise ParameterError(f"split must be one of {', '.join(SPLITS)}, got {split!r}.")
        shift = setting.path(options.pop("period", None))
        first, second = _halves(name, setting.seed if split == "seed" else 0)
        # Scale the columns with statistics of the reference only, as in a real deployment.
        scaler = StandardScaler().fit(MixtureStream(first, second, shift, **setting.sizes, **options).reference()[0])
        pools = [(scaler.transform(X), y) for X, y in (first, second)]
        return MixtureStream(pools[0], pools[1], shift, **setting.sizes, **options)

    options = ("n_reference", "alpha_0", "split", "period")
    return Problem(name + suffix, title, MIXED, make, options, lambda: _halves(name, 0))


def _ordered(
    name: str,
    title: str,
    *,
    share: float,
    group: str | None = None,
    label: Callable[[NDArray[np.int64]], NDArray[Any]] = lambda y: y,
) -> Problem:
    """Take a random share of a table's rows in their order; each seed takes different rows."""

    def make(setting: Setting) -> OrderedStream:
        table = datasets.load(name)
        options = {"share": share, "n_reference": 1000, **setting.options}
        generator = np.random.default_rng([setting.seed, 4])
        order = generator.permutation(len(table.y))
        if group is not None:  # rows are in order of their group, and shuffled within a group
            order = order[np.argsort(table.columns[group][order], kind="stable")]
        else:
            order = np.sort(order)
        kept = order[generator.random(len(order)) < options["share"]]
        n_first = int(options["n_reference"])
        kept = kept[: n_first + setting.n_rounds * setting.batch_size]
        scaler = StandardScaler().fit(table.X[kept[:n_first]])
        X = scaler.transform(table.X[kept])
        return OrderedStream(X, label(table.y[kept]), n_reference=n_first, batch_size=setting.batch_size)

    return Problem(name, title, (NATURAL,), make, ("share", "n_reference"), lambda: datasets.load(name))


@cache
def _pool_by_class(name: str) -> tuple[FloatArray, IntArray]:
    """Return rows and classes: four Gaussians at orthogonal centres of norm 1.5, or MNIST on 50 principal axes."""
    generator = np.random.default_rng(0)
    if name == "gaussian_labels":
        centers = 1.5 * np.linalg.qr(generator.normal(size=(12, 4)))[0].T
        y = np.repeat(np.arange(4), 10_000)
        return centers[y] + generator.normal(size=(len(y), 12)), y
    digits = load_mnist_svhn().first
    pixels = digits.images.reshape(len(digits.labels), -1) / 255.0
    reduced = PCA(50, random_state=0).fit_transform(pixels)
    return reduced, digits.labels.astype(np.int64)


def _labels(name: str, title: str, n_classes: int) -> Problem:
    """Move the shares from equal ones to a single class, as the benchmark of Baby and others does."""

    def make(setting: Setting) -> LabelShiftStream:
        options = {"n_reference": 1000, "period": None, **setting.options}
        X, y = _pool_by_class(name)
        last = tuple(float(k == 0) for k in range(n_classes))
        return LabelShiftStream(
            *(X, y, setting.path(options["period"]), last, setting.n_rounds, setting.batch_size),
            *(options["n_reference"], setting.seed),
        )

    return Problem(name, title, MIXED, make, ("n_reference", "period"), lambda: _pool_by_class(name))


_PROBLEMS = {
    problem.name: problem
    for problem in (
        Problem(
            "gaussian", "Gaussians (reconstructed)", (*MIXED, *STUDIED), _simulated(GaussianStream),
            ("angle", "n_features", "n_reference", "period"),
        ),
        Problem(
            "gaussian_published", "Gaussians (as published)", MIXED, _simulated(GaussianStream, geometry="published"),
            ("n_features", "n_reference", "period"),
        ),
        Problem(
            "moving_gaussian", "One moving Gaussian", ("fixed path", "growing path"), _simulated(MovingGaussianStream),
            ("distance", "n_features", "n_reference"),
        ),
        _halved("diabetes", "Diabetes"),
        # As the paper describes it: the reference is of one part, and every run has its own split. Half of the part
        # goes to the stream, so that no row is in both; parts differ in size, the reference does not.
        _halved("diabetes", "Diabetes (as described)", DESCRIBED, n_reference=192, alpha_0=1.0, split="seed"),
        _halved("breast", "Breast"),
        _halved("breast", "Breast (as described)", DESCRIBED, n_reference=140, alpha_0=1.0, split="seed"),
        _halved("breast_cancer", "Breast (diagnostic)"),
        _ordered("gas_sensor", "Gas sensors", share=0.9, group="batch"),
        _ordered("acs_employment", "Employment", share=0.1, group="year"),
        _ordered("powersupply", "Power supply", share=0.9, label=_is_day),
        _labels("gaussian_labels", "Four Gaussians, label shift", 4),
        _labels("mnist_labels", "MNIST, label shift", 10),
        *IMAGE_PROBLEMS,
    )
}  # fmt: skip


def problem_names() -> tuple[str, ...]:
    """Return all names, in order of registration."""
    return tuple(_PROBLEMS)


def get_problem(name: str) -> Problem:
    """Return the problem with this name."""
    if name not in _PROBLEMS:
        meant = did_you_mean(name, _PROBLEMS)
        raise ParameterError(
            f"There is no data set {name!r}{meant}: name one of {', '.join(_PROBLEMS)}, or register it."
        )
    return _PROBLEMS[name]


def register_shift(name: str, shift: Shift) -> None:
    """Add your own shift to every built-in data set that mixes two parts; it replaces one with the same name."""
    if not isinstance(shift, Shift):
        raise ParameterError(f"register_shift takes a name and an accous.streams.Shift, got {shift!r}.")
    SHIFTS[name] = shift
    for key, problem in _PROBLEMS.items():
        if "Lin" in problem.shifts and name not in problem.shifts:
            _PROBLEMS[key] = replace(problem, shifts=(*problem.shifts, name))


def register_problem(problem: Problem) -> None:
    """Add your own data set; it replaces one with the same name."""
    if not isinstance(problem, Problem):
        raise ParameterError(f"register_problem takes a Problem(name, title, shifts, make), got {problem!r}.")
    _PROBLEMS[problem.name] = problem


# --- a table in two parts, so that a classifier trained on one generalises poorly to the other ---


def split_in_two(
    X: NDArray[np.float64], y: NDArray[np.int64], *, n_directions: int = 100, random_state: int = 0
) -> NDArray[np.bool_]:
    """Find a cut through the middle of the rows across which a linear classifier generalises worst.

    The paper asks for "two subsets ... such that the classifier trained on one dataset generalizes poorly to the
    other" and does not say how they were found. This function standardises the columns and cuts the rows at the
    median of their projection on each axis and on ``n_directions`` random directions. For each cut it computes the
    worse of the two errors (trained on one side, tested on the other), and it keeps the cut where this is largest. It
    ignores cuts that leave less than a twentieth of a class on one side. P(y | x) is the same on both sides.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
        Finite rows.
    y : array of shape (n_rows,)
    n_directions : int, default=100
    random_state : int, default=0

    Returns
    -------
    array of bool of shape (n_rows,)
        Whether a row belongs to the second part. The two parts have the same size, up to ties.
    """
    require_integer("n_directions", n_directions, at_least=1)
    rows = StandardScaler().fit_transform(X)
    generator = np.random.default_rng(random_state)
    directions = np.concatenate((np.eye(rows.shape[1]), generator.normal(size=(n_directions, rows.shape[1]))))
    best, worst_error = np.zeros(len(rows), dtype=bool), -1.0
    for direction in directions:
        scores = rows @ direction
        is_second = scores > np.median(scores)
        if _has_all_classes(y, is_second) and (error := _error_across(rows, y, is_second)) > worst_error:
            best, worst_error = is_second, error
    return best


def _has_all_classes(y: NDArray[np.int64], is_second: NDArray[np.bool_]) -> bool:
    shares = [is_second[y == label].mean() for label in np.unique(y)]
    return min(shares) >= 0.05 and max(shares) <= 0.95


def _error_across(rows: NDArray[np.float64], y: NDArray[np.int64], is_second: NDArray[np.bool_]) -> float:
    errors = []
    for is_fitted in (is_second, ~is_second):
        model = LogisticRegression(max_iter=1000).fit(rows[is_fitted], y[is_fitted])
        errors.append(1.0 - model.score(rows[~is_fitted], y[~is_fitted]))
    return max(errors)
