"""Every kept result says when it was measured, and the page of benchmarks shows it."""

import json
import re

import pytest

from benchmarks import record
from benchmarks.dates import BEGIN, END, PAGE, PAGES, known_origin
from benchmarks.record import FOLDER, origin, write_results
from benchmarks.speed_page import speed_markdown
from tests.docs_pages import DOCS

DAY = r"\d{4}-\d\d-\d\d"
NAMES = sorted(path.stem for path in FOLDER.iterdir() if path.suffix == ".json" or path.name == "gallery")


def test_results_are_written_with_their_origin(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "FOLDER", tmp_path / "project" / "results")
    record.FOLDER.parent.mkdir()
    path = tmp_path / write_results("speed", [1])
    written = json.loads(path.read_text())
    assert written["rows"] == [1]
    assert re.fullmatch(DAY, written["measured_with"]["date"])
    assert {"commit", "accous", "numpy", "machine"} <= set(origin())
    assert known_origin(path) == (origin()["date"], origin()["accous"])


@pytest.mark.parametrize("name", NAMES)
def test_the_page_says_when_it_was_measured(name):
    assert name in PAGES, f"{name} needs its page in benchmarks/dates.py"
    file = name if name == "gallery" else f"{name}.json"
    table = PAGE.read_text(encoding="utf-8").split(BEGIN)[1].split(END)[0]
    (line,) = (line for line in table.splitlines() if line.startswith(f"| `{file}` |"))
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    date, version = known_origin(FOLDER / file)
    assert cells[1].endswith(f"({PAGES[name]})")
    assert cells[2:] == [date, version] if date else re.fullmatch(DAY + re.escape(r"\*"), cells[2])


def test_speeds_on_the_page_are_those_that_are_kept():
    kept = json.loads((FOLDER / "speed.json").read_text())["rows"]
    assert speed_markdown(kept["rounds"], kept["ages"]) in (DOCS / "performance.md").read_text(encoding="utf-8")
