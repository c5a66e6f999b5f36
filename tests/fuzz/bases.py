"""Models to begin with, fitted once in a process and copied for every case."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from random import Random

import numpy as np

import accous
from accous.table.columns import Choices
from accous.table.fit import make_ratio, read_reference
from accous.table.model import TableModel, save_table_model
from accous.table.readers import open_table, with_labels
from tests.fuzz.formats import Dialect, encode_grid
from tests.fuzz.grids import make_grid, make_vectors
from tests.fuzz.invariants import files_in
from tests.fuzz.running import run_command

__all__ = ["N_REFERENCE", "RATIOS", "base_model", "put_model"]

RATIOS = ("accous", "ulsif", "kliep", "kmm", "lr", "olre", "none")
N_REFERENCE, _N_STREAM = 40, 40


@cache
def base_model(kind: str, ratio: str, *, is_experienced: bool) -> dict[str, bytes]:
    """Return the files of a model.

    Parameters
    ----------
    kind : {"table", "three classes", "numbers", "embedding", "embedding with numbers"}
    ratio : one of `RATIOS`
    is_experienced : bool
        Whether it has followed a stream already.
    """
    random = Random(f"{kind} {ratio}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        label = _write(folder / "reference", kind, random, N_REFERENCE)
        suffix = ".npy" if kind.startswith("embedding") else ".csv"
        model, stream = folder / "model", folder / f"stream{suffix}"
        _fit(str(folder / f"reference{suffix}"), label, ratio, model)
        if is_experienced:
            _write(folder / "stream", kind, random, _N_STREAM)
            arguments = ["adapt", model, stream, "-o", folder / "predictions.csv", "--batch-size", 5]
            run = run_command([str(argument) for argument in arguments])
            assert run.exit_code == 0, run
        return files_in(model)


def put_model(files: dict[str, bytes], folder: Path) -> None:
    """Write a model's files to a folder."""
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)


def _write(stem: Path, kind: str, random: Random, n_rows: int) -> str:
    """Write rows, and return the name or the file of their labels."""
    if kind.startswith("embedding"):
        rows, labels = make_vectors(random, n_rows, has_classes=kind == "embedding")
        np.save(stem.with_suffix(".npy"), np.array(rows))
        np.save(stem.with_name(f"{stem.name}_labels.npy"), np.array(labels))
        return str(stem.with_name(f"{stem.name}_labels.npy"))
    grid = make_grid(random, n_rows, n_classes={"table": 2, "three classes": 3, "numbers": None}[kind])
    stem.with_suffix(".csv").write_bytes(encode_grid(grid, Dialect("csv"), random))
    return "y"


def _fit(reference: str, label: str, ratio: str, folder: Path) -> None:
    """Do what ``accous fit`` does, but for the cross-validation, which takes most of the time."""
    table, label = with_labels(open_table(reference), label)
    read = read_reference(table, label, Choices(), skips_bad=False)
    has_classes = read.task.kind == "classifier"
    make_model = accous.AdaptiveClassifier if has_classes else accous.AdaptiveRegressor
    model = make_model(ratio=make_ratio(ratio, seed=0), random_state=0).fit(read.X, read.y)
    settings = {"reference": reference, "n_reference": len(read.y), "ratio": ratio}
    if has_classes:
        settings |= {"accuracy": 0.9, "largest_class": 0.5}
    else:
        settings |= {"task": read.task.name, "error": 5.0, "error_of_median": 9.0}
    if table.widths:
        settings["widths"] = dict(table.widths)
    save_table_model(TableModel(model=model, encoder=read.encoder, label=label, settings=settings), folder)
