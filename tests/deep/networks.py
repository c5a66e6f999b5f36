"""Tiny networks and images for the tests."""

import numpy as np
import torch
from torch import nn


def seeded(make, seed=0):
    """A module made with these first weights, without touching torch's own random numbers."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def small_convolution(seed=0, width=6):
    return seeded(lambda: nn.Sequential(nn.Conv2d(3, width, 3, stride=2), nn.BatchNorm2d(width), nn.ReLU()), seed)


def small_linear(n_inputs=5, width=4, seed=0):
    return seeded(lambda: nn.Sequential(nn.Linear(n_inputs, width), nn.Dropout(0.5), nn.Tanh()), seed)


def images(n=40, size=12, channels=3, seed=0):
    shape = (n, size, size) if channels is None else (n, size, size, channels)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def two_classes_of_images(n=60, size=8, seed=0):
    """Dark and bright halves: the left is brighter in class 1."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    X = rng.integers(0, 100, (n, size, size, 3))
    X[:, :, : size // 2] += 100 * y[:, None, None, None]
    return X.astype(np.uint8), y
