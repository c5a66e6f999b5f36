r"""Train a backbone on labelled rows, under a linear head that is discarded afterwards.

With e(x) the backbone's features, rows i and labels y_i,

.. math::

    \min \; \text{mean}_i \, \text{cross-entropy}(e(x_i) V + c, y_i)

over the backbone's weights, V and c, by Adam. Some rows of every class are set aside. The weights of the epoch with the
smallest mean loss on these rows are kept.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import column_or_1d
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from accous.arrays import IntArray
from accous.deep.backbones import Backbone
from accous.deep.embedding import one_torch_thread
from accous.deep.progress import LateBar
from accous.deep.rows import Rows
from accous.exceptions import DataError, ParameterError
from accous.text import count

__all__ = ["Tuning", "fine_tune", "read_labels", "set_aside"]

_random_numbers = threading.Lock()


@dataclass(frozen=True)
class Tuning:
    """How to train. The names are those of the parameters of `BackboneFeatures`."""

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
    with _reproducible(seed, backbone.module), LateBar("fine-tuning", total, verbose=verbose) as bar:
        head = _Head(backbone, rows, labels)
        optimizer = torch.optim.Adam(head.parameters(), lr=tuning.learning_rate)
        while len(losses) < tuning.max_epochs and not _is_stuck(losses, tuning.patience):
            _set_training(backbone.module)
            # Pieces of nearly the same size: a last piece of one row would have no variance for a normalisation to use.
            for piece in np.array_split(generator.permutation(training_indices), n_steps):
                optimizer.zero_grad()
                head.mean_loss(piece).backward()
                optimizer.step()
                bar.advance(description=f"fine-tuning, epoch {len(losses) + 1} of at most {tuning.max_epochs}")
            losses.append(_validation_loss(head, validation_indices, tuning))
            if losses[-1] == min(losses):
                best = deepcopy(backbone.module.state_dict())  # it may hold more than tensors
    backbone.module.load_state_dict(best)
    return losses


def read_labels(y: Any, n_rows: int) -> IntArray:
    """Return the labels as numbers that start at 0."""
    if y is None:
        raise DataError("fine_tune=True needs the reference's labels: call fit(X, y).")
    labels = column_or_1d(y)
    if len(labels) != n_rows:
        raise DataError(f"There are {count(n_rows, 'row')} but {count(len(labels), 'label')}.")
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise DataError("Fine-tuning needs labels of at least two classes, got one.")
    return codes.astype(np.int64)


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
