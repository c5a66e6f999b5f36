"""Files for a case: a table in some format, clean or mutated, with its labels inside or beside it."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import polars as pl

from tests.fuzz.damage import damage_bytes
from tests.fuzz.formats import Dialect, draw_dialect, encode_array, encode_grid
from tests.fuzz.grids import LABEL, Grid, make_grid, make_vectors
from tests.fuzz.mutations import mutate_grid
from tests.fuzz.typed_tables import odd_array, odd_labels, with_odd_column

__all__ = ["Inputs", "draw_inputs"]


@dataclass
class Inputs:
    """A table's file, and what a command needs to be told to read it.

    Attributes
    ----------
    files : dict of Path to bytes
        The table and, where the labels have a file of their own, that; mutated.
    clean_files : dict of Path to bytes
        The same without mutations.
    path : Path
        The table.
    label : str
        For ``--label``.
    options : list of str
        How the table is to be read.
    columns : list of str
        Of the clean table.
    done : list of str
        Names of the mutations.
    is_text : bool
    """

    files: dict[Path, bytes]
    clean_files: dict[Path, bytes]
    path: Path
    label: str
    options: list[str]
    columns: list[str]
    done: list[str]
    is_text: bool

    def write(self, *, is_clean: bool = False) -> None:
        """Write the files."""
        for path, content in (self.clean_files if is_clean else self.files).items():
            path.write_bytes(content)


def draw_inputs(
    random: Random,
    folder: Path,
    stem: str,
    table_format: str,
    n_rows: int,
    *,
    n_classes: int | None = 2,
    is_embedding: bool,
) -> Inputs:
    """Draw a table and what goes wrong with it; its labels are numbers where ``n_classes`` is None."""
    n_changes, n_damages = random.choice([(0, 0), (1, 0), (1, 0), (2, 0), (4, 0), (0, 1), (0, 1), (0, 2), (1, 1)])
    if is_embedding:
        drawn = make_vectors(random, n_rows, has_classes=n_classes is not None)
        return _embeddings(random, folder / stem, table_format, drawn, n_changes, n_damages)
    grid = make_grid(random, n_rows, n_classes=n_classes)
    dialect = draw_dialect(random, table_format)
    path, mutated = folder / f"{stem}{dialect.suffix}", grid.copy()
    inputs = Inputs({}, {}, path, LABEL, dialect.options, list(grid.header), [], dialect.is_text)
    if (table_format == "parquet" and random.random() < 0.3) or random.random() < 0.02:
        _split_labels(random, inputs, grid, mutated, folder / f"{stem}_labels", n_changes, n_damages)
    inputs.done += mutate_grid(mutated, random, n_changes)
    inputs.clean_files[path] = encode_grid(grid, dialect, Random(0))
    content = encode_grid(mutated, dialect, Random(0)) if n_changes else inputs.clean_files[path]
    if table_format == "parquet" and n_changes and random.random() < 0.5:
        content = with_odd_column(content, random)
        inputs.done.append("with_odd_column")
    inputs.files[path], names = damage_bytes(content, random, n_damages, is_text=dialect.is_text)
    inputs.done += names
    return inputs


def _split_labels(
    random: Random, inputs: Inputs, grid: Grid, mutated: Grid, stem: Path, n_changes: int, n_damages: int
) -> None:
    """Move the labels to a file of their own."""
    place = grid.header.index(LABEL)
    labels = Grid([LABEL], [[row[place]] for row in grid.rows])
    inputs.columns.remove(LABEL)
    for each in (grid, mutated):
        for row in [each.header, *each.rows]:
            del row[place]
    dialect = Dialect(random.choice(["csv", "tsv", "jsonl", "parquet"]))
    _put_labels(random, inputs, labels, stem, dialect, n_changes, n_damages)


def _put_labels(
    random: Random, inputs: Inputs, labels: Grid, stem: Path, dialect: Dialect, n_changes: int, n_damages: int
) -> None:
    path, changed = stem.with_name(stem.name + dialect.suffix), labels.copy()
    inputs.label = str(path) + random.choice(["", f":{LABEL}"])
    inputs.clean_files[path] = encode_grid(labels, dialect, Random(0))
    inputs.done += [f"labels: {name}" for name in mutate_grid(changed, random, n_changes)]
    content = encode_grid(changed, dialect, Random(0))
    inputs.files[path], names = damage_bytes(content, random, n_damages if random.random() < 0.5 else 0, is_text=True)
    inputs.done += [f"labels: {name}" for name in names]


def _embeddings(
    random: Random,
    stem: Path,
    table_format: str,
    drawn: tuple[list[list[float]], list[float]],
    n_changes: int,
    n_damages: int,
) -> Inputs:
    rows, labels = drawn
    suffix = ".parquet" if table_format == "parquet" else ".npy"
    path = stem.with_name(f"{stem.name}{suffix}")
    clean = _vectors_in_parquet(rows) if suffix == ".parquet" else encode_array(np.array(rows))
    content, done = clean, []
    if n_changes and random.random() < 0.7:
        content = with_odd_column(clean, random) if suffix == ".parquet" else odd_array(rows, random)
        done.append("odd_array")
    content, names = damage_bytes(content, random, n_damages, is_text=False)
    inputs = Inputs({path: content}, {path: clean}, path, "", [], [], [*done, *names], is_text=False)
    label_stem = stem.with_name(f"{stem.name}_labels")
    if random.random() < 0.4:
        grid = Grid([LABEL], [[f"class {label}" if isinstance(label, int) else f"{label}"] for label in labels])
        _put_labels(random, inputs, grid, label_stem, Dialect(random.choice(["csv", "jsonl", "parquet"])), n_changes, 0)
        return inputs
    label_path = label_stem.with_name(f"{label_stem.name}.npy")
    inputs.label, inputs.clean_files[label_path] = str(label_path), encode_array(np.array(labels))
    inputs.files[label_path] = inputs.clean_files[label_path]
    if n_changes and random.random() < 0.5:
        inputs.files[label_path] = odd_labels(labels, random)
        inputs.done.append("odd_labels")
    return inputs


def _vectors_in_parquet(rows: list[list[float]]) -> bytes:
    content = io.BytesIO()
    pl.DataFrame({"embedding": rows}).write_parquet(content)
    return content.getvalue()
