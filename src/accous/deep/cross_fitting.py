r"""Train backbones such that no row of the reference is described by a network that has seen it.

A network treats rows that it was trained on differently from fresh rows of the same distribution. With such features
the ratio finds a shift where there is none. There are two remedies:

- hold-out: one network is trained on some of the labelled rows, and the others are the reference;
- folds: network k is trained on all rows but those of fold k. With n(i) the fold of reference row i,

  .. math::

      e(x_i) = f_{n(i)}(x_i), \qquad e(x) = \text{mean}_k \, f_k(x) \text{ for every other row } x.

Features of different networks need not be comparable, but their means are: folds have the same size, so both lines have
the same expectation for rows of one distribution, whatever the networks are. A log-linear ratio compares means, so it
starts at 1. Spreads differ a little: a mean of networks varies less than a single one. All networks start from the same
weights and draw their mini-batches with the same seed, so that a coordinate means nearly the same in each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from accous.arrays import IntArray
from accous.deep.backbones import Backbone
from accous.deep.fine_tuning import Tuning, fine_tune, set_aside
from accous.deep.rows import Rows
from accous.exceptions import DataError

__all__ = ["CrossFitted", "MeanOfNetworks", "Training", "cross_fit", "deal_folds"]

Embed = Callable[[Backbone, IntArray], NDArray[np.float32]]
"""Sends the rows at some places through a frozen backbone."""


@dataclass(frozen=True)
class CrossFitted:
    """What training leaves behind.

    Attributes
    ----------
    backbone : Backbone
        The frozen network for all rows but the reference's own.
    reference_indices : array of int
        The rows that are the reference.
    embeddings : array of shape (len(reference_indices), d)
        Their embeddings, each from a network that has not seen the row, unless cross-fitting is off.
    losses : list of list of float
        The validation losses of each network, by epoch.
    """

    backbone: Backbone
    reference_indices: IntArray
    embeddings: NDArray[np.float32]
    losses: list[list[float]]


@dataclass(frozen=True)
class Training:
    """The labelled rows, and how to train on them."""

    rows: Rows
    labels: IntArray
    tuning: Tuning
    seed: int
    verbose: bool

    def tuned(self, make: Callable[[], Backbone], indices: IntArray) -> tuple[Backbone, list[float]]:
        """Return a backbone that was trained on some rows and then frozen, and its validation losses."""
        backbone = make()
        losses = fine_tune(
            backbone, self.rows, self.labels, self.tuning, indices=indices, seed=self.seed, verbose=self.verbose
        )
        return backbone.frozen(), losses


def cross_fit(
    how: Any, make: Callable[[], Backbone], training: Training, embed: Embed, *, hold_out_share: float
) -> CrossFitted:
    """Train as ``how`` says: ``"none"``, ``"hold_out"`` or a number of folds.

    Parameters
    ----------
    how : str or int
    make : callable
        Returns the untrained backbone, with the same weights in every call.
    training : Training
    embed : callable
    hold_out_share : float
        Share of every class that a hold-out keeps as reference.
    """
    all_indices = np.arange(len(training.rows))
    generator = np.random.default_rng([training.seed, 1])
    if how not in ("none", "hold_out"):
        return _with_folds(deal_folds(training.labels, how, generator), make, training, embed)
    reference_indices = training_indices = all_indices
    if how == "hold_out":
        reference_indices, training_indices = set_aside(training.labels, hold_out_share, generator)
    backbone, losses = training.tuned(make, training_indices)
    return CrossFitted(backbone, reference_indices, embed(backbone, reference_indices), [losses])


def deal_folds(labels: IntArray, n_folds: int, generator: np.random.Generator) -> IntArray:
    """Return the fold of every row. The sizes of two folds differ by one row at most, also within every class."""
    if n_folds > len(labels):
        raise DataError(f"cross_fit={n_folds} needs at least {n_folds} rows, got {len(labels)}: choose fewer folds.")
    shuffled = generator.permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    folds = np.empty(len(labels), dtype=np.int64)
    folds[by_class] = np.arange(len(labels)) % n_folds  # goes on from class to class, so that all folds fill up equally
    return folds


def _with_folds(folds: IntArray, make: Callable[[], Backbone], training: Training, embed: Embed) -> CrossFitted:
    backbones: list[Backbone] = []
    losses: list[list[float]] = []
    pieces: list[NDArray[np.float32]] = []
    fold_indices = [np.flatnonzero(folds == fold) for fold in np.unique(folds)]
    for fold, indices in enumerate(fold_indices):
        backbone, found = training.tuned(make, np.flatnonzero(folds != fold))
        backbones.append(backbone)
        losses.append(found)
        pieces.append(embed(backbone, indices))
    embeddings = np.empty((len(folds), pieces[0].shape[1]), dtype=np.float32)
    for indices, piece in zip(fold_indices, pieces, strict=True):
        embeddings[indices] = piece
    mean = MeanOfNetworks([backbone.module for backbone in backbones])
    backbone = replace(backbones[0], module=mean).frozen()
    return CrossFitted(backbone, np.arange(len(folds)), embeddings, losses)


class MeanOfNetworks(nn.Module):
    """The mean of what several networks give for a batch."""

    def __init__(self, networks: list[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, batch: Tensor) -> Tensor:
        """Return the mean output; averaging over pixels, which follows for some networks, can be done afterwards."""
        return torch.stack([network(batch) for network in self.networks]).mean(dim=0)
