r"""Backbones that are trained on labelled rows before they are frozen, as in the paper's image experiments.

With e(x) the backbone's features, rows i and labels y_i,

.. math::

    \min \; \text{mean}_i \, \text{cross-entropy}(e(x_i) V + c, y_i)

over the backbone's weights, V and c, by Adam. Some rows of every class are set aside. The weights of the epoch with the
smallest mean loss on these rows are kept.

A network treats rows that it was trained on differently from fresh rows of the same distribution. With such features
the ratio finds a shift where there is none. Therefore network k is trained on all rows but those of fold k. With n(i)
the fold of reference row i,

.. math::

    e(x_i) = f_{n(i)}(x_i), \qquad e(x) = \text{mean}_k \, f_k(x) \text{ for every other row } x.

Features of different networks need not be comparable, but their means are: folds have the same size, so both lines have
the same expectation for rows of one distribution, whatever the networks are. A log-linear ratio compares means, so it
starts at 1. Spreads differ a little: a mean of networks varies less than a single one. All networks start from the same
weights and draw their mini-batches with the same seed, so that a coordinate means nearly the same in each of them.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from accous import deep
from accous.arrays import FloatArray, IntArray
from accous.deep.features import BackboneFeatures, LearnedFeatures
from accous.deep.networks import Backbone, one_torch_thread
from accous.deep.rows import EmbeddingCache, Rows, open_cache
from accous.exceptions import DataError, ParameterError
from accous.model.tasks import read_labels
from accous.text import ProgressBar, require_integer, require_number

__all__ = [
    "MeanOfNetworks", "TunedFeatures", "Tuning", "cross_fit", "deal_folds", "features_cache", "fine_tune",
    "key_of_training", "set_aside", "tuned_features",
]  # fmt: skip

_random_numbers = threading.Lock()


@dataclass(frozen=True)
class Tuning:
    """How to train. The names are those of the parameters of `TunedFeatures`."""

    max_epochs: int
    patience: int
    learning_rate: float
    validation_share: float
    batch_size: int


def fine_tune(
    backbone: Backbone, rows: Rows, labels: IntArray, tuning: Tuning, *, indices: IntArray, seed: int, verbose: bool
) -> list[float]:
    """Train the backbone's module in place on the rows at these places; return the validation loss after each epoch.

    Everything runs on one thread and from one seed, so the same seed gives the same bits.
    """
    generator = np.random.default_rng(seed)
    validation_indices, training_indices = (
        indices[places] for places in set_aside(labels[indices], tuning.validation_share, generator)
    )
    n_steps = math.ceil(len(training_indices) / tuning.batch_size)
    losses: list[float] = []
    best: dict[str, Any] = {}
    total = tuning.max_epochs * n_steps
    with _reproducible(seed, backbone.module), ProgressBar("fine-tuning", total, verbose=verbose) as bar:
        head = _Head(backbone, rows, labels)
        optimizer = torch.optim.Adam(head.parameters(), lr=tuning.learning_rate)
        while len(losses) < tuning.max_epochs and not _is_stuck(losses, tuning.patience):
            _set_training(backbone.module)
            # Pieces of nearly the same size: a last piece of one row would have no variance for a normalisation to use.
            for piece in np.array_split(generator.permutation(training_indices), n_steps):
                optimizer.zero_grad()
                head.mean_loss(piece).backward()
                optimizer.step()
                bar.advance(text=f"fine-tuning, epoch {len(losses) + 1} of at most {tuning.max_epochs}")
            losses.append(_validation_loss(head, validation_indices, tuning))
            if losses[-1] == min(losses):
                best = deepcopy(backbone.module.state_dict())  # it may hold more than tensors
    backbone.module.load_state_dict(best)
    return losses


def set_aside(labels: IntArray, share: float, generator: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Return the rows that are set aside (a share of every class with at least two rows) and the others."""
    parts: list[IntArray] = []
    for label in np.unique(labels):
        indices = generator.permutation(np.flatnonzero(labels == label))
        n_aside = min(max(1, round(share * len(indices))), len(indices) - 1)
        parts.append(indices[:n_aside])
    aside_indices = np.sort(np.concatenate(parts))
    if len(aside_indices) == 0:
        raise DataError("Fine-tuning sets rows aside: at least one class must have two rows or more.")
    return aside_indices, np.setdiff1d(np.arange(len(labels)), aside_indices)


