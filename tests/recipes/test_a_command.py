"""Recipe: a command is a function in a file of its own and an entry of `COMMANDS` in cli/__init__.py. Nothing else."""

from typing import Annotated

import pytest
import typer

from accous import cli
from accous.exceptions import DataError, ParameterError


def count(
    words: Annotated[list[str], typer.Argument(help="What to count.")],
    most: Annotated[int, typer.Option("--most", help="The largest number allowed.")] = 3,
) -> int:
    """Count words."""
    if most < 1:
        raise ParameterError("--most must be at least 1.")
    if len(words) > most:
        raise DataError(f"{len(words)} words are too many.")
    typer.echo(len(words))
    return 0


@pytest.fixture(autouse=True)
def _toy_command(monkeypatch):
    monkeypatch.setitem(cli.COMMANDS, count, "Example: accous count a b")
    monkeypatch.setattr(cli, "app", cli.make_app())


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["a", "b", "--most", "1"], 1, "accous: 2 words are too many.\n"),
        (["a", "--most", "0"], 2, "accous: --most must be at least 1.\n"),
        (["a", "--mots", "1"], 2, "accous: "),
    ],
)
def test_failures_are_one_sentence_and_an_exit_code(arguments, code, sentence, capsys):
    assert cli.main(["count", *arguments]) == code
    assert capsys.readouterr().err.startswith(sentence)


def test_it_runs_and_the_help_lists_it_with_its_examples(capsys):
    assert cli.main(["count", "a", "b"]) == 0
    assert capsys.readouterr().out == "2\n"
    assert cli.main(["--help"]) == 0
    assert "Count words." in capsys.readouterr().out
    assert cli.main(["count", "--help"]) == 0
    assert "Example: accous count a b" in capsys.readouterr().out
