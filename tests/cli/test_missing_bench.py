"""`accous bench` is a command of another package: without that package, one line says what to install."""

from importlib.metadata import EntryPoint

import pytest

from accous import cli


@pytest.mark.parametrize("words", [[], ["run", "smoke", "-q"]])
def test_without_the_package_one_line_says_what_to_install(words, monkeypatch, capsys):
    monkeypatch.setattr(cli, "entry_points", lambda **_: ())
    monkeypatch.setattr(cli, "app", cli.make_app())
    assert cli.main(["bench", *words]) == 1
    expected = "accous: accous bench needs the package accous-bench, which is not installed: "
    assert capsys.readouterr().err == expected + "pip install accous-bench adds it.\n"


def test_with_it_the_commands_are_there(monkeypatch, capsys):
    bench = EntryPoint("bench", "accous_bench.commands:bench", "accous.commands")
    monkeypatch.setattr(cli, "entry_points", lambda group: (bench,) if group == bench.group else ())
    monkeypatch.setattr(cli, "app", cli.make_app())
    assert cli.main(["bench", "list"]) == 0
    assert "table3" in capsys.readouterr().out
