"""Commands that are killed at any moment and run again end with the very bytes of an uninterrupted run.

Only the store of predictions is compared by its content, not by its bytes.
"""

import os
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from accous import datasets
from accous.table.model import load_table_model
from accous.table.store import STORE_NAME
from tests.cli.processes import ENVIRONMENT, files_of, rows_of_store
from tests.cli.tables import make_tables
from tests.forks import KILLED, Forked, ForkServer


def run(forks: ForkServer, folder: Path, arguments: list[str], kill_after: float | None = None) -> Forked:
    """Run a command in a folder, or kill it after so many seconds of processor time."""
    with (folder / "errors.txt").open("wb") as errors, Path(os.devnull).open("wb") as nowhere:
        how = {"cwd": folder, "env": ENVIRONMENT, "stdout": nowhere, "stderr": errors, "kill_after": kill_after}
        with forks.start("accous", *arguments, **how) as process:
            process.wait()
    return process


def run_well(forks: ForkServer, folder: Path, arguments: list[str]) -> float:
    """Run a command that must succeed; return the processor time it took in seconds."""
    process = run(forks, folder, arguments)
    assert process.returncode == 0, (folder / "errors.txt").read_text()
    return process.cpu_seconds


def with_bad_rows(text: str) -> str:
    """Spoil some rows, in several ways, also at the end."""
    lines = text.splitlines()
    for number in range(7, len(lines), 41):
        lines[number] = lines[number].replace(",", ",oops,", 1)
    for number in range(11, len(lines), 53):
        lines[number] = "text" + lines[number]
    return "\n".join([*lines, '1,"2', ""])


def finish(forks: ForkServer, folder: Path, arguments: list[str], n_kills: int, seconds: float) -> int:
    """Run a command to its end, killing it so many times on the way; return how often it was killed.

    Each time after at most so many seconds of processor time.
    """
    chance = random.Random(n_kills)
    n_killed = 0
    while n_killed < n_kills:
        # Not below a microsecond, which would set no timer.
        ended = run(forks, folder, arguments, kill_after=chance.uniform(1e-6, seconds))
        if ended.returncode == 0:
            return n_killed
        assert ended.returncode == KILLED, (folder / "errors.txt").read_text()
        n_killed += 1
    run_well(forks, folder, arguments)
    return n_killed


def results(folder: Path) -> dict[str, Any]:
    names = [path for path in sorted(folder.iterdir()) if path.name.startswith("predictions")]
    return {path.name: path.read_bytes() for path in names} | model_of(folder / "model")


def model_of(folder: Path) -> dict[str, Any]:
    """The bytes of a model's files, and what its store holds."""
    return files_of(folder) | {STORE_NAME: rows_of_store(folder)}


def compare(forks: ForkServer, folder: Path, arguments: list[str], n_kills: int, share: float) -> int:
    """Compare an uninterrupted run with one that is killed, each time within this share of it; return how often."""
    shutil.copytree(folder / "model", folder / "fresh")
    seconds = share * run_well(forks, folder, arguments)
    expected = results(folder)
    for path in folder.glob("predictions*"):
        path.unlink()
    shutil.rmtree(folder / "model")
    shutil.copytree(folder / "fresh", folder / "model")
    n_killed = finish(forks, folder, [*arguments, "--save-every", "3"], n_kills, seconds)
    found = results(folder)
    assert found.keys() == expected.keys()
    for name, content in expected.items():
        assert found[name] == content, name
    return n_killed


@pytest.mark.parametrize(
    ("output", "options"),
    [
        ("predictions.csv", ["--label", "label", "--keep", "id,colour"]),
        pytest.param("predictions.jsonl", ["--by", "day"], marks=pytest.mark.slow),
        ("predictions.parquet", ["--learn-first", "--keep", "id"]),
    ],
)
@pytest.mark.parametrize("n_kills", [3, pytest.param(10, marks=pytest.mark.slow)])
def test_killed_and_run_again_the_bytes_are_the_same(forks, tmp_path, output, options, n_kills):
    reference, stream = make_tables()
    reference.write_csv(tmp_path / "reference.csv")
    (tmp_path / "stream.csv").write_text(with_bad_rows(stream.write_csv()))
    fit = ["fit", "reference.csv", "--label", "label", "-o", "model", "--drop", "id"]
    run_well(forks, tmp_path, fit)
    arguments = ["adapt", "model", "stream.csv", "-o", output, "--on-bad-row", "skip", "--batch-size", "3", *options]
    assert compare(forks, tmp_path, arguments, n_kills, share=0.8) > 0
    assert len((tmp_path / f"{output}.rejects.csv").read_text().splitlines()) > 10


@pytest.mark.parametrize("ending", ["npy", pytest.param("parquet", marks=pytest.mark.slow)])
def test_embeddings_too(forks, tmp_path, ending):
    random = np.random.default_rng(5)
    rows = random.normal(size=(360, 6)).astype(np.float32)
    labels = (rows[:, 0] + random.normal(size=360) > 0.0).astype(int)
    rows[60:] += 0.5
    rows[60::31, 2] = np.nan
    np.save(tmp_path / "labels.npy", labels[:60])
    for name, part in (("reference", rows[:60]), ("stream", rows[60:])):
        np.save(tmp_path / f"{name}.npy", part)
        lists = part.tolist()
        lists[-1:] = [lists[-1][: 6 if name == "reference" else 4]]
        pl.DataFrame({"embedding": lists}).write_parquet(tmp_path / f"{name}.parquet")
    fit = ["fit", f"reference.{ending}", "--label", "labels.npy", "-o", "model"]
    run_well(forks, tmp_path, fit)
    options = ["-o", "predictions.csv", "--on-bad-row", "skip", "--batch-size", "3"]
    assert compare(forks, tmp_path, ["adapt", "model", f"stream.{ending}", *options], n_kills=4, share=0.8) > 0
    n_bad = 10 if ending == "npy" else 11
    assert len((tmp_path / "predictions.csv.rejects.csv").read_text().splitlines()) == 1 + n_bad


