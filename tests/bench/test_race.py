"""`accous bench race`: honest numbers of five classifiers on a simulated stream, and a picture of them."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import accous
from accous.cli import main
from accous.cli.simulated import make_stream
from accous_bench.race import ACCOUS, FIXED, ONE_STEP, ORACLE, SINGLE, Race, draw_race, run_race
from tests.budgets import rest_slow

SHORT = ["bench", "race", "--rounds", "20"]


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
    assert printed.err.split()[-4:] == ["Picture:", "picture.png", "Report:", "race.html"]
    assert "<h2>" in Path("race.html").read_text()
    assert Path("picture.png").read_bytes().startswith(b"\x89PNG")


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


def test_without_matplotlib_the_table_comes_with_a_hint(tmp_path, capsys, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(SHORT) == 0
    printed = capsys.readouterr()
    assert ACCOUS in printed.out
    assert "accous[plot]" in printed.err
    assert [path.name for path in tmp_path.iterdir()] == ["race.html"]


@pytest.mark.parametrize("options", [["-o", "nowhere/picture.png"], ["--report", "nowhere/race.html"]])
def test_what_cannot_be_written_costs_no_numbers(options, capsys):
    assert main([*SHORT, *options, "--json"]) == 1
    printed = capsys.readouterr()
    assert len(json.loads(printed.out)["contenders"]) == 5
    assert options[1] in printed.err


@pytest.mark.parametrize("shift", rest_slow(["lin", "squ", "sin", "ber"]))
@pytest.mark.parametrize("rounds", rest_slow("129"))
def test_the_shortest_streams_run(shift, rounds, capsys):
    assert main(["bench", "race", "--rounds", rounds, "--shift", shift, "-o", "short.svg"]) == 0
    assert ACCOUS in capsys.readouterr().out


# --- what the numbers say --------------------------------------------------------------------------------------


def test_accous_follows_the_drift_and_the_fixed_model_does_not():
    race = run_race(make_stream("squ", n_rounds=200, batch_size=5, seed=0))
    assert race.rare_error(FIXED) - race.rare_error(ACCOUS) > 0.05
    assert (race.gap_closed(FIXED), race.gap_closed(ORACLE)) == (0.0, 1.0)
    assert race.gap_closed(ACCOUS) > 0.5
    # Every model is scored before it learns from the round.
    assert race.errors[ACCOUS][0] == race.errors[SINGLE][0] == race.errors[FIXED][0]


@pytest.mark.parametrize(("n_rounds", "batch_size"), [(300, 1), (21, 3)])
def test_all_labels_come_late_and_are_only_measured_with(n_rounds, batch_size):
    race = run_race(make_stream("squ", n_rounds=n_rounds, batch_size=batch_size, seed=0))
    assert len(race.model.state_.labelled) == n_rounds * batch_size
    quiet = accous.AdaptiveClassifier(standardize=False).fit(*race.stream.reference())
    for batch in race.stream:
        quiet.adapt(batch.X)
    assert np.array_equal(quiet.estimator_.coef_, race.model.estimator_.coef_)


def test_gap_closed_is_a_share_of_the_way_from_fixed_to_oracle():
    race = make_race(fixed=0.4, single=0.35, ours=0.25, oracle=0.2)
    assert race.gap_closed(SINGLE) == pytest.approx(0.25)
    assert race.gap_closed(ACCOUS) == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("fixed", "single", "ours", "oracle", "found"),
    [
        (0.4, 0.35, 0.25, 0.2, "10.0 points more"),
        (0.4, 0.25, 0.25, 0.2, "as well"),
        (0.4, 0.2, 0.25, 0.2, "5.0 points fewer"),
        (0.3, 0.35, 0.35, 0.2, "did not help"),
        (0.3, 0.3, 0.3, 0.3, "nothing to gain"),
    ],
)
def test_the_finding_is_what_was_found(fixed, single, ours, oracle, found):
    assert found in make_race(fixed=fixed, single=single, ours=ours, oracle=oracle).finding()


def test_pictures_come_in_three_formats():
    race = make_race(fixed=0.4, single=0.3, ours=0.25, oracle=0.2)
    for image_format, start in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
        assert draw_race(race, image_format).startswith(start)
