"""With the five packages of the core alone the library works, and what needs an extra says which."""

import subprocess
from pathlib import Path

import pytest

import accous
from accous.cli import main
from tests.forks import SOURCES, ForkServer

# Everything that an extra installs cannot be found, as in an environment without extras.
WITHOUT_EXTRAS = """
import sys
from importlib.abc import MetaPathFinder

HIDDEN = ("distributed", "matplotlib", "plotly", "polars", "pooch", "rich", "torch", "tqdm", "typer")
assert not sys.modules.keys() & set(HIDDEN), "the process has found an extra before it was hidden"

class Hidden(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
"""
LIBRARY = """
import numpy as np, pandas as pd
import accous
from accous.streams import GaussianStream, SquareShift

stream = GaussianStream(SquareShift(period=10), n_rounds=20, batch_size=5)
X, y = stream.reference()
names = [f"x{number}" for number in range(X.shape[1])]
ratios = [accous.KLIEP(), accous.KMM(), accous.LogisticRatio(), accous.NoShift(), accous.OnlineDensityRatio(),
          accous.RULSIF(), accous.SingleLearnerRatio(), accous.ULSIF()]
for ratio in ratios:
    model = accous.AdaptiveClassifier(ratio=ratio, random_state=0).fit(pd.DataFrame(X, columns=names), y)
    for batch in stream:
        model.adapt(pd.DataFrame(batch.X, columns=names))
    accous.save(model, sys.argv[1])
    resumed = accous.load(sys.argv[1])
    assert (resumed.reference_weight_ == model.reference_weight_).all()
    assert resumed.status_ == model.status_
print(accous.datasets.load_wine().X.shape, accous.__version__)
"""
# What cannot be done, and the package that is missing.
REFUSALS = {
    "accous.datasets.load_powersupply()": "pooch",
    "import accous.table.model": "polars",
    "import accous.table.readers": "polars",
    "import accous.table.columns": "polars",
    "accous.load('model')": "polars",
}
CAUGHT = """
import accous
for code in CODES:
    try:
        exec(code)
    except accous.AccousError as error:
        print(type(error).__name__, "|", error)
"""


@pytest.fixture
def run(library_forks: ForkServer):
    """Runs code in a process of its own that finds no extra, no data and no network."""

    def run_code(code: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
        environment = {"PYTHONPATH": SOURCES, "ACCOUS_CACHE": str(folder / "cache"), "HOME": str(folder)}
        options = {"kind": "code", "check": None, "cwd": folder, "env": environment}
        return library_forks.run(WITHOUT_EXTRAS + code, *arguments, **options)

    return run_code


def test_the_library_fits_adapts_saves_and_loads(run, tmp_path):
    done = run(LIBRARY, str(tmp_path / "model"), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"(178, 13) {accous.__version__}\n"


def test_what_needs_an_extra_says_so(run, tmp_path):
    rows = "".join(f"{number},{number % 2}\n" for number in range(20))
    (tmp_path / "reference.csv").write_text("x,y\n" + rows)
    assert main(["fit", str(tmp_path / "reference.csv"), "--label", "y", "-o", str(tmp_path / "model"), "-q"]) == 0
    done = run(CAUGHT.replace("CODES", repr(list(REFUSALS))), folder=tmp_path)
    found = done.stdout.splitlines()
    assert len(found) == len(REFUSALS), done.stdout + done.stderr
    for line, missing in zip(found, REFUSALS.values(), strict=True):
        assert line.startswith("MissingExtraError | ")
        assert f"needs {missing}" in line
        assert "accous[cli]" in line


def test_data_at_hand_need_no_extra(run, tmp_path, data_folder):
    code = (
        "import os, accous\nos.environ['ACCOUS_DATA'] = sys.argv[1]\nprint(accous.datasets.load_powersupply().X.shape)"
    )
    done = run(code, str(data_folder), folder=tmp_path)
    assert done.stdout.startswith("(29928, 2)"), done.stderr


def test_bars_are_left_out_in_silence(run, tmp_path):
    code = """
from accous.text import ProgressBar
with ProgressBar("waiting", 3, verbose=True) as bar:
    bar.advance(3)
print("done")
"""
    done = run(code, folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


@pytest.mark.parametrize("arguments", [[], ["--help"], ["status", "model"]])
def test_the_command_line_says_what_to_install(run, arguments, tmp_path):
    code = "import runpy\nsys.argv[0] = 'accous'\nrunpy.run_module('accous', run_name='__main__', alter_sys=True)"
    done = run(code, *arguments, folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert "accous[cli]" in done.stderr
