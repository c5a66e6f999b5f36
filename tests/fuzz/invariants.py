"""What must hold after every command, whatever the files are; each function returns sentences about what does not."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from accous.exceptions import AccousError
from accous.table.model import TableModel, load_table_model
from tests.fuzz.running import Run

__all__ = [
    "files_in",
    "loaded",
    "problems_of_folder",
    "problems_of_json",
    "problems_of_predictions",
    "problems_of_report",
    "problems_of_run",
]

_PROBLEM_SIGNS = ("Traceback", "panicked", "Exception ignored")
_FIGURES = re.compile(r'<script type="application/json" id="figures">(.*?)</script>', re.DOTALL)
_LOCK = ".accous.lock"


def problems_of_run(run: Run) -> list[str]:
    """The exit code is documented; a failure is one sentence; nothing leaks from inside."""
    if run.escaped:
        return [f"an exception escaped: {run.escaped}"]
    problems = [f"a warning leaked: {warning}" for warning in run.warned]
    problems += [f"{sign!r} on stderr: {run.err}" for sign in _PROBLEM_SIGNS if sign in run.err]
    if run.exit_code not in (0, 1, 2):
        problems.append(f"the exit code is {run.exit_code}")
    lines = run.err.splitlines()
    sentences = [line for line in lines if line.startswith("accous: ")]
    is_quiet = "-q" in run.arguments
    if run.exit_code == 0 and (sentences or (is_quiet and lines)):
        problems.append(f"something on stderr though it went well: {run.err!r}")
    if run.exit_code in (1, 2):
        is_one = len(sentences) == 1 and lines[-1] == sentences[0] and (len(lines) == 1 or not is_quiet)
        if not is_one or not sentences[0].endswith((".", "?")):
            problems.append(f"not one sentence on stderr: {run.err!r}")
        elif not all(character.isprintable() for character in sentences[0]):
            problems.append(f"characters that a terminal obeys in {sentences[0]!r}")
    return problems


def problems_of_json(text: str) -> list[str]:
    """The text is JSON, without NaN and infinity, which JSON does not have."""
    try:
        json.loads(text, parse_constant=_refuse)
    except ValueError as error:
        return [f"no JSON ({error}): {text[:300]!r}"]
    return []


def problems_of_report(path: Path) -> list[str]:
    """The page is whole: one place with figures, which are JSON, and nothing left to fill in."""
    page = path.read_text(encoding="utf-8")
    found = _FIGURES.findall(page)
    if len(found) != 1 or not page.rstrip().endswith("</html>"):
        return [f"the report has {len(found)} places for figures"]
    return problems_of_json(found[0])


def problems_of_predictions(path: Path, n_bytes: int, classes: list[str], kept: list[str], n_rows: int) -> list[str]:
    """Every row is there, and what is predicted is possible: classes, or numbers where ``classes`` is empty."""
    try:
        frame = _read(path, n_bytes)
    except (pl.exceptions.PolarsError, ValueError) as error:
        return [f"the predictions cannot be read: {error}"]
    if frame.height != n_rows:
        return [f"there are {frame.height} rows of predictions, and {n_rows} were read"]
    if not n_rows:
        return []
    found = [f"p_{label}" for label in classes] if classes else ["low", "high"]
    names = ["line", *kept, "round", "prediction", *found, "ratio"]
    if frame.columns != names:
        return [f"the predictions have the columns {frame.columns}, not {names}"]
    ratios = frame["ratio"].cast(pl.Float64).to_numpy()
    problems = _problems_of_classes(frame, classes) if classes else _problems_of_numbers(frame)
    if not np.isfinite(ratios).all() or (ratios < 0).any():
        problems.append("ratios are no numbers of at least 0")
    return problems


def _problems_of_classes(frame: pl.DataFrame, classes: list[str]) -> list[str]:
    """Classes are known ones; probabilities add up to 1."""
    shares = frame.select(f"^{re.escape(f'p_{label}')}$" for label in classes).cast(pl.Float64).to_numpy()
    problems = []
    if (
        not np.isfinite(shares).all()
        or (shares < 0).any()
        or (np.abs(shares.sum(axis=1) - 1) > 1e-6 * len(classes)).any()
    ):
        problems.append("probabilities do not add up to 1")
    unknown = set(frame["prediction"].cast(pl.String).to_list()) - set(classes)
    return problems + ([f"unknown classes are predicted: {unknown}"] if unknown else [])


def _problems_of_numbers(frame: pl.DataFrame) -> list[str]:
    """Numbers are finite, and lie within their intervals; with few rows these have no end, or there are none."""
    texts = frame.select("prediction", "low", "high").cast(pl.String).with_columns(pl.all().replace("", None))
    predicted, low, high = texts.cast(pl.Float64).fill_null(np.nan).to_numpy().T
    if not np.isfinite(predicted).all():
        return ["predicted numbers are not finite"]
    if not np.array_equal(np.isnan(low), np.isnan(high)):
        return ["an interval has one end only"]
    is_outside = (low > predicted) | (predicted > high)
    return ["predicted numbers are outside their intervals"] if is_outside.any() else []


def problems_of_folder(before: TableModel, folder: Path) -> list[str]:
    """The folder loads, and holds what it held or a later round."""
    try:
        after = loaded(folder)
    except AccousError as error:
        return [f"the model's folder does not load any more: {error}"]
    if after.model.n_rounds_ < before.model.n_rounds_:
        return [f"the model went back from round {before.model.n_rounds_} to {after.model.n_rounds_}"]
    is_same = np.array_equal(after.model.reference_weight_, before.model.reference_weight_)
    if after.model.n_rounds_ == before.model.n_rounds_ and not is_same:
        return ["the model has changed without a round"]
    if after.history.n_rounds != after.model.n_rounds_:
        return [f"the history has {after.history.n_rounds} rounds of {after.model.n_rounds_}"]
    return [] if np.isfinite(after.model.reference_weight_).all() else ["weights are not finite"]


def loaded(folder: Path) -> TableModel:
    """The table_model in a folder, to look at only: one that was loaded lately is not loaded again."""
    key = tuple(sorted(files_in(folder).items()))
    if key not in _lately:
        if len(_lately) > 200:
            del _lately[next(iter(_lately))]
        _lately[key] = load_table_model(folder)
    return _lately[key]


_lately: dict[tuple[tuple[str, bytes], ...], TableModel] = {}


def files_in(folder: Path) -> dict[str, bytes]:
    """All files of a folder by their names, but the lock."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and path.name != _LOCK}


def _read(path: Path, n_bytes: int) -> pl.DataFrame:
    if path.suffix == ".parquet":
        return pl.read_parquet(path)
    content = path.read_bytes()[:n_bytes].decode()
    if path.suffix == ".jsonl":
        rows = [json.loads(line, parse_constant=_refuse) for line in content.splitlines()]
        return pl.DataFrame({name: [row[name] for row in rows] for name in (rows[0] if rows else ())}, strict=False)
    separator = "\t" if path.suffix == ".tsv" else ","
    # Read by another library than the one that wrote it.
    limit = csv.field_size_limit(1 << 30)
    try:
        header, *lines = csv.reader(io.StringIO(content, newline=""), delimiter=separator) if content else [[]]
    finally:
        csv.field_size_limit(limit)
    return pl.DataFrame(dict(zip(header, zip(*lines, strict=True), strict=True)) if lines else {})


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")
