"""Cases of damaged model folders: files that are cut, changed, missing, foreign or in each other's place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np

import accous
from tests.fuzz.bases import base_model
from tests.fuzz.damage import damage_bytes
from tests.fuzz.inputs import draw_inputs
from tests.fuzz.invariants import files_in, problems_of_report
from tests.fuzz.scene import Scene

__all__ = ["use_a_damaged_folder"]


def use_a_damaged_folder(scene: Scene) -> None:
    """Run commands on a damaged model; each fails with a sentence, and none makes the damage worse."""
    random = scene.random
    is_embedding = scene.table_format == "npy"
    scene.put_model(is_embedding=is_embedding, is_experienced=True)
    inputs = draw_inputs(
        random, scene.folder, "stream", scene.table_format, 20, n_classes=scene.n_classes, is_embedding=is_embedding
    )
    inputs.write(is_clean=True)
    damage = random.choice(_DAMAGES)
    scene.done.append(damage.__name__)
    damage(scene.model, random)
    output, report = scene.folder / "predictions.csv", scene.folder / "report.html"
    label = ["--label", inputs.label]
    commands: list[list[object]] = [
        ["inspect", scene.model, "--json"],
        ["inspect", scene.model, "-q"],
        ["report", scene.model, "-o", report, "-q"],
        ["adapt", scene.model, inputs.path, "-o", output, "-q", *inputs.options],
        ["labels", scene.model, inputs.path, "-q", *inputs.options],
        ["extend", scene.model, inputs.path, *label, "-q", *inputs.options],
        ["fit", inputs.path, *label, "-o", scene.model, "-q", *inputs.options],
        ["fit", inputs.path, *label, "-o", scene.model, "-q", "--force", *inputs.options],
    ]
    for command in random.sample(commands, 3):
        before = files_in(scene.model) if scene.model.is_dir() else {}
        run = scene.run(*command)
        after = files_in(scene.model) if scene.model.is_dir() else {}
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
    contents = [
        b"{}",
        b"[]",
        b"null",
        b'{"format": "accous"}',
        b'{"format": "other", "version": 1}',
        b"",
        b"NaN",
        b"[" * 100_000,
    ]
    (folder / "manifest.json").write_bytes(random.choice(contents))


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
