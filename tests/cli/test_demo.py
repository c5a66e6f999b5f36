"""`accous demo` prints honest numbers and draws a picture; the root command, and what is compiled before it runs."""

import gc
import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from numba import float64
from rich.console import Console

from accous.cli import app, main
from accous.cli.options import announcing_compilation
from accous.cli.simulated import ACCOUS, FIXED, ONE_STEP, ORACLE, SINGLE, Race, draw_race, make_stream, run_race
from accous.core import compiled
from accous.core.compiled import compile_all, kernel
from tests.budgets import rest_slow
from tests.docs_pages import DOCS, ROOT
from tests.needs import needs_compilation

SHORT = ["demo", "--simulated", "--rounds", "20"]


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def make_race(**errors: float) -> Race:
    """A race of 80 rounds in which every contender's error is constant."""
    stream = make_stream("squ", n_rounds=80, batch_size=1, seed=0)
    names = {"fixed": FIXED, "single": SINGLE, "ours": ACCOUS, "oracle": ORACLE}
    return Race(stream, {name: np.full(80, errors[key]) for key, name in names.items()})


def test_json_is_all_that_stdout_gets(capsys):
    assert main([*SHORT, "--json", "--shift", "ber", "--seed", "3", "--batch-size", "2", "-o", "picture.png"]) == 0
    printed = capsys.readouterr()
    record = json.loads(printed.out)
    asked = {"shift": "ber", "rounds": 20, "batch_size": 2, "seed": 3}
    assert {key: record[key] for key in asked} == asked
    assert [row["name"] for row in record["contenders"]] == [FIXED, ONE_STEP, SINGLE, ACCOUS, ORACLE]
    assert all(0.0 < row["mean_error"] < 0.5 for row in record["contenders"])
    assert printed.err.split()[-4:] == ["Picture:", "picture.png", "Report:", "demo.html"]
    assert "<h2>" in Path("demo.html").read_text()
    assert Path("picture.png").read_bytes().startswith(b"\x89PNG")


def test_quiet_leaves_only_the_table(capsys):
    assert main([*SHORT, "--quiet"]) == 0
    printed = capsys.readouterr()
    assert ACCOUS in printed.out
    assert "errs on" not in printed.out
    assert printed.err == ""


