"""``accous bench`` as a user types it."""

from __future__ import annotations

import json
import os
import pty
from dataclasses import replace
from pathlib import Path

import pytest

from accous.checkpoint.files import exclusive_lock
from accous.cli import main
from accous_bench.problems import get_problem
from tests.forks import ForkServer
from tests.talking import read_terminal

SPEC = """
datasets = ["gaussian"]
shifts = ["Lin"]
batch_sizes = [2]
rounds = [12]
contenders = ["FIX", "Accous"]
seeds = 2
[options.gaussian]
n_reference = 50
"""


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.toml"
    path.write_text(SPEC.lstrip())
    return path


def test_run_writes_a_line_per_run_and_says_what_comes_next(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "run", str(spec)]) == 0
    lines = Path("results/mine/mine.jsonl").read_text().splitlines()
    assert len(lines) == 4
    assert {json.loads(line)["contender"] for line in lines} == {"FIX", "Accous"}
    errors = capsys.readouterr().err
    assert "4 of 4 runs to do" in errors
    assert "accous bench report results/mine" in errors
    assert main(["bench", "run", str(spec)]) == 0
    assert "0 of 4 runs to do" in capsys.readouterr().err
    assert len(Path("results/mine/mine.jsonl").read_text().splitlines()) == 4


def test_only_a_part_and_json(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--contenders", "Accous", "--seeds", "1", "--rounds", "6", "-o", "here", "--json", "-q"]
    assert main(["bench", "run", str(spec), *arguments]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"file": "here/mine.jsonl", "done": 1, "failed": 0}
    assert captured.err == ""
    row = json.loads(Path("here/mine.jsonl").read_text())
    assert (row["contender"], row["seed"], row["n_rounds"]) == ("Accous", 1, 6)


@pytest.mark.parametrize("is_quiet", [False, True])
def test_a_slow_preparation_is_announced_unless_quiet(
    is_quiet: bool, spec: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = replace(get_problem("gaussian"), patience="takes minutes")
    monkeypatch.setattr("accous_bench.spec.get_problem", lambda _: slow)
    assert main(["bench", "run", str(spec), "--json", *(["-q"] if is_quiet else [])]) == 0
    printed = capsys.readouterr()
    assert ("gaussian: takes minutes" in printed.err) is not is_quiet
    assert json.loads(printed.out)["done"] == 4


def test_failed_runs_give_exit_code_1_and_are_named(
    spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from accous_bench import contenders

    monkeypatch.setattr(contenders, "_CONTENDERS", dict(contenders._CONTENDERS))
    (tmp_path / "mine.py").write_text(
        "from accous import AdaptiveClassifier\n"
        "from accous_bench.contenders import Contender, register\n"
        "register(Contender('wrong', lambda seed: AdaptiveClassifier(C=-1.0)))\n"
    )
    spec.write_text('plugins = ["mine.py"]\n' + spec.read_text().replace('"Accous"', '"wrong"'))
    assert main(["bench", "run", str(spec)]) == 1
    errors = capsys.readouterr().err
    assert "2 of 4 runs failed" in errors
    assert "wrong on gaussian, Lin, batches of 2, seed 0: C must be a finite number above 0" in errors


def test_two_benchmarks_do_not_write_into_one_folder(spec: Path, forks: ForkServer) -> None:
    Path("here").mkdir()
    with exclusive_lock(Path("here"), "accous bench run"):
        second = forks.run("accous", "bench", "run", spec, "-o", "here", "-q", check=1)
    assert f"in use by process {os.getpid()} (accous bench run)" in second.stderr
    assert not Path("here/mine.jsonl").exists()


def test_list_names_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "list"]) == 0
    text = capsys.readouterr().out
    for name in ("table1", "table2", "table3", "figures", "natural", "smoke", "Accous", "oracle", "diabetes"):
        assert name in text
    assert main(["bench", "list", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["specs"]["table3"]["runs"] == 4 * 2 * 20 * 5
    assert record["datasets"]["gas_sensor"] == ["natural"]


def test_on_a_terminal_there_is_a_bar_with_the_time_left(spec: Path, forks: ForkServer) -> None:
    leader, follower = pty.openpty()
    environment = {**os.environ, "COLUMNS": "100", "TERM": "xterm"}
    with forks.start("accous", "bench", "run", spec, stderr=follower, env=environment) as process:
        os.close(follower)
        text = read_terminal(leader).decode(errors="replace")
        assert process.wait() == 0
    assert "4/4" in text
    assert "left" in text


QUICK = "FIX,Accous,oracle"
ALL = "FIX,DANN,KMM,KLIEP,uLSIF,LR,OLRE,Accous,oracle"


@pytest.mark.parametrize("contenders", [QUICK, pytest.param(ALL, marks=pytest.mark.slow)])
def test_smoke_adapts_and_takes_seconds(tmp_path: Path, contenders: str, forks: ForkServer) -> None:
    if "DANN" in contenders:
        pytest.importorskip("torch", reason="needs PyTorch: pip install 'accous[deep]'")
    forks.run("accous", "bench", "run", "smoke", "-o", tmp_path, "-q", "--contenders", contenders)
    rows = [json.loads(line) for line in (tmp_path / "smoke.jsonl").read_text().splitlines()]
    assert all(row["status"] == "done" for row in rows)
    error = {row["contender"]: row["risk"] for row in rows if row["dataset"] == "gaussian" and row["shift"] == "Squ"}
    assert error["oracle"] < error["Accous"] < error["FIX"]
