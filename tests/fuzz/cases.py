"""Case K of seed S: always the same files and commands."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import polars as pl

import accous
from accous.table.readers import partial_path
from accous.table.store import STORE_NAME
from tests.fuzz.damage import Inputs, damage_bytes, draw_inputs, mutate_grid
from tests.fuzz.running import (
    RATIOS,
    Run,
    base_model,
    files_in,
    loaded,
    problems_of_folder,
    problems_of_json,
    problems_of_predictions,
    problems_of_report,
    problems_of_run,
    put_model,
    run_command,
)
from tests.fuzz.tables import (
    FORMATS,
    LABEL,
    Dialect,
    Grid,
    draw_dialect,
    encode_array,
    encode_grid,
    make_grid,
    make_vectors,
)


class Scene:
    """A case at work: its folder, its random numbers, the commands it has run, and what was wrong with them."""

    def __init__(self, random: Random, folder: Path, table_format: str) -> None:
        self.random, self.folder, self.table_format = random, folder, table_format
        self.model = folder / "model"
        self.predicts_numbers = False
        self.runs: list[Run] = []
        self.problems: list[str] = []
        self.done: list[str] = []

    def run(self, *arguments: object, stdin: Path | None = None) -> Run:
        """Run a command, and check what must hold for every command."""
        run = run_command([str(argument) for argument in arguments], stdin)
        self.runs.append(run)
        self.problems += problems_of_run(run)
        if run.exit_code == 0 and "--json" in run.arguments:
            self.problems += problems_of_json(run.out)
        return run

    def expect(self, is_so: bool, what: str) -> None:
        """Take down what is not so."""
        if not is_so:
            self.problems.append(what)

    def put_model(self, *, is_embedding: bool, is_experienced: bool | None = None) -> None:
        """Put a model that works into the folder, of classes or of numbers."""
        ratio = self.random.choice(RATIOS) if self.random.random() < 0.2 else "accous"
        kinds = ["embedding", "embedding with numbers"] if is_embedding else ["table", "three classes", "numbers"]
        kind = self.random.choice(kinds)
        self.predicts_numbers = "numbers" in kind
        if is_experienced is None:
            is_experienced = self.random.random() < 0.3
        put_model(base_model(kind, ratio, is_experienced=is_experienced), self.model)

    @property
    def n_classes(self) -> int | None:
        """For rows that go with the model: how many classes they have, or None for numbers."""
        return None if self.predicts_numbers else 2

    def draw(self, stem: str, n_rows: int, *, is_embedding: bool | None = None, **labels: int | None) -> Inputs:
        """Draw a table for the model, or with other labels."""
        how = {"n_classes": self.n_classes, **labels}
        how["is_embedding"] = self.table_format == "npy" if is_embedding is None else is_embedding
        return draw_inputs(self.random, self.folder, stem, self.table_format, n_rows, **how)

    def write(self, inputs: Inputs) -> None:
        """Write the mutated files of a case."""
        inputs.write()
        self.done += inputs.done

    def check_inputs(self, inputs: Inputs) -> None:
        """No command changes what it reads."""
        changed = [path.name for path, content in inputs.files.items() if path.read_bytes() != content]
        self.expect(not changed, f"input files were changed: {changed}")

    def check_predictions(self, output: Path, kept: list[str]) -> None:
        """What the last run has written is what it says it has."""
        table_model = loaded(self.model)
        job = table_model.job
        if job is None or job.spec.output != str(output):
            return
        text = output
        if output.suffix == ".parquet" and not job.is_finished:
            text = Path(partial_path(str(output)))
        if not text.exists():
            self.expect(job.n_rows == 0, f"{job.n_rows} rows were read, and there are no predictions")
            return
        classes = table_model.form.names
        self.problems += problems_of_predictions(text, job.n_output_bytes, classes, kept, job.n_rows)

    def look_at_model(self) -> None:
        """Inspect the model and report on it, as it is now."""
        if self.random.random() < 0.5:
            run = self.run("status", self.model, "--json")
            self.expect(run.exit_code != 0 or "rounds" in json.loads(run.out), "status --json has no rounds")
        elif self.random.random() < 0.5:
            self.run("status", self.model)
        if self.random.random() < 0.3:
            report = self.folder / "report.html"
            if self.run("report", self.model, "-o", report, "--force").exit_code == 0:
                self.problems += problems_of_report(report)


def fit_a_reference(scene: Scene) -> None:
    """Fit; a model that comes of it must work, and one that was there before must stay if none does."""
    random = scene.random
    is_embedding = scene.table_format == "npy" or (scene.table_format == "parquet" and random.random() < 0.2)
    n_rows, n_classes = random.choice([20, 30, 40]), random.choice([2, 3, 5, None])
    inputs = scene.draw("reference", n_rows, n_classes=n_classes, is_embedding=is_embedding)
    scene.write(inputs)
    is_there = random.random() < 0.15
    if is_there:
        scene.put_model(is_embedding=is_embedding)
    before = files_in(scene.model) if is_there else {}
    options = _draw_options(scene, inputs)
    rejects = scene.folder / "rejects.csv"
    if is_foreign := "--rejects" in options and random.random() < 0.3:
        rejects.write_text("not ours")
    stdin = inputs.path if inputs.is_text and random.random() < 0.08 else None
    table = [*inputs.options, *(["--format", scene.table_format] if stdin else [])]
    reference = "-" if stdin else inputs.path
    name = random.choice(["--label", "--target"])
    run = scene.run("fit", reference, name, inputs.label, "-o", scene.model, *table, *options, stdin=stdin)
    scene.check_inputs(inputs)
    if is_foreign and "--force" not in options:
        scene.expect(rejects.read_text() == "not ours", "rejects replaced a file of somebody else's")
    if run.exit_code != 0:
        after = files_in(scene.model) if scene.model.exists() else {}
        scene.expect(after == before, "a fit that failed left something in the model's folder")
        return
    _use_model(scene, inputs)


def _use_model(scene: Scene, inputs: Inputs) -> None:
    loaded(scene.model)
    scene.look_at_model()
    if scene.random.random() < 0.4:
        output = scene.folder / "predictions.csv"
        options = ["--batch-size", "4", *scene.random.choice([[], ["--on-bad-row", "skip"]]), *inputs.options]
        run = scene.run("adapt", scene.model, inputs.path, "-o", output, "-q", *options)
        if run.exit_code == 0:
            scene.check_predictions(output, [])
        scene.look_at_model()


def _draw_options(scene: Scene, inputs: Inputs) -> list[str]:
    random, rejects = scene.random, ["--rejects", str(scene.folder / "rejects.csv")]
    of_columns = [
        (0.2, lambda: ["--categorical", random.choice(inputs.columns)]),
        (0.1, lambda: ["--drop", random.choice(inputs.columns)]),
    ]
    drawn: list[tuple[float, Callable[[], list[str]]]] = [
        (0.6, lambda: ["-q"]),
        (0.4, lambda: ["--json"]),
        (0.4, lambda: ["--on-bad-row", "skip", *(rejects if random.random() < 0.5 else [])]),
        (0.3, lambda: ["--ratio", random.choice(RATIOS)]),
        *(of_columns if inputs.columns else []),
        (0.1, lambda: ["--C", random.choice(["1e-6", "1e90", "1e300", "0", "-1", "nan", "inf"])]),
        (0.15, lambda: ["--force"]),
        # Most cases leave it to the labels what is predicted.
        (0.2, lambda: ["--task", random.choice(["classification", "regression"])]),
        (0.05, lambda: ["--alpha", random.choice(["1e-300", "1e300", "0", "-1", "nan"])]),
    ]
    return [option for share, draw in drawn if random.random() < share for option in draw()]


_BAD_LINES = [
    *("1", "a,b", "x;y;z", '"', "{", "[]", "1,2,3,4,5,6,7", "one,2,a,2024-01-01,class 0", ",,,not a date,", "\x00")
]


@dataclass
class _Asked:
    """How ``adapt`` is called."""

    inputs: Inputs
    output: Path
    options: list[str]
    kept: list[str]
    stdin: Path | None = None


def adapt_to_a_stream(scene: Scene) -> None:
    """Follow a mutated stream; if that fails, the clean one can be followed with the same model."""
    asked = _draw(scene)
    before = loaded(scene.model)
    scene.write(asked.inputs)
    is_foreign = scene.random.random() < 0.06
    if is_foreign:
        asked.output.write_text("not ours")
    rejects = scene.folder / "rejects.csv"
    if is_reject := "--rejects" in asked.options and scene.random.random() < 0.1:
        rejects.write_text("not ours")
    _predict(scene, asked)
    run = _adapt(scene, asked)
    scene.check_inputs(asked.inputs)
    scene.expect(not is_reject or rejects.read_text() == "not ours", "rejects replaced a file of somebody else's")
    if is_foreign:
        scene.expect(asked.output.read_text() == "not ours", "predictions replaced a file of somebody else's")
        scene.expect(run.exit_code != 0, "a file of somebody else's was taken for predictions")
        return
    scene.problems += problems_of_folder(before, scene.model)
    if scene.problems:
        return
    scene.check_predictions(asked.output, asked.kept)
    # A pipe that has ended is a new stream when it comes again.
    if (run.exit_code == 0 and asked.stdin is None) or (run.exit_code != 0 and scene.random.random() < 0.3):
        again = _adapt(scene, asked)
        codes = f"exit code {run.exit_code}, and {again.exit_code} when run again"
        scene.expect(again.exit_code == run.exit_code, codes)
        scene.check_predictions(asked.output, asked.kept)
    if run.exit_code != 0:
        asked.inputs.write(is_clean=True)
        run = _adapt(scene, asked, "--new", "--force")
        scene.expect(run.exit_code == 0 or _has_other_labels(run), f"the clean stream cannot be followed: {run.err}")
        scene.check_predictions(asked.output, asked.kept)
    scene.look_at_model()


def repair_a_stream(scene: Scene) -> None:
    """Fail at a bad row, remove it, run the same command again: the predictions are those of the clean stream."""
    asked = _draw(scene, is_plain=True)
    path = asked.inputs.path
    files = {name.name: name.read_bytes() for name in scene.model.iterdir()}
    asked.inputs.write(is_clean=True)
    run = _adapt(scene, asked)
    if run.exit_code != 0:
        scene.expect(_has_other_labels(run), "a clean stream failed")
        return
    expected = asked.output.read_bytes()
    asked.output.unlink()
    for name in scene.model.iterdir():
        name.unlink()
    for name, content in files.items():
        (scene.model / name).write_bytes(content)
    lines = path.read_bytes().split(b"\n")
    bad = scene.random.choice(_BAD_LINES).encode()
    place = scene.random.randint(1, len(lines))
    scene.done.append(f"line {bad!r} before line {place + 1}")
    path.write_bytes(b"\n".join([*lines[:place], bad, *lines[place:]]))
    if _adapt(scene, asked).exit_code == 0:
        return  # no bad row for this format
    path.write_bytes(b"\n".join(lines))
    run = _adapt(scene, asked)
    scene.expect(run.exit_code == 0, f"the repaired stream cannot be followed: {run.err}")
    if run.exit_code == 0:
        scene.expect(asked.output.read_bytes() == expected, "the repaired stream gives other predictions")


def grow_a_stream(scene: Scene) -> None:
    """Follow the beginning of a stream, then all of it, cut anywhere; what was written stays what the model says."""
    asked = _draw(scene, is_plain=True)
    path = asked.inputs.path
    content = asked.inputs.clean_files[path]
    asked.inputs.write(is_clean=True)
    for _ in range(scene.random.choice([1, 2, 3])):
        n_bytes = scene.random.randint(0, len(content))
        scene.done.append(f"the first {n_bytes} bytes of {len(content)}")
        path.write_bytes(content[:n_bytes])
        before = loaded(scene.model)
        _adapt(scene, asked)
        scene.problems += problems_of_folder(before, scene.model)
        scene.check_predictions(asked.output, asked.kept)
    path.write_bytes(content)
    run = _adapt(scene, asked)
    is_other = any(text in run.err for text in ("is not the table that was read before", "labels for the"))
    is_good = run.exit_code == 0 or is_other or _has_other_labels(run)
    scene.expect(is_good, f"the whole stream cannot be followed: {run.err}")
    scene.check_predictions(asked.output, asked.kept)


def _draw(scene: Scene, *, is_plain: bool = False) -> _Asked:
    """Draw a model, a stream and options that are right for the stream without its mutations."""
    random = scene.random
    is_embedding = scene.table_format == "npy" or (scene.table_format == "parquet" and random.random() < 0.2)
    scene.put_model(is_embedding=is_embedding)
    inputs = scene.draw("stream", random.choice([1, 20, 30]), is_embedding=is_embedding)
    # A text with its labels in a file of their own is always refused.
    has_label = random.random() < 0.5 and not (inputs.is_text and inputs.label not in inputs.columns)
    options = ["--label", inputs.label] if has_label else []
    options += random.choice([[], ["--learn-first"]]) + inputs.options
    kept = random.sample(inputs.columns, random.choice([0, 0, 1, 2])) if inputs.columns else []
    options += ["--keep", ",".join(kept)] if kept else []
    by = random.choice(inputs.columns) if inputs.columns and random.random() < 0.25 else None
    options += ["--by", by] if by else ["--batch-size", random.choice(["1", "3", "5", "10", "50"])]
    options += random.choice([[], [], ["--save-every", "1"]])
    options += random.choice([["-q"], ["-q"], []]) + random.choice([[], [], ["--json"]])
    suffix = random.choice([".csv", ".csv", ".csv", ".tsv", ".jsonl", ".parquet"])
    stdin = None
    if not is_plain:
        if random.random() < 0.4:
            options += ["--on-bad-row", "skip", "--rejects", str(scene.folder / "rejects.csv")]
        options += random.choice([[], [], ["--unknown-category", "bad"]])
        stdin = inputs.path if inputs.is_text and random.random() < 0.08 else None
    elif scene.table_format == "parquet" or suffix == ".parquet":
        suffix = ".csv"
    return _Asked(inputs, scene.folder / f"predictions{suffix}", options, kept, stdin)


def _adapt(scene: Scene, asked: _Asked, *more: str) -> Run:
    stream = "-" if asked.stdin else asked.inputs.path
    options = [*asked.options, *(["--format", scene.table_format] if asked.stdin else []), *more]
    return scene.run("adapt", scene.model, stream, "-o", asked.output, *options, stdin=asked.stdin)


def _has_other_labels(run: Run) -> bool:
    """Whether the labels drawn for the stream have nothing to do with the classes of the model that was drawn."""
    return "labels is a class of the model" in run.err


def _predict(scene: Scene, asked: _Asked) -> None:
    """Predict the same rows without learning: the model stays, the store may grow, and a failure leaves no output."""
    files, output = files_in(scene.model) | {STORE_NAME: b""}, scene.folder / "only_predicted.csv"
    options, given = [], iter(asked.options)
    for option in given:
        if option in ("--label", "--by", "--batch-size", "--save-every", "--rejects"):
            next(given)
        elif option != "--learn-first":
            options.append(option)
    run = scene.run("predict", scene.model, asked.inputs.path, "-o", output, *options)
    scene.expect(files_in(scene.model) | {STORE_NAME: b""} == files, "predict changed the model")
    scene.expect(output.is_file() == (run.exit_code == 0), "predict left an output behind, or none")
    scene.expect(not list(scene.folder.glob("*.predicting*")), "predict left an unfinished output behind")


def use_a_damaged_folder(scene: Scene) -> None:
    """Run commands on a damaged model; each fails with a sentence, and none makes the damage worse."""
    random = scene.random
    scene.put_model(is_embedding=scene.table_format == "npy", is_experienced=True)
    inputs = scene.draw("stream", 20)
    inputs.write(is_clean=True)
    damage = random.choice(_DAMAGES)
    scene.done.append(damage.__name__)
    damage(scene.model, random)
    output, report = scene.folder / "predictions.csv", scene.folder / "report.html"
    label = ["--label", inputs.label]
    commands: list[list[object]] = [
        ["status", scene.model, "--json"],
        ["status", scene.model, "--by", "x"],
        ["report", scene.model, "-o", report, "-q"],
        ["adapt", scene.model, inputs.path, "-o", output, "-q", *inputs.options],
        ["labels", scene.model, inputs.path, "-q", *inputs.options],
        ["fit", inputs.path, *label, "-o", scene.model, "-q", *inputs.options],
        ["fit", inputs.path, *label, "-o", scene.model, "-q", "--force", *inputs.options],
    ]
    for command in random.sample(commands, 3):
        # Who opens the store takes back what no saved model has.
        before = files_in(scene.model) | {STORE_NAME: b""} if scene.model.is_dir() else {}
        run = scene.run(*command)
        after = files_in(scene.model) | {STORE_NAME: b""} if scene.model.is_dir() else {}
        scene.expect(run.exit_code == 0 or after == before, f"{command[0]} failed and changed the folder")
        if command[0] == "report" and run.exit_code == 0:
            scene.problems += problems_of_report(report)


def _some_file(folder: Path, random: Random) -> Path:
    return random.choice(sorted(path for path in folder.iterdir() if path.is_file()))


def damage_file(folder: Path, random: Random) -> None:
    path = _some_file(folder, random)
    path.write_bytes(damage_bytes(path.read_bytes(), random, 1, is_text=path.suffix == ".json")[0])


def delete_file(folder: Path, random: Random) -> None:
    _some_file(folder, random).unlink()


def delete_all(folder: Path, random: Random) -> None:
    for path in folder.iterdir():
        path.unlink()
    if random.random() < 0.5:
        folder.rmdir()


def file_for_folder(folder: Path, random: Random) -> None:
    delete_all(folder, Random(0))
    if folder.exists():
        folder.rmdir()
    folder.write_bytes(random.choice([b"", b"{}", b"x"]))


def folder_for_file(folder: Path, random: Random) -> None:
    path = _some_file(folder, random)
    path.unlink()
    path.mkdir()


def foreign_manifest(folder: Path, random: Random) -> None:
    contents = [b"{}", b"[]", b"null", b'{"format": "accous"}', b'{"format": "other", "version": 1}', b"", b"NaN"]
    (folder / "manifest.json").write_bytes(random.choice([*contents, b"[" * 100_000]))


def foreign_file(folder: Path, random: Random) -> None:
    (folder / random.choice(["notes.txt", "state-1-0123456789abcdef.npz", "predictions.csv"])).write_bytes(b"not ours")


def swap_files(folder: Path, random: Random) -> None:
    first, second = random.sample(sorted(path for path in folder.iterdir() if path.is_file()), 2)
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)


def files_of_another_model(folder: Path, random: Random) -> None:
    others = base_model("three classes", "accous", is_experienced=False)
    for path in folder.iterdir():
        same_kind = [name for name in others if name.split("-")[0] == path.name.split("-")[0]]
        if same_kind and random.random() < 0.5:
            path.write_bytes(others[same_kind[0]])


def model_without_columns(folder: Path, random: Random) -> None:
    """A model saved from Python, which has no preprocessing."""
    delete_all(folder, Random(1))
    model = accous.OnlineDensityRatio().fit(np.eye(4)) if random.random() < 0.5 else None
    accous.save(model or accous.AdaptiveClassifier().fit(np.eye(4), [0, 1, 0, 1]), folder)


_DAMAGES: list[Callable[[Path, Random], None]] = [
    *(damage_file, damage_file, damage_file, damage_file, delete_file, delete_all, file_for_folder, folder_for_file),
    *(foreign_manifest, foreign_manifest, foreign_file, swap_files, files_of_another_model, model_without_columns),
]


_OUTPUT = "predictions.csv"


def measure_late_labels(scene: Scene) -> None:
    """Give late labels of a stream: each counts once, whatever the file; then the clean ones do. The model goes on."""
    labels = _follow_and_draw_labels(scene)
    n_rows = loaded(scene.model).job.n_rows
    scene.write(labels)
    run = _change_once(scene, labels, "labels", labels.path, *labels.options, key="counted")
    _expect_labels(scene, n_rows)
    labels.write(is_clean=True)
    again = _change_once(scene, labels, "labels", labels.path, *labels.options, key="counted")
    scene.expect(again.exit_code == 0, f"clean labels cannot be counted: {again.err}")
    _expect_labels(scene, n_rows)
    if run.exit_code != 0 and again.exit_code == 0:
        n_labelled = _n_labelled(scene)
        scene.expect(n_labelled == n_rows, f"{n_labelled} labels count for {n_rows} rows")
    _go_on(scene)


def backtest_a_reference(scene: Scene) -> None:
    """Replay a mutated table: nothing is written but the picture, and the clean table can be replayed."""
    random = scene.random
    inputs = scene.draw("reference", random.choice([40, 100, 120]), n_classes=random.choice([2, 3, None]))
    scene.write(inputs)
    picture = scene.folder / "backtest.svg"
    options = random.choice([[], ["--ordered"], ["--ordered"], ["--time", "day"]])
    options += ["--batch-size", random.choice(["1", "5", "10", "1000"])] if random.random() < 0.5 else []
    options += random.choice([[], [], ["--task", "regression"], ["--task", "classification"]])
    options += random.choice([["--json"], []]) + random.choice([["-q"], []])
    options += ["--plot", str(picture)] if random.random() < 0.03 else []
    command = ["backtest", inputs.path, "--label", inputs.label, *inputs.options, *options]
    run = scene.run(*command)
    scene.check_inputs(inputs)
    expected = {path.name for path in inputs.files}
    expected |= {picture.name} if run.exit_code == 0 and "--plot" in options else set()
    scene.expect({path.name for path in scene.folder.iterdir()} == expected, "backtest wrote or deleted a file")
    inputs.write(is_clean=True)
    # A text with its labels in a file of their own is always refused.
    if run.exit_code != 0 and not (inputs.is_text and inputs.label not in inputs.columns):
        clean = scene.run("backtest", inputs.path, "--label", inputs.label, *inputs.options, "--ordered", "-q")
        is_short = "needs at least 100 labelled rows" in clean.err
        scene.expect(clean.exit_code == 0 or is_short, f"the clean table cannot be replayed: {clean.err}")


def _follow_and_draw_labels(scene: Scene) -> Inputs:
    """Follow a clean stream, and draw a file with the labels of its rows, found by line, by id or by a key."""
    random = scene.random
    is_embedding = scene.table_format == "npy"
    # One file has been predicted, so that its lines name its rows.
    scene.put_model(is_embedding=is_embedding, is_experienced=False)
    n_rows = random.choice([1, 12, 30])
    if is_embedding:
        rows, values = make_vectors(random, n_rows, has_classes=not scene.predicts_numbers)
        stream = scene.folder / "stream.npy"
        stream.write_bytes(encode_array(np.array(rows)))
        texts, options = [str(value) for value in values], list[str]()
    else:
        grid, dialect = make_grid(random, n_rows, n_classes=scene.n_classes), draw_dialect(random, scene.table_format)
        stream, texts = scene.folder / f"stream{dialect.suffix}", [row.pop() for row in grid.rows]
        grid.header[-1:] = ["id"]
        grid.rows = [[*row, f"k{number}"] for number, row in enumerate(grid.rows)]
        stream.write_bytes(encode_grid(grid, dialect, random))
        options = dialect.options + random.choice([[], ["--key", "id"]])
    batch_size = random.choice(["1", "5", "10"])
    adapt = ["adapt", scene.model, stream, "-o", scene.folder / _OUTPUT, "-q", "--batch-size", batch_size]
    run = scene.run(*adapt, *options)
    scene.expect(run.exit_code == 0, f"a clean stream cannot be followed: {run.err}")
    return _draw_label_file(scene, texts, has_key="--key" in options)


def _draw_label_file(scene: Scene, texts: list[str], *, has_key: bool) -> Inputs:
    random = scene.random
    name = "id" if has_key else random.choice(["line", "id"])
    places = pl.read_csv(scene.folder / _OUTPUT, infer_schema=False)[name].to_list()
    grid = Grid([name, LABEL], [list(row) for row in zip(places, texts, strict=True)])
    named = scene.table_format if scene.table_format != "npy" else "csv"
    dialect = draw_dialect(random, named) if random.random() < 0.5 else Dialect(random.choice(["csv", "jsonl"]))
    path, mutated = scene.folder / f"labels{dialect.suffix}", grid.copy()
    n_changes, n_damages = random.choice([(0, 0), (1, 0), (1, 0), (2, 0), (4, 0), (0, 1)])
    done = mutate_grid(mutated, random, n_changes)
    content, names = damage_bytes(encode_grid(mutated, dialect, random), random, n_damages, is_text=dialect.is_text)
    options = dialect.options + (["--key", "id"] if has_key else [])
    clean = encode_grid(grid, dialect, random)
    return Inputs({path: content}, {path: clean}, path, LABEL, options, grid.header, done + names, dialect.is_text)


def _change_once(scene: Scene, given: Inputs, command: str, *arguments: object, key: str) -> Run:
    """Run a command that changes the model; a failure, or the same file once more, leaves it as it is."""
    before, files = loaded(scene.model), files_in(scene.model)
    predictions = (scene.folder / _OUTPUT).read_bytes()
    run = scene.run(command, scene.model, *arguments, "--json", *scene.random.choice([[], ["-q"]]))
    if run.exit_code != 0:
        scene.expect(files_in(scene.model) == files, f"{command} failed and changed the folder")
    else:
        scene.problems += problems_of_folder(before, scene.model)
        files = files_in(scene.model)
        again = scene.run(command, scene.model, *arguments, "--json")
        scene.expect(again.exit_code == 0, f"{command} failed when run again: {again.err}")
        if again.exit_code == 0:
            scene.expect(json.loads(again.out)[key] == 0, f"{command} took rows twice: {again.out}")
            scene.expect(files_in(scene.model) == files, f"{command} took nothing and changed the folder")
    changed = [path.name for path, content in given.clean_files.items() if not path.exists() and content]
    scene.expect(not changed, f"input files were deleted: {changed}")
    scene.expect((scene.folder / _OUTPUT).read_bytes() == predictions, f"{command} changed the predictions")
    return run


def _n_labelled(scene: Scene) -> int:
    labelled = loaded(scene.model).model.state_.labelled
    return 0 if labelled is None else len(labelled)


def _expect_labels(scene: Scene, n_rows: int) -> None:
    n_labelled = _n_labelled(scene)
    scene.expect(n_labelled <= n_rows, f"{n_labelled} labels count for {n_rows} rows")


def _go_on(scene: Scene) -> None:
    """The model can follow a clean stream, and be looked at."""
    inputs = scene.draw("next", 10)
    inputs.write(is_clean=True)
    output = scene.folder / "next_predictions.csv"
    run = scene.run("adapt", scene.model, inputs.path, "-o", output, "-q", "--new", *inputs.options)
    scene.expect(run.exit_code == 0, f"the model cannot go on: {run.err}")
    if run.exit_code == 0:
        scene.check_predictions(Path(output), [])
    weights = loaded(scene.model).model.reference_weight_
    scene.expect(bool(np.isfinite(weights).all()), "weights are not finite")
    scene.look_at_model()


# A plot, the formats it is for, and how often it comes.
_TEXTS = ("csv", "tsv", "jsonl")
PLOTS: list[tuple[Callable[[Scene], None], tuple[str, ...], int]] = [
    (fit_a_reference, FORMATS, 6),
    (adapt_to_a_stream, FORMATS, 9),
    (repair_a_stream, _TEXTS, 1),
    (grow_a_stream, FORMATS, 2),
    (use_a_damaged_folder, FORMATS, 3),
    (measure_late_labels, FORMATS, 3),
    (backtest_a_reference, FORMATS, 2),
]
# Every save puts its files on the disk; in memory that takes no time.
_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Outcome:
    """What became of a case."""

    number: int
    plot: str
    table_format: str
    done: list[str]
    commands: list[str]
    problems: list[str]


def draw_plot(random: Random, table_format: str) -> Callable[[Scene], None]:
    """Draw what happens in a case: the first thing that it draws."""
    return random.choice([plot for plot, formats, weight in PLOTS if table_format in formats for _ in range(weight)])


def run_case(seed: int, number: int, *, kept: Path | None = None) -> tuple[Outcome, list[Run]]:
    """Run a case in a folder of its own; ``kept`` is a folder to leave it in."""
    random = Random(f"{seed}/{number}")
    table_format = FORMATS[number % len(FORMATS)]
    plot = draw_plot(random, table_format)
    place = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    folder = Path(kept or tempfile.mkdtemp(prefix="accous-fuzz-", dir=place)).resolve()
    folder.mkdir(exist_ok=True)
    scene = Scene(random, folder, table_format)
    before = Path.cwd()
    os.chdir(folder)
    try:
        plot(scene)
    except Exception:
        scene.problems.append(f"the case itself failed: {traceback.format_exc()}")
    finally:
        os.chdir(before)
        if kept is None:
            shutil.rmtree(folder)
    commands = [run.arguments[0] for run in scene.runs]
    return Outcome(number, plot.__name__, table_format, scene.done, commands, scene.problems), scene.runs


def run_part(seed: int, numbers: range) -> list[Outcome]:
    """Run cases one after the other, in a process that may be another one."""
    return [run_case(seed, number)[0] for number in numbers]
