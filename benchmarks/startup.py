"""The cost before the first round: short commands, each the best of several runs in fresh processes, and the first use.

The first use of a command on a machine compiles the loops it needs; it is measured once, with an empty cache. Python
finds its bytecode in either case, as that of an installed package.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from accous.streams import GaussianStream
from benchmarks.data import SHIFTS, write_tables
from benchmarks.pages import describe

REPEATS = 7
# In this order: each finds what those before it have left.
COMMANDS = {
    "import accous": "-c 'import accous'",
    "accous --help": "-m accous --help",
    "accous --version": "-m accous --version",
    "accous fit": "-m accous fit reference.csv --label y -o model --force --quiet",
    "accous adapt": "-m accous adapt model stream.csv -o out.csv --new --force --quiet",
    "imports of accous adapt": "-c 'import accous.cli, accous.table.adapt, rich.console, rich.progress, sqlite3'",
}


def measure_commands(n_repeats: int) -> dict[str, float]:
    """CPU seconds of every command on 500 labelled and 10 unlabelled rows: the best with all loops in the cache.

    The number of repeats 0 is for the first use: once, each with a cache of its own that is empty.
    """
    rows: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        stream = GaussianStream(SHIFTS["none"], n_features=5, n_reference=500, n_rounds=1, batch_size=10)
        write_tables(Path(folder), stream)
        for name, command in COMMANDS.items():
            if n_repeats:
                _seconds(command, folder)
                rows[f"{name}, CPU seconds"] = min(_seconds(command, folder) for _ in range(n_repeats))
            elif "model" in command:
                cache = str(Path(folder) / name)
                rows[f"{name}, nothing compiled yet, CPU seconds"] = _seconds(command, folder, NUMBA_CACHE_DIR=cache)
    return rows


def _seconds(command: str, folder: str, **environment: str) -> float:
    """Return the CPU seconds of a fresh interpreter and what it starts."""
    before, arguments = os.times(), [sys.executable, *shlex.split(command)]
    subprocess.run(arguments, cwd=folder, env=os.environ | environment, check=True, capture_output=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    """Measure and print."""
    describe(__doc__)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as bytecode:
        os.environ["PYTHONPYCACHEPREFIX"] = bytecode
        rows = measure_commands(REPEATS) | measure_commands(0)
    for name, value in rows.items():
        print(f"{name}: {value:,.4g}")


if __name__ == "__main__":
    main()
