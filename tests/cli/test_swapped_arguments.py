"""A file in the place of the model, as when arguments are swapped, is answered in words by each command."""

import pytest

from accous.cli import main
from tests.cli.tables import write_tables

COMMANDS = {
    "adapt": ["stream.csv", "-o", "predictions.csv"],
    "predict": ["stream.csv", "-o", "predictions.csv"],
    "labels": ["stream.csv"],
    "extend": ["stream.csv"],
    "report": ["-o", "report.html"],
    "inspect": [],
    "serve": ["--port", "0"],
}


@pytest.mark.parametrize("model", ["reference.csv", "nothing"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_model_that_is_no_folder(tmp_path, monkeypatch, capsys, command, model):
    monkeypatch.chdir(tmp_path)
    write_tables(tmp_path)
    assert main([command, model, *COMMANDS[command]]) == 1
    reads_only = command in ("report", "inspect")
    words = "holds no saved model" if reads_only else "is not a folder: make a model with accous fit first."
    assert f"{model} {words}" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["reference.csv", "stream.csv"]
