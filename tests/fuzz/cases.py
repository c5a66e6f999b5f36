"""Case K of seed S: always the same files and commands."""

from __future__ import annotations

import os
import shutil
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.fuzz.adapt_cases import adapt_to_a_stream, grow_a_stream, repair_a_stream
from tests.fuzz.fit_cases import fit_a_reference
from tests.fuzz.folder_cases import use_a_damaged_folder
from tests.fuzz.formats import FORMATS
from tests.fuzz.label_cases import backtest_a_reference, extend_a_reference, measure_late_labels
from tests.fuzz.running import Run
from tests.fuzz.scene import Scene

__all__ = ["PLOTS", "Outcome", "draw_plot", "play_case"]

# A plot, the formats it is for, and how often it comes.
_TEXTS = ("csv", "tsv", "jsonl")
PLOTS: list[tuple[Callable[[Scene], None], tuple[str, ...], int]] = [
    (fit_a_reference, FORMATS, 6),
    (adapt_to_a_stream, FORMATS, 9),
    (repair_a_stream, _TEXTS, 1),
    (grow_a_stream, FORMATS, 2),
    (use_a_damaged_folder, FORMATS, 3),
    (measure_late_labels, FORMATS, 3),
    (extend_a_reference, FORMATS, 3),
    (backtest_a_reference, FORMATS, 2),
]
# Every save puts its files on the disk; in memory that takes no time.
_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Outcome:
    """What became of a case.

    Attributes
    ----------
    number : int
    plot, table_format : str
    done : list of str
        What was changed in its files.
    commands : list of str
        The commands run, by name.
    problems : list of str
        What does not hold.
    """

    number: int
    plot: str
    table_format: str
    done: list[str]
    commands: list[str]
    problems: list[str]


def draw_plot(random: Random, table_format: str) -> Callable[[Scene], None]:
    """Draw what happens in a case: the first thing that it draws."""
    return random.choice([plot for plot, formats, weight in PLOTS if table_format in formats for _ in range(weight)])


def play_case(seed: int, number: int, *, kept: Path | None = None) -> tuple[Outcome, list[Run]]:
    """Play a case in a folder of its own; ``kept`` is a folder to leave it in."""
    random = Random(f"{seed}/{number}")
    table_format = FORMATS[number % len(FORMATS)]
    plot = draw_plot(random, table_format)
    place = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    folder = Path(kept or tempfile.mkdtemp(prefix="accous-fuzz-", dir=place)).resolve()
    folder.mkdir(exist_ok=True)
    scene = Scene(random, folder, table_format)
    before = Path.cwd()
    os.chdir(folder)
    try:
        plot(scene)
    except Exception:
        scene.problems.append(f"the case itself failed: {traceback.format_exc()}")
    finally:
        os.chdir(before)
        if kept is None:
            shutil.rmtree(folder)
    commands = [run.arguments[0] for run in scene.runs]
    return Outcome(number, plot.__name__, table_format, scene.done, commands, scene.problems), scene.runs
