"""What the tests of the command line share: a wide terminal, and a fitted model that is copied and never changed."""

from pathlib import Path
from typing import Any

import pytest

from accous.cli import main
from tests.cli.processes import files_of
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
    (tmp_path / "model").mkdir()
    for name, content in fitted["files"].items():
        (tmp_path / "model" / name).write_bytes(content)
    fitted["stream"].write_csv("stream.csv")
    return tmp_path
