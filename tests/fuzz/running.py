"""Runs a command in this process, and tells what does not hold afterwards; models to begin with."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from types import FrameType
from typing import IO, Any

import numpy as np
import polars as pl
import typer.main

import accous
from accous.cli import main
from accous.exceptions import AccousError
from accous.table.columns import Choices
from accous.table.fit import make_ratio, read_reference
from accous.table.model import TableModel, load_table_model, save_table_model
from accous.table.readers import open_table, with_labels
from tests.compile_kernels import compile_kernels
from tests.fuzz.tables import Dialect, encode_grid, make_grid, make_vectors

# Of processor time: on a busy machine, a command may take much longer by the clock.
_MOST_SECONDS = 120
# Python shows these to developers only.
_HIDDEN = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)


class _TookTooLong(BaseException):
    """A command that does not end; no handler of errors may take it for one of its own."""


@dataclass(frozen=True)
class Run:
    """What became of a command."""

    arguments: list[str]
    exit_code: int | None
    out: str
    err: str
    warned: list[str]
    escaped: str


def run_command(arguments: list[str], stdin: Path | None = None) -> Run:
    """Run ``accous`` with these arguments."""
    compile_kernels()
    exit_code, escaped = None, ""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with warnings.catch_warnings(record=True) as seen, _alarm(), _built_once(), _redirected(out, err, stdin):
            warnings.simplefilter("always")
            try:
                exit_code = main(arguments)
            except BaseException:
                escaped = traceback.format_exc()
        shown = [_decoded(file) for file in (out, err)]
    if exit_code == 130:
        raise KeyboardInterrupt
    warned = [f"{each.category.__name__}: {each.message}" for each in seen if not issubclass(each.category, _HIDDEN)]
    return Run(arguments, exit_code, *shown, warned, escaped)


def _decoded(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "backslashreplace")


@contextmanager
def _built_once() -> Iterator[None]:
    """Let typer build its parser once in a process: building it takes a quarter of the time."""
    before = typer.main.get_command
    typer.main.get_command = _get_command
    try:
        yield
    finally:
        typer.main.get_command = before


_get_command = cache(typer.main.get_command)


@contextmanager
def _alarm() -> Iterator[None]:
    def give_up(_number: int, _frame: FrameType | None) -> None:
        raise _TookTooLong(f"took more than {_MOST_SECONDS} seconds of processor time")

    before = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, _MOST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


@contextmanager
def _redirected(out: IO[bytes], err: IO[bytes], stdin: Path | None) -> Iterator[None]:
    """Send both outputs to files, also what a library writes without Python; take the input from a file."""
    before = sys.stdin, sys.stdout, sys.stderr
    for stream in before[1:]:
        stream.flush()
    saved = os.dup(1), os.dup(2)
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    given: Any = Path(os.devnull if stdin is None else stdin).open("rb")  # noqa: SIM115
    sys.stdin = given
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.close()
        given.close()
        sys.stdin, sys.stdout, sys.stderr = before
        for number, descriptor in enumerate(saved, 1):
            os.dup2(descriptor, number)
            os.close(descriptor)


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
    names = [name for name in ["line", "id"] if name not in kept] + [*kept, "round", "prediction", *found, "ratio"]
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
    adds_up = np.isfinite(shares).all() and (np.abs(shares.sum(axis=1) - 1) <= 1e-6 * len(classes)).all()
    problems = [] if adds_up and (shares >= 0).all() else ["probabilities do not add up to 1"]
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
        rows = [json.loads(line, parse_constant=_refuse) for line in content.split("\n") if line]
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


RATIOS = ("accous", "ulsif", "kliep", "kmm", "lr", "olre", "none")
_N_REFERENCE, _N_STREAM = 40, 40


@cache
def base_model(kind: str, ratio: str, *, is_experienced: bool) -> dict[str, bytes]:
    """Return the files of a model."""
    random = Random(f"{kind} {ratio}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        label = _write(folder / "reference", kind, random, _N_REFERENCE)
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
    has_classes = read.task.has_classes
    make_model = accous.AdaptiveClassifier if has_classes else accous.AdaptiveRegressor
    model = make_model(ratio=make_ratio(ratio, seed=0), random_state=0).fit(read.X, read.y)
    settings = {"reference": reference, "n_reference": len(read.y), "ratio": ratio}
    if has_classes:
        settings |= {"accuracy": 0.9, "largest_class": 0.5}
    else:
        settings |= {"task": "regression", "error": 5.0}
    if table.widths:
        settings["widths"] = dict(table.widths)
    save_table_model(TableModel(model=model, encoder=read.encoder, label=label, settings=settings), folder)
