"""Cases of ``accous adapt``: mutated streams, repaired ones, growing ones, and outputs of somebody else's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.inputs import Inputs, draw_inputs
from tests.fuzz.invariants import loaded, problems_of_folder
from tests.fuzz.running import Run
from tests.fuzz.scene import Scene

__all__ = ["adapt_to_a_stream", "grow_a_stream", "repair_a_stream"]

_BAD_LINES = [
    "1",
    "a,b",
    "x;y;z",
    '"',
    "{",
    "[]",
    "1,2,3,4,5,6,7",
    "one,2,a,2024-01-01,class 0",
    ",,,not a date,",
    "\x00",
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
        scene.expect(
            again.exit_code == run.exit_code, f"exit code {run.exit_code}, and {again.exit_code} when run again"
        )
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
    is_other_table = "is not the table that was read before" in run.err
    is_other_label = "labels for the" in run.err or _has_other_labels(run)
    scene.expect(
        run.exit_code == 0 or is_other_table or is_other_label, f"the whole stream cannot be followed: {run.err}"
    )
    scene.check_predictions(asked.output, asked.kept)


def _draw(scene: Scene, *, is_plain: bool = False) -> _Asked:
    """Draw a model, a stream and options that are right for the stream without its mutations."""
    random = scene.random
    is_embedding = scene.table_format == "npy" or (scene.table_format == "parquet" and random.random() < 0.2)
    scene.put_model(is_embedding=is_embedding)
    inputs = draw_inputs(
        random, scene.folder, "stream", scene.table_format, random.choice([1, 20, 30]),
        n_classes=scene.n_classes, is_embedding=is_embedding,
    )  # fmt: skip
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
    """Predict the same rows without learning: the model's folder stays as it is, and a failure leaves no output."""
    files = {path.name: path.read_bytes() for path in scene.model.iterdir()}
    output = scene.folder / "only_predicted.csv"
    options, given = [], iter(asked.options)
    for option in given:
        if option in ("--label", "--by", "--batch-size", "--save-every", "--rejects"):
            next(given)
        elif option != "--learn-first":
            options.append(option)
    run = scene.run("predict", scene.model, asked.inputs.path, "-o", output, *options)
    scene.expect(
        {path.name: path.read_bytes() for path in scene.model.iterdir()} == files, "predict changed the model's folder"
    )
    scene.expect(output.is_file() == (run.exit_code == 0), "predict left an output behind, or none")
    scene.expect(not list(scene.folder.glob("*.predicting*")), "predict left an unfinished output behind")
