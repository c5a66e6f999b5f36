"""Tables of the reader's own that the pages of the documentation name, made for the tests."""

from pathlib import Path

import numpy as np

COLUMNS = [f"x{number}" for number in range(1, 13)]


def write_tables(folder: Path) -> None:
    """Write what docs/cli.md takes for granted: trips, and a table with a bad row."""
    rng = np.random.default_rng(0)
    for name in ("trips.csv", "more_trips.csv"):
        km = rng.uniform(1.0, 30.0, 200)
        minutes = 2.0 * km + rng.normal(size=200)
        rows = [f"{one:.2f},{other:.1f}" for one, other in zip(km, minutes, strict=True)]
        (folder / name).write_text("\n".join(["km,minutes", *rows]) + "\n")
    rows = [",".join(f"{value:.3f}" for value in row) for row in rng.normal(size=(300, 12))]
    first, second, _, *others = rows[210].split(",")  # line 1 is the header
    rows[210] = ",".join([first, second, "n/k", *others])
    (folder / "broken.csv").write_text("\n".join([",".join(COLUMNS), *rows]) + "\n")
