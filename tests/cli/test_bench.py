"""``accous bench`` as a user types it."""

import json
import os
from pathlib import Path

import pytest

from accous import cli
from accous.checkpoint.files import exclusive_lock
from accous.cli import main
from accous_bench import contenders
from tests.bench.rows import make_failure, table_rows

SPEC = """datasets = ["gaussian"]
shifts = ["Lin"]
batch_sizes = [2]
rounds = [12]
contenders = ["FIX", "accous"]
seeds = 2
[options.gaussian]
n_reference = 50
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(SPEC)


def rows_of(path: str) -> list[dict]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_run_writes_a_line_per_run_and_does_nothing_twice(capsys):
    for n_done in (4, 0):
        assert main(["bench", "run", "mine.toml"]) == 0
        rows = rows_of("results/mine/mine.jsonl")
        assert len(rows) == 4
        assert {row["contender"] for row in rows} == {"FIX", "accous"}
        assert f"{n_done} of 4" in capsys.readouterr().err


def test_only_a_part_and_json(capsys):
    arguments = ["--contenders", "accous", "--seeds", "1", "--rounds", "6", "-o", "here", "--json", "-q"]
    assert main(["bench", "run", "mine.toml", *arguments]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"file": "here/mine.jsonl", "done": 1, "failed": 0}
    assert captured.err == ""
    (row,) = rows_of("here/mine.jsonl")
    assert (row["contender"], row["seed"], row["n_rounds"]) == ("accous", 1, 6)


def test_failed_runs_give_exit_code_1_and_are_named(capsys, monkeypatch):
    monkeypatch.setattr(contenders, "_CONTENDERS", dict(contenders._CONTENDERS))
    Path("mine.py").write_text(
        "from accous import AdaptiveClassifier\n"
        "from accous_bench.contenders import Contender, register\n"
        "register(Contender('wrong', lambda seed: AdaptiveClassifier(C=-1.0)))\n"
    )
    Path("mine.toml").write_text('plugins = ["mine.py"]\n' + SPEC.replace('"accous"', '"wrong"'))
    assert main(["bench", "run", "mine.toml", "--json"]) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out)["failed"] == 2
    assert "wrong on gaussian, Lin, batches of 2, seed 0" in printed.err


def test_two_benchmarks_do_not_write_into_one_folder(forks):
    Path("here").mkdir()
    with exclusive_lock(Path("here"), "accous bench run"):
        second = forks.run("accous", "bench", "run", "mine.toml", "-o", "here", "-q", check=1)
    assert f"process {os.getpid()} (accous bench run)" in second.stderr
    assert not Path("here/mine.jsonl").exists()


def test_list_names_everything(capsys):
    assert main(["bench", "list", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["specs"]["table3"]["runs"] == 4 * 2 * 20 * 5
    assert record["specs"].keys() >= {"table1", "table2", "table3", "figures", "natural", "smoke"}
    assert record["datasets"]["gas_sensor"] == ["natural"]


QUICK, ALL = "FIX,accous,oracle", "FIX,DANN,KMM,KLIEP,uLSIF,LR,OLRE,accous,oracle"


@pytest.mark.parametrize("names", [QUICK, pytest.param(ALL, marks=pytest.mark.slow)])
def test_smoke_adapts_and_takes_seconds(names, forks):
    if "DANN" in names:
        pytest.importorskip("torch", reason="needs PyTorch: pip install 'accous[deep]'")
    forks.run("accous", "bench", "run", "smoke", "-o", ".", "-q", "--contenders", names)
    rows = rows_of("smoke.jsonl")
    assert all(row["status"] == "done" for row in rows)
    error = {row["contender"]: row["risk"] for row in rows if row["dataset"] == "gaussian" and row["shift"] == "Squ"}
    assert error["oracle"] < error["accous"] < error["FIX"]


def test_a_sample_is_repeated_and_compared_with_what_is_stored(capsys):
    compare = ["bench", "report", "stored.json", "--repeated", "again", "-o", "out", "--no-figures"]
    assert main(["bench", "run", "mine.toml", "-q"]) == main(["bench", "report", "--no-figures"]) == 0
    stored = Path("bench-report/aggregates.json").read_text()
    error = json.loads(stored)["cells"][0]["contenders"][1]["error"][0]
    Path("stored.json").write_text(stored.replace(f"[{error},", f"[{error + 0.25},"))
    for share, found in (("0.4", ": the same"), ("0.9", "1 the same, the others within 25 points")):
        assert main(["bench", "run", "mine.toml", "--share", share, "-o", "again"]) == main(compare) == 0
        assert found in Path("out/report.md").read_text()
    Path("stored.json").write_text(stored.replace('"accous"', '"other"'))
    assert main(compare) == 1
    assert "accous on gaussian, Lin, seed" in capsys.readouterr().err
    assert main(["bench", "run", "mine.toml", "--share", "0"]) == 2


# --- the report -------------------------------------------------------------------------------------------------


@pytest.fixture
def results():
    folder = Path("results/table3")
    folder.mkdir(parents=True)
    rows = [*table_rows(n_seeds=2, shifts=("Squ",), batch_sizes=(1,)), make_failure("mine", 0)]
    (folder / "table3.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder)


def test_report_says_what_it_has_written(results, capsys):
    assert main(["bench", "report", results, "-o", "out"]) == 0
    printed = capsys.readouterr().out.split()
    assert {"out/report.md", "out/aggregates.json", "out/tables/wins.csv"} <= set(printed)
    assert all(Path(path).is_file() for path in printed)
    assert "19 runs, 1 failed" in Path("out/report.md").read_text()
    assert Path("out/figures/comparison-gaussian-1000.png").is_file()


@pytest.mark.usefixtures("results")
def test_without_a_folder_all_results_are_taken_and_quiet_says_nothing(capsys):
    assert main(["bench", "report", "-q", "--no-figures"]) == 0
    assert "".join(capsys.readouterr()) == ""
    assert Path("bench-report/report.md").is_file()
    assert not Path("bench-report/figures").exists()


def test_without_any_results_it_says_so(tmp_path, capsys):
    assert main(["bench", "report"]) == 2
    assert main(["bench", "report", str(tmp_path), "-o", "out"]) == 1
    assert capsys.readouterr().err.count("\n") == 2


@pytest.mark.parametrize("words", [[], ["run", "smoke", "-q"]])
def test_without_the_package_one_line_says_what_to_install(words, monkeypatch, capsys):
    monkeypatch.setattr(cli, "entry_points", lambda **_: ())
    monkeypatch.setattr(cli, "app", cli.make_app())
    assert main(["bench", *words]) == 1
    error = capsys.readouterr().err
    assert "accous-bench" in error
    assert error.count("\n") == 1


def test_a_plug_in_that_cannot_be_loaded_takes_no_other_command_with_it(monkeypatch, capsys):
    class Broken:
        name = "bench"

        def load(self):
            raise ImportError("no module of that name")

    monkeypatch.setattr(cli, "entry_points", lambda **_: [Broken()])
    monkeypatch.setattr(cli, "app", cli.make_app())
    assert main(["bench", "list"]) == 1
    assert "no module of that name" in capsys.readouterr().err
    assert main(["status", "gone"]) == 1
