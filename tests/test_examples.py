"""Every example runs as it stands, without a warning, and what it prints is true."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def output_of(name: str, folder: Path) -> str:
    """What the example prints, run in an empty folder with warnings as errors."""
    command = [sys.executable, "-W", "error", str(EXAMPLES / name)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert run.returncode == 0, run.stderr
    assert not list(folder.iterdir()), "an example leaves no files behind"
    return run.stdout


def test_every_example_is_tested():
    tested = re.findall(r'output_of\("(\w+\.py)"', Path(__file__).read_text(encoding="utf-8"))
    assert sorted(tested) == sorted(file.name for file in EXAMPLES.glob("*.py"))


def test_pipeline_with_categories(tmp_path):
    printed = output_of("pipeline_with_categories.py", tmp_path)
    right = {name: int(percent) for name, percent in re.findall(r"(\w+) +(\d+)% right", printed)}
    assert right.keys() == {"fixed", "adapted"}
    assert right["adapted"] >= right["fixed"] + 10


def test_one_row_at_a_time(tmp_path):
    printed = output_of("one_row_at_a_time.py", tmp_path)
    rows = re.findall(r"(\d+) rows of the (\w+) population: wrong on (\d+) \(fixed\) and (\d+) \(adapted\)", printed)
    n_wrong = {kind: (int(n_fixed), int(n_adapted)) for _, kind, n_fixed, n_adapted in rows}
    n_fixed, n_adapted = n_wrong["rare"]
    assert n_adapted < 0.9 * n_fixed
    n_fixed, n_adapted = n_wrong["common"]
    assert n_adapted < 1.1 * n_fixed


def test_save_and_resume(tmp_path):
    printed = output_of("save_and_resume.py", tmp_path)
    assert "after round 150" in printed
    assert re.search(r"After round 300 .* bit for bit", printed)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_every_example_says_what_it_shows(path):
    assert path.read_text(encoding="utf-8").startswith('"""')
