"""`accous demo` prints honest numbers, draws a picture, and fails in one sentence."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import accous
from accous.cli import main
from accous.cli.demo_picture import DARK, LIGHT, draw_race, rolling_mean
from accous.cli.demo_race import ACCOUS, FIXED, ONE_STEP, ORACLE, SINGLE, Race, make_stream, run_race
from tests.budgets import rest_slow

SHORT = ["demo", "--rounds", "20"]


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


def make_race(shift: str = "squ", **errors: float) -> Race:
    """A race of 80 rounds in which every contender's error is constant."""
    stream = make_stream(shift, n_rounds=80, batch_size=1, seed=0)
    names = {"fixed": FIXED, "single": SINGLE, "ours": ACCOUS, "oracle": ORACLE}
    return Race(stream, {name: np.full(80, errors[key]) for key, name in names.items()})


# --- the command -----------------------------------------------------------------------------------------------


def test_demo_prints_a_table_and_a_finding_and_draws_a_picture(tmp_path, capsys):
    assert main([*SHORT, "-o", "picture.png"]) == 0
    printed = capsys.readouterr()
    rows = [line for line in printed.out.splitlines() if line.startswith("│")]
    for name, row in zip((FIXED, ONE_STEP, SINGLE, ACCOUS, ORACLE), rows, strict=True):
        assert name in row
        assert "%" in row
    assert "the fixed model errs on" in printed.out
    assert printed.err == "Picture: picture.png\nReport: demo.html\n"
    assert "<h2>" in (tmp_path / "demo.html").read_text()
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_json_is_all_that_stdout_gets(capsys):
    assert main([*SHORT, "--json", "--shift", "ber", "--seed", "3", "--batch-size", "2"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert {key: record[key] for key in ("shift", "rounds", "batch_size", "seed")} == {
        "shift": "ber",
        "rounds": 20,
        "batch_size": 2,
        "seed": 3,
    }
    assert [row["name"] for row in record["contenders"]] == [FIXED, ONE_STEP, SINGLE, ACCOUS, ORACLE]
    assert all(0.0 < row["mean_error"] < 0.5 for row in record["contenders"])
    assert record["finding"]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_numbers_and_another_seed_others(capsys):
    outputs = []
    for seed in ("0", "0", "1"):
        assert main([*SHORT, "--json", "--seed", seed]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != outputs[2]


def test_quiet_leaves_only_the_table(capsys):
    assert main([*SHORT, "--quiet"]) == 0
    printed = capsys.readouterr()
    assert ACCOUS in printed.out
    assert "errs on" not in printed.out
    assert printed.err == ""


def test_the_picture_has_a_look_for_dark_pages():
    race = make_race(fixed=0.4, single=0.3, ours=0.25, oracle=0.2)
    light, dark = (draw_race(race, "svg", look).decode().lower() for look in (LIGHT, DARK))
    assert draw_race(race, "svg").decode().count(LIGHT.fixed.lower()) == light.count(LIGHT.fixed.lower()) > 0
    assert all(colour.lower() in dark for colour in (DARK.fixed, DARK.accous, DARK.ink, DARK.ground))
    assert LIGHT.fixed.lower() not in dark


def test_without_matplotlib_the_table_comes_with_a_hint(tmp_path, capsys, monkeypatch):
    monkeypatch.delitem(sys.modules, "accous.cli.demo_picture")
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(SHORT) == 0
    printed = capsys.readouterr()
    assert ACCOUS in printed.out
    assert "accous[plot]" in printed.err
    assert printed.err.count("\n") == 2
    assert [path.name for path in tmp_path.iterdir()] == ["demo.html"]


@pytest.mark.parametrize("form", rest_slow([[], ["--json"]]))
def test_a_picture_that_cannot_be_written_costs_no_numbers(form, capsys):
    assert main([*SHORT, "-o", "nowhere/picture.png", *form]) == 1
    printed = capsys.readouterr()
    assert ACCOUS in printed.out
    sentence = "the picture could not be written to nowhere/picture.png: No such file or directory"
    assert printed.err == f"accous: {sentence}.\nReport: demo.html\n"


def test_a_report_that_cannot_be_written_costs_no_numbers(capsys):
    assert main([*SHORT, "--report", "nowhere/demo.html"]) == 1
    printed = capsys.readouterr()
    assert ACCOUS in printed.out
    assert "The report could not be written to nowhere/demo.html: No such file or directory" in printed.err


@pytest.mark.parametrize("shift", rest_slow(["lin", "squ", "sin", "ber"]))
@pytest.mark.parametrize("rounds", rest_slow("129"))
def test_the_shortest_streams_run(shift, rounds, capsys):
    assert main(["demo", "--rounds", rounds, "--shift", shift, "-o", "short.svg"]) == 0
    assert ACCOUS in capsys.readouterr().out


def test_the_stream_can_be_had_as_tables_to_try_the_other_commands_on(tmp_path, capsys):
    assert main(["demo", "--rounds", "80", "--tables", "tables", "--batch-size", "5"]) == 0
    assert capsys.readouterr().err == "Tables: tables/reference.csv and tables/stream.csv\n"
    fit = ["fit", "tables/reference.csv", "--label", "label", "-o", "model", "--json", "--estimator", "linear"]
    assert main(fit) == 0
    assert json.loads(capsys.readouterr().out)["features"] == 12
    assert (
        main(["adapt", "model", "tables/stream.csv", "-o", "predictions.csv", "--keep", "day", "--label", "label"]) == 0
    )
    assert (tmp_path / "predictions.csv").read_text().count("\n") == 401
    assert main([*SHORT, "--tables", "tables"]) == 1
    assert "already exists: give another folder" in capsys.readouterr().err


# --- the root command ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_alone_or_asked_for_help_it_lists_the_commands(arguments, capsys):
    assert main(arguments) == 0
    assert "demo" in capsys.readouterr().out


def test_version(capsys, monkeypatch):
    monkeypatch.setitem(vars(accous), "__version__", "1.2.3")
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == "accous 1.2.3\n"


def test_help_loads_no_numerical_library():
    commands = "demo", "fit", "adapt", "report", "inspect"
    calls = "; ".join(f"main(['{command}', '--help'])" for command in commands)
    code = f"import sys; from accous.cli import main; {calls}; print(*sys.modules, sep='\\n')"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Usage: accous inspect" in run.stdout
    assert not set(run.stdout.split()) & {"numpy", "scipy", "sklearn", "matplotlib", "polars", "plotly"}


def test_it_runs_as_a_module(forks):
    run = forks.run("accous", "demo", "--rounds", "0", check=2)
    assert run.stderr.startswith("accous: --rounds")


@pytest.mark.parametrize(("typed", "expected"), [("accous in", "inspect"), ("accous adapt --sa", "--save-every")])
def test_the_shell_completes_commands_and_options(typed, expected, forks):
    asked = {"_ACCOUS_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    assert forks.run("accous", env=os.environ | asked).stdout.split() == [expected]


# --- what the numbers say --------------------------------------------------------------------------------------


def test_accous_follows_the_drift_and_the_fixed_model_does_not():
    race = run_race(make_stream("squ", n_rounds=200, batch_size=5, seed=0))
    assert race.rare_error(FIXED) - race.rare_error(ACCOUS) > 0.05
    assert race.gap_closed(FIXED) == 0.0
    assert race.gap_closed(ORACLE) == 1.0
    assert race.gap_closed(ACCOUS) > 0.5


def test_the_labels_come_late_and_are_only_measured_with():
    race = run_race(make_stream("squ", n_rounds=300, batch_size=1, seed=0))
    assert race.model.measured_.n_labelled == 300
    quiet = accous.AdaptiveClassifier(standardize=False).fit(*race.stream.reference())
    for batch in race.stream:
        quiet.adapt(batch.X)
    assert np.array_equal(quiet.estimator_.coef_, race.model.estimator_.coef_)


def test_every_model_is_scored_before_it_learns_from_the_round():
    errors = run_race(make_stream("sin", n_rounds=2, batch_size=5, seed=0)).errors
    assert errors[ACCOUS][0] == errors[SINGLE][0] == errors[FIXED][0]


def test_gap_closed_is_a_share_of_the_way_from_fixed_to_oracle():
    race = make_race(fixed=0.4, single=0.35, ours=0.25, oracle=0.2)
    assert race.gap_closed(SINGLE) == pytest.approx(0.25)
    assert race.gap_closed(ACCOUS) == pytest.approx(0.75)


def test_the_finding_is_what_was_found():
    usual = make_race(fixed=0.4, single=0.35, ours=0.25, oracle=0.2).finding()
    assert "the fixed model errs on 40% of the rows, accous on 25%" in usual
    assert "closed 75% of the gap" in usual
    assert "10.0 points more errors" in usual
    assert "does as well" in make_race(fixed=0.4, single=0.25, ours=0.25, oracle=0.2).finding()
    assert "5.0 points fewer errors" in make_race(fixed=0.4, single=0.2, ours=0.25, oracle=0.2).finding()
    assert "did not help" in make_race(fixed=0.3, single=0.35, ours=0.35, oracle=0.2).finding()
    assert "nothing to gain" in make_race(fixed=0.3, single=0.3, ours=0.3, oracle=0.3).finding()


def test_rolling_mean_is_the_mean_of_the_last_values():
    assert rolling_mean(np.array([1.0, 3.0, 5.0, 9.0]), 2) == pytest.approx([1.0, 2.0, 4.0, 7.0])


@pytest.mark.parametrize(("image_format", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_pictures_come_in_three_formats(image_format, start):
    race = make_race(fixed=0.4, single=0.35, ours=0.25, oracle=0.2)
    assert draw_race(race, image_format).startswith(start)


def test_the_last_labels_of_a_race_are_measured_with():
    race = run_race(make_stream("sin", n_rounds=21, batch_size=3, seed=0))
    assert race.model.measured_.n_labelled == 63