class _Head:
    """The backbone with a linear layer on top, and the rows that both are trained on."""

    def __init__(self, backbone: Backbone, rows: Rows, labels: IntArray) -> None:
        self.backbone, self._rows = backbone, rows
        self._labels = torch.from_numpy(labels)
        backbone.module.eval()
        with torch.no_grad():
            features = backbone(self._prepared(np.arange(1)))
        self._linear = nn.Linear(features.shape[1], int(labels.max()) + 1).to(features.device)

    def parameters(self) -> list[Tensor]:
        """Return everything that is trained; frozen parameters of a module are left out."""
        return [
            parameter
            for module in (self.backbone.module, self._linear)
            for parameter in module.parameters()
            if parameter.requires_grad
        ]

    def mean_loss(self, indices: IntArray) -> Tensor:
        """Return the mean cross-entropy of some rows."""
        scores = self._linear(self.backbone(self._prepared(indices)).float())
        return cross_entropy(scores, self._labels[indices].to(scores.device))

    def _prepared(self, indices: IntArray) -> Tensor:
        return self.backbone.preparation.prepare(self._rows.take(indices))


def _set_training(module: nn.Module) -> None:
    """Put a module into training mode, except frozen layers: a frozen normalisation must not keep averaging."""
    module.train()
    for layer in module.modules():
        own = list(layer.parameters(recurse=False))
        if own and not any(parameter.requires_grad for parameter in own):
            layer.eval()


def _validation_loss(head: _Head, indices: IntArray, tuning: Tuning) -> float:
    head.backbone.module.eval()
    total = 0.0
    with torch.no_grad():
        for start in range(0, len(indices), tuning.batch_size):
            piece = indices[start : start + tuning.batch_size]
            total += len(piece) * float(head.mean_loss(piece))
    if not math.isfinite(total):
        raise ParameterError(
            f"Fine-tuning diverged with learning_rate={tuning.learning_rate:g}: choose a smaller one, or look for NaN "
            "in the rows."
        )
    return total / len(indices)


def _is_stuck(losses: list[float], patience: int) -> bool:
    return len(losses) > patience and min(losses[-patience:]) >= min(losses[:-patience])


@contextmanager
def _reproducible(seed: int, module: nn.Module) -> Iterator[Any]:
    """Use one thread, gradients, and torch's random numbers from a seed; restore everything afterwards.

    Random numbers belong to the process, so fits in several threads take turns. Only the generators of the CPU and of
    the module's own devices are used, so only these are seeded and restored.
    """
    devices = sorted({str(parameter.device) for parameter in module.parameters() if parameter.device.type == "cuda"})
    with _random_numbers, one_torch_thread(), torch.random.fork_rng(devices=devices):
        torch.default_generator.manual_seed(seed)
        for device in devices:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        with torch.inference_mode(False), torch.enable_grad():
            yield


# --- cross-fitting ---

Embed = Callable[[Backbone, IntArray], NDArray[np.float32]]
"""Sends the rows at some places through a frozen backbone."""


def cross_fit(
    n_folds: int,
    make: Callable[[], Backbone],
    train: Callable[[Backbone, IntArray], list[float]],
    labels: IntArray,
    embed: Embed,
    generator: np.random.Generator,
) -> tuple[Backbone, NDArray[np.float32], list[list[float]]]:
    """Train a network without each fold.

    Parameters
    ----------
    n_folds : int
    make : callable
        Returns the untrained backbone, with the same weights in every call.
    train : callable
        Trains a backbone on the rows at some places, and returns its validation losses by epoch.
    labels : array of int
    embed : callable
    generator : numpy.random.Generator

    Returns
    -------
    backbone : Backbone
        The frozen mean of all networks, for fresh rows.
    embeddings : array of shape (n_rows, d)
        Of every row, from the network that has not seen it.
    losses : list of list of float
    """
    folds = deal_folds(labels, n_folds, generator)
    backbones: list[Backbone] = []
    losses: list[list[float]] = []
    pieces: list[NDArray[np.float32]] = []
    fold_indices = [np.flatnonzero(folds == fold) for fold in range(n_folds)]
    for fold, indices in enumerate(fold_indices):
        backbone = make()
        losses.append(train(backbone, np.flatnonzero(folds != fold)))
        backbones.append(backbone.frozen())
        pieces.append(embed(backbones[-1], indices))
    embeddings = np.empty((len(folds), pieces[0].shape[1]), dtype=np.float32)
    embeddings[np.concatenate(fold_indices)] = np.concatenate(pieces)
    mean = MeanOfNetworks([backbone.module for backbone in backbones])
    return replace(backbones[0], module=mean).frozen(), embeddings, losses


def deal_folds(labels: IntArray, n_folds: int, generator: np.random.Generator) -> IntArray:
    """Return the fold of every row. The sizes of two folds differ by one row at most, also within every class."""
    if n_folds > len(labels):
        raise DataError(f"cross_fit={n_folds} needs at least {n_folds} rows, got {len(labels)}: choose fewer folds.")
    shuffled = generator.permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    folds = np.empty(len(labels), dtype=np.int64)
    folds[by_class] = np.arange(len(labels)) % n_folds  # goes on from class to class, so that all folds fill up equally
    return folds