@pytest.mark.parametrize("n_kills", [4, pytest.param(40, marks=pytest.mark.slow)])
def test_labels_count_once_also_if_the_command_is_killed(forks, tmp_path, n_kills):
    """Labels in parts, a correction of some, a file that is taken back: as if nothing had happened in between."""
    reference, stream = make_tables()
    reference.write_csv(tmp_path / "reference.csv")
    stream.write_csv(tmp_path / "stream.csv")
    other = pl.col("label").replace_strict({"yes": "no", "no": "yes"})
    stream[:200].write_csv(tmp_path / "first.csv")
    stream[150:].with_columns(other).write_csv(tmp_path / "wrong.csv")
    stream[100:].write_csv(tmp_path / "right.csv")
    fit = ["fit", "reference.csv", "--label", "label", "-o", "model", "--drop", "id"]
    run_well(forks, tmp_path, fit)
    run_well(forks, tmp_path, ["adapt", "model", "stream.csv", "-o", "predictions.csv", "--key", "id"])
    shutil.copytree(tmp_path / "model", tmp_path / "fresh")
    commands = [["first.csv"], ["wrong.csv"], ["--undo"], ["right.csv"]]
    chance, found, n_killed, seconds = random.Random(n_kills), [], 0, 0.0
    for kills in (0, n_kills):
        shutil.rmtree(tmp_path / "model")
        shutil.copytree(tmp_path / "fresh", tmp_path / "model")
        for given in commands:
            arguments, is_done = ["labels", "model", *given], False
            while not is_done and n_killed < kills * (commands.index(given) + 1) / len(commands):
                ended = run(forks, tmp_path, arguments, kill_after=chance.uniform(0.0, 1.2) * seconds)
                n_killed += ended.returncode == KILLED
                is_done = ended.returncode == 0
                if given == ["--undo"]:  # a second time would take another file back
                    is_done = load_table_model(tmp_path / "model").stored.n_batches == 1
            if not is_done:
                seconds = run_well(forks, tmp_path, arguments)
        found.append(model_of(tmp_path / "model"))
    assert n_killed > 0
    assert found[0].keys() == found[1].keys()
    for name, content in found[0].items():
        assert found[1][name] == content, name


@pytest.mark.parametrize("n_kills", [3, pytest.param(30, marks=pytest.mark.slow)])
def test_questions_are_asked_once_also_if_the_command_is_killed(forks, tmp_path, n_kills):
    reference, stream = make_tables()
    reference.write_csv(tmp_path / "reference.csv")
    stream.drop("label").write_csv(tmp_path / "stream.csv")
    run_well(forks, tmp_path, ["fit", "reference.csv", "--label", "label", "-o", "fresh", "--drop", "id"])
    found, seconds, n_killed, chance = [], 0.0, 0, random.Random(n_kills)
    for kills in (0, n_kills):
        shutil.copytree(tmp_path / "fresh", tmp_path / "model", dirs_exist_ok=True)
        (tmp_path / "model" / STORE_NAME).unlink(missing_ok=True)
        for name in ("first.csv", "second.csv"):
            arguments = ["ask", "model", "stream.csv", "-n", "40", "--key", "id", "-o", name]
            while not (tmp_path / name).exists():
                after = chance.uniform(0.0, 1.2) * seconds if n_killed < kills else None
                ended = run(forks, tmp_path, arguments, kill_after=after)
                n_killed += ended.returncode == KILLED
                seconds = seconds or ended.cpu_seconds
        names = ("first.csv", "second.csv")
        found.append([(tmp_path / name).read_bytes() for name in names] + [rows_of_store(tmp_path / "model")])
        for name in names:
            (tmp_path / name).unlink()
    assert n_killed > 0
    assert found[0] == found[1]


@pytest.mark.slow
def test_two_hundred_kills_on_a_real_file(forks, tmp_path, data_folder):
    table = datasets.load_acs_employment()
    names = ",".join([*table.feature_names, "employed"])
    lines = [",".join(map(repr, [*row, label])) for row, label in zip(table.X.tolist(), table.y.tolist(), strict=True)]
    lines = lines[::10]
    (tmp_path / "reference.csv").write_text("\n".join([names, *lines[:1000], ""]))
    (tmp_path / "stream.csv").write_text("\n".join([names, *lines[1000:21_000], ""]))
    run_well(forks, tmp_path, ["fit", "reference.csv", "--label", "employed", "-o", "model"])
    arguments = ["adapt", "model", "stream.csv", "-o", "predictions.csv", "--label", "employed"]
    n_killed = 0
    while n_killed < 200:  # it may be through the file before it was killed so often: once more, then
        folder = tmp_path / f"after-{n_killed}-kills"
        shutil.copytree(tmp_path / "model", folder / "model")
        shutil.copy(tmp_path / "stream.csv", folder)
        n_killed += compare(forks, folder, arguments, n_kills=200 - n_killed, share=0.1)
