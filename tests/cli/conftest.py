"""What the tests of the command line share: a wide terminal, and a fitted model that is copied and never changed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from accous.cli import main
from tests.cli.processes import files_of, put_files, restored
from tests.cli.tables import make_tables


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sentences are printed on one line, however narrow the terminal is that the tests run in."""
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture(scope="session")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The files of a fitted model, and a stream for it."""
    folder = tmp_path_factory.mktemp("fitted")
    reference, stream = make_tables()
    reference.write_csv(folder / "reference.csv")
    options = ["--label", "label", "--drop", "id", "-o", str(folder / "model"), "--quiet"]
    assert main(["fit", str(folder / "reference.csv"), *options]) == 0
    return {"files": files_of(folder / "model"), "stream": stream}


@pytest.fixture
def fitted_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fitted: dict[str, Any]) -> Path:
    """The current folder, with the model and the stream."""
    monkeypatch.chdir(tmp_path)
    put_files(tmp_path / "model", fitted["files"])
    fitted["stream"].write_csv("stream.csv")
    return tmp_path


@pytest.fixture(scope="module")
def predicted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has predicted a stream; the job's paths are absolute, so all tests use this folder."""
    folder = tmp_path_factory.mktemp("labels")
    reference, stream = make_tables()
    reference.write_csv(folder / "reference.csv")
    stream.write_csv(folder / "stream.csv")
    fit = ["fit", str(folder / "reference.csv"), "--label", "label", "--drop", "id", "-o", str(folder / "saved"), "-q"]
    assert main(fit) == 0
    adapt = ["adapt", str(folder / "saved"), str(folder / "stream.csv"), "-o", str(folder / "predictions.csv")]
    assert main([*adapt, "--key", "id", "--quiet"]) == 0
    return folder


@pytest.fixture
def predicted_folder(predicted: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The same as the current folder, as it was before each test; ``model`` is a copy of ``saved``."""
    monkeypatch.chdir(predicted)
    with restored(predicted, "saved"):
        yield predicted