class MeanOfNetworks(nn.Module):
    """The mean of what several networks give for a batch."""

    def __init__(self, networks: list[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, batch: Tensor) -> Tensor:
        """Return the mean output; averaging over pixels, which follows for some networks, can be done afterwards."""
        return torch.stack([network(batch) for network in self.networks]).mean(dim=0)


@dataclass(eq=False, repr=False, kw_only=True)
class TunedFeatures(BackboneFeatures):
    """`accous.deep.BackboneFeatures` of a network that is first trained on the labelled rows; ``fit`` needs y.

    Parameters
    ----------
    backbone, image_size, n_components, max_norm, batch_size, cache, n_jobs, verbose, random_state
        As for `accous.deep.BackboneFeatures`.
    cross_fit : int, default=5
        How many networks are trained, each without one fold of the rows. ``fit_transform`` describes a row of the
        reference by the network that has not seen it, and ``transform`` describes fresh rows by the mean of all: the
        ratio would mistake for drift what a network has learned by heart.
    max_epochs : int, default=20
    patience : int, default=3
        Training stops after this many epochs without a smaller validation loss, or after ``max_epochs``.
    learning_rate : float, default=1e-3
        Adam's step size.
    validation_share : float, default=0.1
        Share of every class that is set aside for the validation loss.

    Attributes
    ----------
    validation_losses_ : list of list of float
        For each network that was trained, the loss after each epoch.
    """

    cross_fit: int = 5
    max_epochs: int = 20
    patience: int = 3
    learning_rate: float = 1e-3
    validation_share: float = 0.1

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _learn(self, load: Callable[[], Backbone], rows: Rows, y: Any, seed: int) -> LearnedFeatures:
        tuning = Tuning(self.max_epochs, self.patience, self.learning_rate, self.validation_share, self.batch_size)
        _, labels = read_labels(y, len(rows), reader=type(self).__name__)

        def train(backbone: Backbone, indices: IntArray) -> list[float]:
            return fine_tune(backbone, rows, labels, tuning, indices=indices, seed=seed, verbose=bool(self.verbose))

        def embed(backbone: Backbone, indices: IntArray) -> NDArray[np.float32]:
            return self._embed(backbone, rows, indices)

        generator = np.random.default_rng([seed, 1])
        backbone, embeddings, losses = cross_fit(self.cross_fit, load, train, labels, embed, generator)
        return LearnedFeatures(backbone, embeddings, {"validation_losses_": losses})

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("max_epochs", "patience"):
            require_integer(name, getattr(self, name), at_least=1)
        require_number("learning_rate", self.learning_rate)
        if require_number("validation_share", self.validation_share) >= 1:
            raise ParameterError(f"validation_share must be below 1, got {self.validation_share!r}.")
        require_integer("cross_fit", self.cross_fit, at_least=2)


# --- features on disk, so that no network is trained twice ---

_NO_MATTER = ("cache", "n_jobs", "verbose")


def features_cache() -> EmbeddingCache:
    """Return the folder of features: a part of the user's cache folder, or of ``ACCOUS_CACHE``."""
    embeddings = open_cache(True)
    assert embeddings is not None
    cache = open_cache(embeddings.folder.parent / "trained")
    assert cache is not None
    return cache


def key_of_training(backbone: TunedFeatures, images: NDArray[Any], labelled: IntArray, labels: IntArray) -> str | None:
    """Return a digest of what the features of all images depend on; None for a network that has no name.

    These are the parameters, the images, which of them are labelled and how, the versions of PyTorch and numpy, and the
    code of `accous.deep` and of this file.
    """
    if not isinstance(backbone.backbone, str):
        return None
    parameters = {name: value for name, value in sorted(backbone.get_params().items()) if name not in _NO_MATTER}
    digest = hashlib.sha256(repr([parameters, str(torch.__version__), np.__version__]).encode())
    assert deep.__file__ is not None
    for file in (*sorted(Path(deep.__file__).parent.glob("*.py")), Path(__file__)):
        digest.update(file.name.encode() + file.read_bytes())
    for array in (images, labelled, labels):
        digest.update(f"\n{array.shape} {array.dtype.str}\n".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def tuned_features(backbone: TunedFeatures, images: NDArray[Any], labelled: IntArray, labels: IntArray) -> FloatArray:
    """Train a backbone on the labelled images and return features of all.

    A labelled image gets the features of the network that has not seen it. The features of a named backbone are kept in
    the user's cache folder, and the next call only reads them.
    """
    key, cache = key_of_training(backbone, images, labelled, labels), features_cache()
    features = None if key is None else cache.read(key, len(images), np.float64)
    if features is None:
        reference = backbone.fit_transform(images[labelled], labels)
        features = backbone.transform(images)
        features[labelled] = reference
        if key is not None:
            cache.write(key, features)
    return features
