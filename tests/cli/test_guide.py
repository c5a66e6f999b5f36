"""The guide to the command line: what it tells to type can be typed."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from accous.cli import app, main

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs" / "cli.md", ROOT / "docs" / "benchmark.md"]
COMMANDS = typer.main.get_command(app).commands


def commands_of(text: str) -> list[list[str]]:
    return [shlex.split(line, comments=True)[1:] for line in re.findall(r"^\$ (accous .*)$", text, re.MULTILINE)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_and_option_exists(page):
    typed = commands_of(page.read_text())
    assert typed
    for name, *arguments in typed:
        command = COMMANDS[name]
        if name == "bench":
            command = command.commands[arguments.pop(0)]
        options = {option for parameter in command.params for option in parameter.opts}
        assert {argument for argument in arguments if argument.startswith("--")} <= options, (name, arguments)


def test_every_option_mentioned_in_prose_exists():
    mentioned = set(re.findall(r"`(--[a-z-]+)", PAGES[1].read_text()))
    parameters = [parameter for command in COMMANDS.values() for parameter in command.params]
    known = {option for parameter in parameters for option in (*parameter.opts, *parameter.secondary_opts)}
    assert mentioned
    assert mentioned <= known | {"--install-completion", "--help"}


@pytest.mark.slow
def test_the_first_run_works_in_an_empty_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = PAGES[1].read_text()
    section = text[text.index("## A first run") : text.index("## What is done")]
    for arguments in commands_of(section):
        assert main(arguments) == 0, arguments
    assert (tmp_path / "report.html").exists()