def test_without_matplotlib_the_table_comes_with_a_hint(tmp_path, capsys, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(SHORT) == 0
    printed = capsys.readouterr()
    assert ACCOUS in printed.out
    assert "accous[plot]" in printed.err
    assert [path.name for path in tmp_path.iterdir()] == ["demo.html"]


@pytest.mark.parametrize("options", [["-o", "nowhere/picture.png"], ["--report", "nowhere/demo.html"]])
def test_what_cannot_be_written_costs_no_numbers(options, capsys):
    assert main([*SHORT, *options, "--json"]) == 1
    printed = capsys.readouterr()
    assert len(json.loads(printed.out)["contenders"]) == 5
    assert options[1] in printed.err


@pytest.mark.parametrize("shift", rest_slow(["lin", "squ", "sin", "ber"]))
@pytest.mark.parametrize("rounds", rest_slow("129"))
def test_the_shortest_streams_run(shift, rounds, capsys):
    assert main(["demo", "--simulated", "--rounds", rounds, "--shift", shift, "-o", "short.svg"]) == 0
    assert ACCOUS in capsys.readouterr().out


def test_the_stream_can_be_had_as_tables_to_try_the_other_commands_on(capsys):
    tables = ["--tables", "tables"]
    assert main(["demo", "--simulated", "--rounds", "80", "--batch-size", "5", *tables]) == 0
    capsys.readouterr()
    fit = ["fit", "tables/reference.csv", "--label", "label", "-o", "model", "--json", "--estimator", "linear"]
    assert main(fit) == 0
    assert json.loads(capsys.readouterr().out)["features"] == 12
    adapt = ["adapt", "model", "tables/stream.csv", "-o", "predictions.csv", "--keep", "day", "--label", "label"]
    assert main(adapt) == 0
    assert Path("predictions.csv").read_text().count("\n") == 401
    assert main([*SHORT, *tables]) == 1


# --- real rows --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_model_drifts_raises_the_alarm_and_recovers(capsys):
    assert main(["demo", "--json", "-o", "picture.svg"]) == 0
    found = json.loads(capsys.readouterr().out)
    parts = found["parts"]
    assert [part["n_labels"] for part in parts] == [100, 200, 300, 400, 500, 600]
    assert not parts[0]["alarm"]
    assert all(part["alarm"] for part in parts[2:])
    assert parts[-1]["error_fixed"] > 5.0 * found["at_fit"]
    assert parts[-1]["error"] < 0.5 * parts[-1]["error_fixed"]
    assert "accous by" in found["finding"]
    assert "<svg" in Path("picture.svg").read_text()
    page = Path("demo.html").read_text()
    assert " 600 labels" in page
    assert "accous ask MODEL STREAM" in page
    assert "part6" not in page


def test_the_tables_of_the_demo_are_the_real_rows(capsys):
    assert main(["demo", "--tables", "."]) == 0
    names = ["part1.csv", "part2.csv", "part3.csv", "part4.csv", "part5.csv", "part6.csv", "reference.csv", "truth.csv"]
    assert sorted(path.name for path in Path().iterdir()) == names
    assert (
        Path("reference.csv").read_text().splitlines()[1] == "1,2011-01-01 00:00,1,1,0,0,6,0,1,0.24,0.2879,0.81,0.0,16"
    )
    assert "cnt" not in Path("part1.csv").read_text()
    assert main(["demo", "--tables", "."]) == 1
    assert main(["demo", "--rounds", "20"]) == 2
    assert "--simulated" in capsys.readouterr().err


# --- what the numbers say --------------------------------------------------------------------------------------


def test_accous_follows_the_drift_and_the_fixed_model_does_not():
    race = run_race(make_stream("squ", n_rounds=200, batch_size=5, seed=0))
    assert race.mean_error(FIXED) - race.mean_error(ACCOUS) > 0.02
    assert (race.gap_closed(FIXED), race.gap_closed(ORACLE)) == (0.0, 1.0)
    assert race.gap_closed(ACCOUS) > 0.5
    # Every model is scored before it learns from the round.
    assert race.errors[ACCOUS][0] == race.errors[SINGLE][0] == race.errors[FIXED][0]


def test_gap_closed_is_a_share_of_the_way_from_fixed_to_oracle():
    race = make_race(fixed=0.4, single=0.35, ours=0.25, oracle=0.2)
    assert race.gap_closed(SINGLE) == pytest.approx(0.25)
    assert race.gap_closed(ACCOUS) == pytest.approx(0.75)


def test_pictures_come_in_three_formats():
    race = make_race(fixed=0.4, single=0.3, ours=0.25, oracle=0.2)
    for image_format, start in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
        assert draw_race(race, image_format).startswith(start)


# --- the root command ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_alone_or_asked_for_help_it_lists_the_commands(arguments, capsys):
    assert main(arguments) == 0
    assert set(typer.main.get_command(app).commands) <= set(capsys.readouterr().out.split())


def test_help_loads_no_numerical_library():
    commands = "demo", "fit", "adapt", "report", "status"
    calls = "; ".join(f"main(['{command}', '--help'])" for command in commands)
    code = f"import sys; from accous.cli import main; {calls}; print(*sys.modules, sep='\\n')"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Usage: accous status" in run.stdout
    assert not set(run.stdout.split()) & {"numpy", "scipy", "sklearn", "matplotlib", "polars", "plotly"}


def test_it_runs_as_a_module(forks):
    assert forks.run("accous", "demo", "--simulated", "--rounds", "0", check=2).stderr.startswith("accous: --rounds")


@pytest.mark.parametrize(("typed", "expected"), [("accous st", "status"), ("accous adapt --sa", "--save-every")])
def test_the_shell_completes_commands_and_options(typed, expected, forks):
    asked = {"_ACCOUS_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    assert forks.run("accous", env=os.environ | asked).stdout.split() == [expected]


def commands_of(text: str) -> list[list[str]]:
    return [shlex.split(line, comments=True)[1:] for line in re.findall(r"^\$ (accous .*)$", text, re.MULTILINE)]


def test_every_command_and_option_of_the_guides_exists():
    commands = typer.main.get_command(app).commands
    for page in (ROOT / "README.md", DOCS / "cli.md", DOCS / "benchmark.md"):
        assert commands_of(page.read_text())
        for name, *arguments in commands_of(page.read_text()):
            command = commands[name].commands[arguments.pop(0)] if name == "bench" else commands[name]
            options = {option for parameter in command.params for option in parameter.opts}
            assert {argument for argument in arguments if argument.startswith("--")} <= options, (name, arguments)
    parameters = [parameter for command in commands.values() for parameter in command.params]
    known = {option for parameter in parameters for option in (*parameter.opts, *parameter.secondary_opts)}
    mentioned = set(re.findall(r"`(--[a-z-]+)", (DOCS / "cli.md").read_text()))
    assert mentioned <= known | {"--install-completion", "--help"}


# --- the notice while the inner loops are compiled --------------------------------------------------------------


@pytest.fixture
def new_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """All kernels are compiled but one, which no cache can hold: numba keeps none of functions without a file."""
    compile_all()
    monkeypatch.setattr(compiled, "_kernels", list(compiled._kernels))
    namespace: dict[str, object] = {}
    exec("def plus_one(x):\n    return x + 1.0", namespace)
    kernel(float64, float64)(namespace["plus_one"])  # type: ignore[arg-type]


def notice(**how: bool) -> str:
    stream = io.StringIO()
    with announcing_compilation(Console(file=stream, width=100, **how)):
        compile_all()
    return stream.getvalue()


@needs_compilation
@pytest.mark.usefixtures("new_kernel")
@pytest.mark.parametrize("is_terminal", [True, False])
def test_the_notice_is_shown_once_where_something_is_compiled(is_terminal):
    said = notice(force_terminal=is_terminal)
    assert said.count("Compiling inner loops") == 1
    assert "Compiling took" in said
    assert "Compiling" not in notice(force_terminal=is_terminal)


@needs_compilation
@pytest.mark.usefixtures("new_kernel")
def test_nothing_is_collected_while_the_compiler_runs_and_the_notice_says_its_seconds(monkeypatch):
    clock, is_collecting = iter([3.0, 7.5]), []
    monkeypatch.setattr(
        "accous.cli.options.time.process_time", lambda: is_collecting.append(gc.isenabled()) or next(clock)
    )
    assert " 4.5 seconds" in notice()
    assert (is_collecting, gc.isenabled()) == ([False, False], True)


@pytest.mark.usefixtures("new_kernel")
def test_no_notice_where_quiet_is_asked_for():
    assert notice(quiet=True) == ""
