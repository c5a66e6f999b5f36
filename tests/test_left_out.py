"""What is not tested says so: every reason tells what to do, and the end of a run counts what was left out."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import needs

ROOT = Path(__file__).resolve().parents[1]
SKIPPING = {"skip", "skipif", "importorskip"}

TESTS = """
import pytest

@pytest.mark.parametrize("number", range(3))
@pytest.mark.skipif(True, reason="needs a moon: wait for the night")
def test_of_the_moon(number): ...

def test_of_the_sun():
    pytest.importorskip("no_such_sun", reason="needs a sun: wait for the day")

def test_that_runs(): ...

@pytest.mark.xfail(raises=ZeroDivisionError)
def test_that_fails_as_expected():
    1 / 0
"""
WHOLE_FILE = """
import pytest

pytest.importorskip("no_such_moon", reason="needs a moon: wait for the night")
"""
WITHOUT_TORCH = """
import importlib.util
import sys

find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "torch" else find_spec(name, *rest)
sys.modules["torch"] = None
"""


def last_lines(*arguments: str, paths: tuple[Path, ...] = ()) -> list[str]:
    """What a run of pytest in another process says from its short summary on."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "pyproject.toml", *arguments]
    python_path = os.pathsep.join([*map(str, paths), *sys.path])
    environment = {**os.environ, "PYTHONPATH": python_path, "COLUMNS": "200"}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    lines = run.stdout.splitlines()
    return lines[next((i for i, line in enumerate(lines) if "short test summary" in line), 0) :]


@pytest.mark.parametrize(
    "workers", [pytest.param([], id="alone", marks=pytest.mark.slow), pytest.param(["-n", "1"], id="xdist")]
)
def test_a_run_ends_with_one_line_for_each_thing_that_is_missing(tmp_path: Path, workers: list[str]) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "test_whole.py").write_text(WHOLE_FILE)
    lines = last_lines(f"--confcutdir={ROOT}", "-p", "conftest", str(tmp_path), *workers)
    assert lines[-3:-1] == [
        "3 tests and 1 file were left out (needs a moon): wait for the night",
        "1 test was left out (needs a sun): wait for the day",
    ]
    assert "1 passed, 5 skipped, 1 xfailed" in lines[-1]


def test_files_that_cannot_be_imported_without_torch_are_counted(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_TORCH)
    found = last_lines("src/accous/deep/networks.py", "src/accous/deep/networks.py", paths=(tmp_path,))
    assert "2 files were left out (needs PyTorch): pip install 'accous[deep]'" in found


def reasons_in(path: Path) -> Iterator[str]:
    """The reasons of a file's skips: constants, those of `tests.needs` by name."""
    text = path.read_text(encoding="utf-8")
    if not any(f".{name}(" in text for name in SKIPPING):  # most files: reading them as code takes a second
        return
    for call in ast.walk(ast.parse(text)):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in SKIPPING:
            named = {keyword.arg: keyword.value for keyword in call.keywords}
            reason = named.get("reason", call.args[0] if call.func.attr == "skip" and call.args else None)
            if isinstance(reason, ast.Name):
                yield getattr(needs, reason.id)
            else:
                yield str(reason.value) if isinstance(reason, ast.Constant) else ""


def test_every_reason_says_what_is_needed_and_what_to_do() -> None:
    found = [(path.name, reason) for path in sorted((ROOT / "tests").rglob("*.py")) for reason in reasons_in(path)]
    assert len(found) > 20
    assert [(name, reason) for name, reason in found if not (reason.startswith("needs ") and ": " in reason)] == []
