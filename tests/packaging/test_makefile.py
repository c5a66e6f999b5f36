"""The demo sets up only what it needs, the tests the rest, in one environment; set up once, neither costs anything."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.packaging.wheels import ROOT

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make: install GNU make")
STAMPS = (".installed-demo", ".installed")


def commands(target: str, environment: Path, *settings: str) -> str:
    """What make would run, in a process that knows nothing of the make that may run the tests."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "DEEP"))}
    command = ["make", "--dry-run", "--no-print-directory", target, f"VENV={environment}", *settings]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, env=variables).stdout


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    return tmp_path / "env"


def stamp(environment: Path, *names: str) -> None:
    environment.mkdir()
    for name in names:
        (environment / name).touch()


def test_the_demo_needs_no_tools_and_no_torch(environment):
    planned = commands("demo", environment)
    assert planned.count("pip install") == 1
    assert "--editable '.[cli,plot]'" in planned
    assert "torch" not in planned


@pytest.mark.parametrize(("target", "n_steps"), [("demo", 1), ("test", 2)])
def test_a_line_says_what_is_installed_before_a_silent_minute(target, n_steps, environment):
    planned = commands(target, environment).splitlines()
    installs = [number for number, line in enumerate(planned) if "pip install" in line]
    said = [number for number, line in enumerate(planned) if line.startswith("echo ") and "That takes" in line]
    assert len(said) == len(installs) == n_steps
    assert all(one < other for one, other in zip(said, installs, strict=True))


def test_the_tests_need_both_steps_in_order(environment):
    planned = commands("test", environment)
    assert planned.count("pip install") == 2
    assert planned.index("'.[cli,plot]'") < planned.index("'.[dev]' --editable ./bench torch==")
    assert "'.[dev]' --editable ./bench \n" in commands("test", environment, "DEEP=")


def test_after_the_demo_the_tests_add_the_rest(environment):
    stamp(environment, STAMPS[0])
    planned = commands("test", environment)
    assert planned.count("pip install") == 1
    assert "'.[dev]'" in planned
    assert "-m venv" not in planned


@pytest.mark.parametrize("target", ["demo", "test"])
def test_an_environment_that_is_there_costs_nothing(target, environment):
    stamp(environment, *STAMPS)
    assert "pip install" not in commands(target, environment)


def test_another_interpreter_can_be_named(environment):
    assert '"python3.99" -m venv' in commands("demo", environment, "PYTHON=python3.99")
