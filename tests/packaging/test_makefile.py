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
    (tmp_path / "env").mkdir()
    return tmp_path / "env"


def test_the_demo_needs_no_tools_and_no_torch_and_the_tests_add_the_rest(environment):
    planned = commands("demo", environment, "PYTHON=python3.99")
    assert planned.count("pip install") == 1
    assert "--editable '.[cli,plot]'" in planned
    assert "torch" not in planned
    assert '"python3.99" -m venv' in planned
    planned = commands("test", environment)
    assert planned.count("pip install") == planned.count("That takes") == 2
    both = [planned.index(each) for each in ("That takes", "'.[cli,plot]'", "'.[dev]' --editable ./bench torch==")]
    assert both == sorted(both)
    assert "'.[dev]' --editable ./bench \n" in commands("test", environment, "DEEP=")


def test_the_site_needs_no_torch_and_uses_what_is_set_up(environment):
    planned = commands("docs", environment)
    assert "'.[docs]' --editable ./bench" in planned
    assert "torch==" not in planned
    for stamp in STAMPS:
        (environment / stamp).touch()
    assert "pip install" not in commands("docs", environment)
