"""What goes wrong with a table, its fields, its types and its bytes; and the files of a case."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import polars as pl

from tests.fuzz.tables import (
    LABEL,
    ODD_LABELS,
    ODD_NAMES,
    ODD_VALUES,
    Dialect,
    Grid,
    draw_dialect,
    encode_array,
    encode_grid,
    make_grid,
    make_vectors,
    odd_array,
    odd_labels,
    with_odd_column,
)

_LONG_FIELD = 140_000  # longer than the longest field that Python's csv module takes


def mutate_grid(grid: Grid, random: Random, n_mutations: int) -> list[str]:
    """Apply mutations in place; return their names."""
    chosen = [random.choice(MUTATIONS) for _ in range(n_mutations)]
    for mutation in chosen:
        mutation(grid, random)
    return [mutation.__name__ for mutation in chosen]


def _row(grid: Grid, random: Random) -> list[str]:
    return random.choice(grid.rows) if grid.rows else []


def _any(items: list[str], random: Random) -> int:
    return random.randrange(len(items)) if items else 0


def set_field(grid: Grid, random: Random) -> None:
    row = _row(grid, random)
    row[_any(row, random) : _any(row, random) + 1] = [random.choice(ODD_VALUES)]


def set_one_field(grid: Grid, random: Random) -> None:
    row = _row(grid, random)
    if row:
        row[_any(row, random)] = random.choice(ODD_VALUES)


def set_column(grid: Grid, random: Random) -> None:
    """Fill a column with one odd value, or with many."""
    place, value, is_one = _any(grid.header, random), random.choice(ODD_VALUES), random.random() < 0.5
    for row in grid.rows:
        if place < len(row):
            row[place] = value if is_one else random.choice(ODD_VALUES)


def set_part_of_column(grid: Grid, random: Random) -> None:
    place, value, share = _any(grid.header, random), random.choice(ODD_VALUES), random.random()
    for row in grid.rows:
        if place < len(row) and random.random() < share:
            row[place] = value


def set_label(grid: Grid, random: Random) -> None:
    """Give some rows odd labels, or all rows the same one."""
    place = grid.header.index(LABEL) if LABEL in grid.header else 0
    value, share = random.choice(ODD_LABELS), random.choice([0.1, 0.5, 0.95, 1.0])
    for row in grid.rows:
        if place < len(row) and random.random() < share:
            row[place] = value


def delete_field(grid: Grid, random: Random) -> None:
    row = _row(grid, random)
    if row:
        del row[_any(row, random)]


def repeat_field(grid: Grid, random: Random) -> None:
    row = _row(grid, random)
    if row:
        row.insert(_any(row, random), row[_any(row, random)])


def swap_fields(grid: Grid, random: Random) -> None:
    row = _row(grid, random)
    if row:
        first, second = _any(row, random), _any(row, random)
        row[first], row[second] = row[second], row[first]


def lengthen_field(grid: Grid, random: Random) -> None:
    row = _row(grid, random)
    if row:
        row[_any(row, random)] = random.choice(["x", "9", "é"]) * random.choice([300, 5000, _LONG_FIELD])


def delete_rows(grid: Grid, random: Random) -> None:
    """Leave none, one, a few or most of the rows."""
    kept = random.choice([0, 1, 2, 3, 5, 9, max(0, len(grid.rows) - 1)])
    grid.rows[:] = random.sample(grid.rows, min(kept, len(grid.rows)))


def repeat_rows(grid: Grid, random: Random) -> None:
    if grid.rows:
        grid.rows += [list(_row(grid, random)) for _ in range(random.randint(1, 20))]


def repeat_one_row_only(grid: Grid, random: Random) -> None:
    row = _row(grid, random)
    grid.rows[:] = [list(row) for _ in grid.rows]


def repeat_header_as_row(grid: Grid, random: Random) -> None:
    grid.rows.insert(random.randint(0, len(grid.rows)), list(grid.header))


def blank_row(grid: Grid, random: Random) -> None:
    fields = random.choice([[], [""], [" "], [""] * len(grid.header)])
    grid.rows.insert(random.randint(0, len(grid.rows)), fields)


def rename_column(grid: Grid, random: Random) -> None:
    if grid.header:
        grid.header[_any(grid.header, random)] = random.choice(ODD_NAMES)


def repeat_name(grid: Grid, random: Random) -> None:
    if grid.header:
        grid.header[_any(grid.header, random)] = random.choice(grid.header)


def swap_names(grid: Grid, random: Random) -> None:
    random.shuffle(grid.header)


def delete_name(grid: Grid, random: Random) -> None:
    if grid.header:
        del grid.header[_any(grid.header, random)]


def delete_column(grid: Grid, random: Random) -> None:
    place = _any(grid.header, random)
    for row in [grid.header, *grid.rows]:
        del row[place : place + 1]


def add_column(grid: Grid, random: Random) -> None:
    """Put a column of odd values at the end, under an odd name."""
    grid.header.append(random.choice(ODD_NAMES))
    values = random.sample(ODD_VALUES, random.choice([1, 2, 5]))
    for row in grid.rows:
        row.append(random.choice(values))


def many_columns(grid: Grid, random: Random) -> None:
    for number in range(random.choice([15, 60])):
        grid.header.append(f"x{number}")
        for row in grid.rows:
            row.append(f"{random.gauss(0.0, 1.0):.3f}")


MUTATIONS: list[Callable[[Grid, Random], None]] = [
    *(set_field, set_one_field, set_column, set_part_of_column, set_label, set_label, delete_field, repeat_field),
    *(swap_fields, lengthen_field, delete_rows, repeat_rows, repeat_one_row_only, repeat_header_as_row, blank_row),
    *(rename_column, repeat_name, swap_names, delete_name, delete_column, add_column, many_columns),
]


_PIECES = [
    *(b"\x00", b"\r", b"\n", b"\r\n", b"\n\r", b'"', b'""', b",", b"\t", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\x1a"),
    b"\xef\xbb\xbf",
]
_FOREIGN = [
    *(b"PK\x03\x04", b"\x1f\x8b\x08", b"PAR1", b"\x93NUMPY\x01\x00", b"\xff\xfe", b"\xfe\xff", b"%PDF-1.4", b"{", b"["),
    b"<html>",
]


def damage_bytes(content: bytes, random: Random, n_damages: int, *, is_text: bool) -> tuple[bytes, list[str]]:
    """Return the content with some damages, and their names."""
    names = []
    for _ in range(n_damages):
        damage = random.choice([*DAMAGES, *TEXT_DAMAGES] if is_text else DAMAGES)
        content = damage(content, random)
        names.append(damage.__name__)
    return content, names


def _place(content: bytes, random: Random) -> int:
    # Headers and footers decide most: half of the places are within a few bytes of an end.
    if random.random() < 0.5 and len(content) > 64:
        return random.choice([random.randrange(64), len(content) - 1 - random.randrange(64)])
    return random.randrange(len(content) + 1)


def flip_bits(content: bytes, random: Random) -> bytes:
    changed = bytearray(content)
    for _ in range(random.choice([1, 1, 3, 20])):
        if changed:
            changed[min(_place(content, random), len(changed) - 1)] ^= 1 << random.randrange(8)
    return bytes(changed)


def truncate(content: bytes, random: Random) -> bytes:
    return content[: _place(content, random)]


def behead(content: bytes, random: Random) -> bytes:
    return content[_place(content, random) :]


def cut_out(content: bytes, random: Random) -> bytes:
    start = _place(content, random)
    return content[:start] + content[start + random.choice([1, 2, 10, 100]) :]


def repeat_block(content: bytes, random: Random) -> bytes:
    start = _place(content, random)
    block = content[start : start + random.choice([1, 7, 60, 500])]
    return content[:start] + block * random.choice([2, 5]) + content[start:]


def splice(content: bytes, random: Random) -> bytes:
    """Put one part of the file over another."""
    source, target, length = _place(content, random), _place(content, random), random.choice([4, 30, 200])
    return content[:target] + content[source : source + length] + content[target + length :]


def overwrite(content: bytes, random: Random) -> bytes:
    start, length = _place(content, random), random.choice([1, 4, 32])
    return content[:start] + random.randbytes(length) + content[start + length :]


def foreign_start(content: bytes, random: Random) -> bytes:
    start = random.choice(_FOREIGN)
    return start + content[random.choice([0, len(start)]) :]


def replace_all(content: bytes, random: Random) -> bytes:
    return random.choice([b"", b"\n", b"\r", b"\r\n\r\n", b" ", b"\x00" * 100, random.randbytes(300), *_FOREIGN])


def insert_piece(content: bytes, random: Random) -> bytes:
    for _ in range(random.choice([1, 1, 4])):
        start = _place(content, random)
        content = content[:start] + random.choice(_PIECES) + content[start:]
    return content


def mix_line_ends(content: bytes, random: Random) -> bytes:
    lines, ends = content.split(b"\n"), [b"\n", b"\r\n", b"\r", b"\n\n", b"\n\r"]
    return b"".join(line + random.choice(ends) for line in lines)


def old_line_ends(content: bytes, random: Random) -> bytes:
    return content.replace(b"\n", random.choice([b"\r", b"\r\n", b"\x0b", b"\xe2\x80\xa8"]))


def add_mark(content: bytes, random: Random) -> bytes:
    marks = [b"\xef\xbb\xbf", b"\xef\xbb\xbf" * 2, b"\xff\xfe", b"\xfe\xff", b"\xff\xfe\x00\x00"]
    return random.choice(marks) + content


def change_separators(content: bytes, random: Random) -> bytes:
    first, second = random.sample([b",", b";", b"\t", b"|", b" ", b":"], 2)
    return content.replace(first, second, random.choice([1, 10, -1]))


DAMAGES = [flip_bits, flip_bits, truncate, behead, cut_out, repeat_block, splice, overwrite, foreign_start, replace_all]
TEXT_DAMAGES = [*[insert_piece] * 3, mix_line_ends, old_line_ends, add_mark, change_separators]


@dataclass
class Inputs:
    """A table's file, and what a command needs to be told to read it."""

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
    random: Random, folder: Path, stem: str, kind: str, n_rows: int, *, n_classes: int | None, is_embedding: bool
) -> Inputs:
    """Draw a table and what goes wrong with it; its labels are numbers where ``n_classes`` is None."""
    n_changes, n_damages = random.choice([(0, 0), (1, 0), (1, 0), (2, 0), (4, 0), (0, 1), (0, 1), (0, 2), (1, 1)])
    if is_embedding:
        drawn = make_vectors(random, n_rows, has_classes=n_classes is not None)
        return _embeddings(random, folder / stem, kind, drawn, n_changes, n_damages)
    grid = make_grid(random, n_rows, n_classes=n_classes)
    dialect = draw_dialect(random, kind)
    path, mutated = folder / f"{stem}{dialect.suffix}", grid.copy()
    inputs = Inputs({}, {}, path, LABEL, dialect.options, list(grid.header), [], dialect.is_text)
    if (kind == "parquet" and random.random() < 0.3) or random.random() < 0.02:
        _split_labels(random, inputs, grid, mutated, folder / f"{stem}_labels", n_changes, n_damages)
    inputs.done += mutate_grid(mutated, random, n_changes)
    inputs.clean_files[path] = encode_grid(grid, dialect, Random(0))
    content = encode_grid(mutated, dialect, Random(0)) if n_changes else inputs.clean_files[path]
    if kind == "parquet" and n_changes and random.random() < 0.5:
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


def _embeddings(random: Random, stem: Path, table_format: str, drawn: Any, n_changes: int, n_damages: int) -> Inputs:
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
