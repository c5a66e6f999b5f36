"""pandas and pyarrow are never needed: the library and the command line work where neither is installed."""

import subprocess
import sys
from pathlib import Path

from tests.forks import SOURCES

# A fresh interpreter: scikit-learn imports pandas where it finds it, so a fork of ours would have it already.
SCRIPT = """
import sys
from importlib.abc import MetaPathFinder

HIDDEN = ("pandas", "pyarrow")

class Hidden(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())

import numpy as np, polars as pl
import accous
from accous.cli import main

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 2))
frame = pl.DataFrame({"a": X[:, 0], "b": X[:, 1]})
y = np.where(X[:, 0] > 0, "yes", "no")
for rows in (X, frame):
    model = accous.AdaptiveClassifier(random_state=0).fit(rows, y)
    model.adapt(rows[:10])
    accous.save(model, "saved")
    assert (accous.load("saved").predict(rows) == model.predict(rows)).all()

table = frame.with_columns(y=pl.Series(y))
table.write_csv("reference.csv")
table[:20].write_parquet("stream.parquet")
assert main(["fit", "reference.csv", "--label", "y", "-o", "model", "-q"]) == 0
for suffix in ("csv", "parquet"):
    assert main(["adapt", "model", "stream.parquet", "-o", f"out.{suffix}", "--new", "-q"]) == 0
assert pl.read_csv("out.csv").height == pl.read_parquet("out.parquet").height == 20
assert not sys.modules.keys() & set(HIDDEN), sys.modules.keys() & set(HIDDEN)
"""


def test_models_tables_and_parquet_need_neither_pandas_nor_pyarrow(tmp_path: Path) -> None:
    variables = {"PYTHONPATH": SOURCES, "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
