"""`accous adapt`, killed at any moment and run again, ends with the very bytes of an uninterrupted run."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from accous import datasets
from tests.cli.processes import KILLED, Zygote, files_of
from tests.cli.tables import make_tables

pytestmark = pytest.mark.skipif("sys.platform == 'win32'", reason="needs fork: run the tests on Linux or macOS")


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    with Zygote() as started:
        yield started


def with_bad_rows(text: str) -> str:
    """Spoil some rows, in several ways, also at the end."""
    lines = text.splitlines()
    for number in range(7, len(lines), 41):
        lines[number] = lines[number].replace(",", ",oops,", 1)
    for number in range(11, len(lines), 53):
        lines[number] = "text" + lines[number]
    return "\n".join([*lines, '1,"2', ""])


def finish(zygote: Zygote, folder: Path, arguments: list[str], n_kills: int, seconds: float) -> int:
    """Run a command to its end, killing it so many times on the way; return how often it was killed.

    Each time after at most so many seconds of processor time.
    """
    chance = random.Random(n_kills)
    n_killed = 0
    while n_killed < n_kills:
        # Not below a microsecond, which would set no timer.
        ended = zygote.run(folder, *arguments, kill_after=chance.uniform(1e-6, seconds))
        if ended.code == 0:
            return n_killed
        assert ended.code == KILLED, (folder / "stderr.txt").read_text()
        n_killed += 1
    zygote.run_well(folder, *arguments)
    return n_killed


def results(folder: Path) -> dict[str, bytes]:
    names = [path for path in sorted(folder.iterdir()) if path.name.startswith("predictions")]
    return {path.name: path.read_bytes() for path in names} | files_of(folder / "model")


def compare(zygote: Zygote, folder: Path, arguments: list[str], n_kills: int, share: float) -> int:
    """Compare an uninterrupted run with one that is killed, each time within this share of it; return how often."""
    shutil.copytree(folder / "model", folder / "fresh")
    seconds = share * zygote.run_well(folder, *arguments)
    expected = results(folder)
    for path in folder.glob("predictions*"):
        path.unlink()
    shutil.rmtree(folder / "model")
    shutil.copytree(folder / "fresh", folder / "model")
    n_killed = finish(zygote, folder, [*arguments, "--save-every", "3"], n_kills, seconds)
    found = results(folder)
    assert found.keys() == expected.keys()
    for name, content in expected.items():
        assert found[name] == content, name
    return n_killed


@pytest.mark.parametrize(
    ("output", "options"),
    [
        ("predictions.csv", ["--label", "label", "--keep", "id,colour"]),
        ("predictions.jsonl", ["--by", "day"]),
        ("predictions.parquet", ["--learn-first", "--keep", "id"]),
    ],
)
def test_killed_and_run_again_the_bytes_are_the_same(zygote, tmp_path, output, options):
    reference, stream = make_tables(n_rounds=200)
    reference.write_csv(tmp_path / "reference.csv")
    (tmp_path / "stream.csv").write_text(with_bad_rows(stream.write_csv()))
    fit = ["fit", "reference.csv", "--label", "label", "-o", "model", "--drop", "id"]
    zygote.run_well(tmp_path, *fit)
    arguments = ["adapt", "model", "stream.csv", "-o", output, "--on-bad-row", "skip", "--batch-size", "3", *options]
    assert compare(zygote, tmp_path, arguments, n_kills=6, share=0.8) > 0
    assert len((tmp_path / f"{output}.rejects.csv").read_text().splitlines()) > 10


@pytest.mark.parametrize("ending", ["npy", pytest.param("parquet", marks=pytest.mark.slow)])
def test_embeddings_too(zygote, tmp_path, ending):
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
    zygote.run_well(tmp_path, *fit)
    options = ["-o", "predictions.csv", "--on-bad-row", "skip", "--batch-size", "3"]
    assert compare(zygote, tmp_path, ["adapt", "model", f"stream.{ending}", *options], n_kills=4, share=0.8) > 0
    n_bad = 10 if ending == "npy" else 11
    assert len((tmp_path / "predictions.csv.rejects.csv").read_text().splitlines()) == 1 + n_bad


@pytest.mark.slow
def test_two_hundred_kills_on_a_real_file(zygote, tmp_path, data_folder):
    table = datasets.load_acs_employment()
    names = ",".join([*table.feature_names, "employed"])
    lines = [",".join(map(repr, [*row, label])) for row, label in zip(table.X.tolist(), table.y.tolist(), strict=True)]
    lines = lines[::10]
    (tmp_path / "reference.csv").write_text("\n".join([names, *lines[:1000], ""]))
    (tmp_path / "stream.csv").write_text("\n".join([names, *lines[1000:21_000], ""]))
    zygote.run_well(tmp_path, "fit", "reference.csv", "--label", "employed", "-o", "model")
    arguments = ["adapt", "model", "stream.csv", "-o", "predictions.csv", "--label", "employed"]
    n_killed = 0
    while n_killed < 200:  # it may be through the file before it was killed so often: once more, then
        folder = tmp_path / f"after-{n_killed}-kills"
        shutil.copytree(tmp_path / "model", folder / "model")
        shutil.copy(tmp_path / "stream.csv", folder)
        n_killed += compare(zygote, folder, arguments, n_kills=200 - n_killed, share=0.1)
