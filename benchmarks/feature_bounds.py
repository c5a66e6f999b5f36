"""How long should features be? Cross-validated loss of a softmax regression by the bound of `BackboneFeatures`.

A bound on the features' norm decides how strong the regression's penalty is (C = 1, the default of
`AdaptiveClassifier`), so one default must suit references of any kind. It is measured without any drift, on images that
the spec ``images`` does not use: samples of CIFAR-10 and of CINIC-10, and scikit-learn's digits.

Needs the extra ``deep`` and, for the first two, the files in ``ACCOUS_DATA``.
"""

from __future__ import annotations

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score

from accous import datasets
from accous.deep.precomputed import embeddings_of
from accous.deep.reduction import fit_reduction
from accous.exceptions import DataError
from accous_bench.images import load_cifar_cinic

BOUNDS = (1.0, 2.0, 5.0, 10.0, 20.0)
WIDTH = 512


def image_sets() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return images and labels by title."""
    digits = datasets.load_digits()
    pictures = np.kron(digits.X.reshape(-1, 8, 8) * 15, np.ones((4, 4))).astype(np.uint8)
    sets = {"digits": (pictures, digits.y)}
    try:
        pair = load_cifar_cinic("genuine")
    except DataError as error:
        print(error)
        return sets
    return {pool.title: (pool.images, pool.labels) for pool in (pair.first, pair.second)} | sets


def losses(images: np.ndarray, labels: np.ndarray) -> list[tuple[float, float]]:
    """Return the log loss and the error in % for each bound."""
    embeddings = embeddings_of(images, cache=True)
    folds = StratifiedKFold(4, shuffle=True, random_state=0)
    found = []
    for bound in BOUNDS:
        features = fit_reduction(embeddings, WIDTH, bound, 0).transform(embeddings)
        model = LogisticRegression(max_iter=500)
        loss = -cross_val_score(model, features, labels, cv=folds, scoring="neg_log_loss").mean()
        error = 1.0 - cross_val_score(model, features, labels, cv=folds).mean()
        found.append((float(loss), 100.0 * float(error)))
    return found


def main() -> None:
    """Print a table of images by bounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    table = Table("images", *(f"bound {bound:g}" for bound in BOUNDS), title="log loss (error, %) by cross-validation")
    for title, (images, labels) in image_sets().items():
        table.add_row(title, *(f"{loss:.2f} ({error:.1f})" for loss, error in losses(images, labels)))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
