"""Cases of labels: ``labels`` and ``extend`` on a stream that was followed, and ``backtest`` of a labelled table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl

from tests.fuzz.bases import N_REFERENCE
from tests.fuzz.damage import damage_bytes
from tests.fuzz.formats import Dialect, draw_dialect, encode_array, encode_grid
from tests.fuzz.grids import LABEL, Grid, make_grid, make_vectors
from tests.fuzz.inputs import Inputs, draw_inputs
from tests.fuzz.invariants import files_in, loaded, problems_of_folder
from tests.fuzz.mutations import mutate_grid
from tests.fuzz.running import Run
from tests.fuzz.scene import Scene

__all__ = ["backtest_a_reference", "extend_a_reference", "measure_late_labels"]

_OUTPUT = "predictions.csv"
_N_ALWAYS_KEPT = 5  # rows of each class, or rows where numbers are predicted


def measure_late_labels(scene: Scene) -> None:
    """Give late labels of a stream: each counts once, whatever the file; then the clean ones can be counted."""
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
        n_labelled = loaded(scene.model).model.measured_.n_labelled
        scene.expect(n_labelled == n_rows, f"{n_labelled} labels count for {n_rows} rows")
    scene.look_at_model()


def extend_a_reference(scene: Scene) -> None:
    """Let labelled rows, or late labels of a stream, join the reference: each joins once, and the model goes on."""
    random = scene.random
    labels = _follow_and_draw_labels(scene)
    given = labels if random.random() < 0.4 else _draw_labelled_rows(scene)
    scene.write(given)
    options, most = _draw_extend_options(scene)
    rejects = scene.folder / "rejects.csv"
    if is_foreign := "--rejects" in options and random.random() < 0.3:
        rejects.write_text("not ours")
    label = [] if given is labels else ["--label", given.label]
    run = _change_once(scene, given, "extend", given.path, *given.options, *label, *options, key="joined")
    scene.expect(not is_foreign or rejects.read_text() == "not ours", "rejects replaced a file of somebody else's")
    if run.exit_code == 0 and json.loads(run.out)["joined"]:
        n_rows, n_classes = len(loaded(scene.model).model.task_), max(1, len(loaded(scene.model).kind.names))
        scene.expect(n_rows <= max(most, _N_ALWAYS_KEPT * n_classes), f"the reference has {n_rows} rows, over {most}")
    _go_on(scene)


def _draw_extend_options(scene: Scene) -> tuple[list[str], int]:
    """Draw options, and how many rows the reference may have with them."""
    random = scene.random
    options = random.choice([[], [], ["--ordered"], ["--unordered"]])
    options = options + random.choice([[], ["--drop-rows", "least-weight"]])
    if random.random() < 0.5:
        options += ["--on-bad-row", "skip"]
        options += ["--rejects", str(scene.folder / "rejects.csv")] if random.random() < 0.4 else []
    most = random.choice([2, 10, 45, 1000])
    if random.random() < 0.6:
        return [*options, "--max-reference", str(most)], most
    return options, 2 * N_REFERENCE


def backtest_a_reference(scene: Scene) -> None:
    """Replay a mutated table: nothing is written but the picture, and the clean table can be replayed."""
    random = scene.random
    is_embedding = scene.table_format == "npy"
    inputs = draw_inputs(
        random, scene.folder, "reference", scene.table_format, random.choice([40, 100, 120]),
        n_classes=random.choice([2, 3, None]), is_embedding=is_embedding,
    )  # fmt: skip
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
    """Follow a clean stream, and draw a file with the labels of its rows, found by line, by a key or by position."""
    random = scene.random
    is_embedding = scene.table_format == "npy"
    scene.put_model(is_embedding=is_embedding)
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
        options = dialect.options + random.choice([[], ["--keep", "id"]])
    batch_size = random.choice(["1", "5", "10"])
    run = scene.run(
        "adapt", scene.model, stream, "-o", scene.folder / _OUTPUT, "-q", "--batch-size", batch_size, *options
    )
    scene.expect(run.exit_code == 0, f"a clean stream cannot be followed: {run.err}")
    return _draw_label_file(scene, texts, has_key="--keep" in options)


def _draw_label_file(scene: Scene, texts: list[str], *, has_key: bool) -> Inputs:
    random = scene.random
    lines = pl.read_csv(scene.folder / _OUTPUT)["line"].to_list()
    joined_by = random.choice(["line", "position", *(["id"] if has_key else [])])
    if joined_by == "position":
        grid = Grid([LABEL], [[text] for text in texts])
    else:
        keys = lines if joined_by == "line" else [f"k{number}" for number in range(len(texts))]
        grid = Grid([joined_by, LABEL], [[str(key), text] for key, text in zip(keys, texts, strict=True)])
    if scene.table_format == "npy" and joined_by == "position" and random.random() < 0.7:
        clean = encode_array(np.array([float(text) if "." in text else int(text) for text in texts]))
        path = scene.folder / "labels.npy"
        content, done = damage_bytes(clean, random, random.choice([0, 1]), is_text=False)
        return Inputs({path: content}, {path: clean}, path, "", [], [], done, is_text=False)
    named = scene.table_format if scene.table_format != "npy" else "csv"
    dialect = draw_dialect(random, named) if random.random() < 0.5 else Dialect(random.choice(["csv", "jsonl"]))
    path, mutated = scene.folder / f"labels{dialect.suffix}", grid.copy()
    n_changes, n_damages = random.choice([(0, 0), (1, 0), (1, 0), (2, 0), (4, 0), (0, 1)])
    done = mutate_grid(mutated, random, n_changes)
    content, names = damage_bytes(encode_grid(mutated, dialect, random), random, n_damages, is_text=dialect.is_text)
    options = dialect.options + (["--key", "id"] if joined_by == "id" else [])
    clean = encode_grid(grid, dialect, random)
    return Inputs({path: content}, {path: clean}, path, LABEL, options, grid.header, done + names, dialect.is_text)


def _draw_labelled_rows(scene: Scene) -> Inputs:
    n_rows = scene.random.choice([1, 10, 25])
    return draw_inputs(
        scene.random, scene.folder, "labelled", scene.table_format, n_rows,
        n_classes=scene.n_classes, is_embedding=scene.table_format == "npy",
    )  # fmt: skip


def _change_once(scene: Scene, given: Inputs, command: str, *arguments: object, key: str) -> Run:
    """Run a command that changes the model; a failure, or the same file once more, leaves it as it is."""
    before, files = loaded(scene.model), files_in(scene.model)
    predictions = (scene.folder / _OUTPUT).read_bytes()
    run = scene.run(command, scene.model, *arguments, "--json", *scene.random.choice([[], ["-q"]]))
    if run.exit_code != 0:
        scene.expect(files_in(scene.model) == files, f"{command} failed and changed the folder")
    else:
        scene.problems += [] if command == "extend" else problems_of_folder(before, scene.model)
        files = files_in(scene.model)
        again = scene.run(command, scene.model, *_without_rejects(arguments), "--json")
        scene.expect(again.exit_code == 0, f"{command} failed when run again: {again.err}")
        if again.exit_code == 0:
            scene.expect(json.loads(again.out)[key] == 0, f"{command} took rows twice: {again.out}")
            scene.expect(files_in(scene.model) == files, f"{command} took nothing and changed the folder")
    changed = [path.name for path, content in given.clean_files.items() if not path.exists() and content]
    scene.expect(not changed, f"input files were deleted: {changed}")
    scene.expect((scene.folder / _OUTPUT).read_bytes() == predictions, f"{command} changed the predictions")
    return run


def _without_rejects(arguments: tuple[object, ...]) -> list[object]:
    """A file of rejects that the first run has written is in the way of the second."""
    kept = list(arguments)
    if "--rejects" in kept:
        place = kept.index("--rejects")
        del kept[place : place + 2]
    return kept


def _expect_labels(scene: Scene, n_rows: int) -> None:
    measured = loaded(scene.model).model.measured_
    n_labelled = 0 if measured is None else measured.n_labelled
    scene.expect(n_labelled <= n_rows, f"{n_labelled} labels count for {n_rows} rows")


def _go_on(scene: Scene) -> None:
    """The model can follow a clean stream, and be looked at."""
    inputs = draw_inputs(
        scene.random, scene.folder, "next", scene.table_format, 10,
        n_classes=scene.n_classes, is_embedding=scene.table_format == "npy",
    )  # fmt: skip
    inputs.write(is_clean=True)
    output = scene.folder / "next_predictions.csv"
    run = scene.run("adapt", scene.model, inputs.path, "-o", output, "-q", "--new", *inputs.options)
    scene.expect(run.exit_code == 0, f"the model cannot go on: {run.err}")
    if run.exit_code == 0:
        scene.check_predictions(Path(output), [])
    weights = loaded(scene.model).model.reference_weight_
    scene.expect(bool(np.isfinite(weights).all()), "weights are not finite")
    scene.look_at_model()
