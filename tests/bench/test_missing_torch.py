"""Without PyTorch everything but the training of DANN works, and the error says what to install."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

from accous_bench.dann import DANN
from tests.classifiers import labelled_rows

# `import torch` fails as it does where PyTorch is not installed. A None in sys.modules would
# not do: scipy takes the name's presence there for the library.
BLOCK_TORCH = """
import sys
assert "torch" not in sys.modules

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NoTorch())
"""


@pytest.fixture
def output_without_torch(forks):
    """What code prints in a process of its own, where torch cannot be imported."""
    return lambda code: forks.run(BLOCK_TORCH + code, kind="code").stdout.strip()


def test_importing_the_benchmark_package_loads_no_library():
    code = "import sys, accous_bench\nprint('torch' in sys.modules, 'numpy' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False False"


def test_a_benchmark_runs_without_dann_and_the_list_names_all(tmp_path, output_without_torch):
    code = """
from accous.cli import main
print(main(["bench", "list"]))
common = ["bench", "run", "table3", "--batch-sizes", "1", "--shifts", "Lin", "--seeds", "0", "--rounds", "5", "-q"]
print(main([*common, "--contenders", "DANN"]), main([*common, "--contenders", "FIX", "-o", FOLDER]))
""".replace("FOLDER", repr(str(tmp_path)))
    *listed, first, rest = output_without_torch(code).splitlines()
    assert "images_tuned" in "".join(listed)
    assert "DANN" in "".join(listed)
    assert (first, rest) == ("0", "2 0")


def test_fit_names_the_extra_and_leaves_nothing_learned(output_without_torch):
    code = """
import numpy as np
from accous import AccousError
from accous_bench.dann import DANN
model = DANN()
try:
    model.fit(np.eye(4), [0, 1, 0, 1])
except AccousError as error:
    print(type(error).__name__, isinstance(error, ImportError), error.name, "accous[deep]" in str(error))
print(vars(model) == DANN().get_params())
"""
    assert output_without_torch(code).split() == ["MissingExtraError", "True", "torch", "True", "True"]


def test_a_fitted_model_predicts_without_torch_and_adapts_with_it_only(tmp_path, output_without_torch):
    pytest.importorskip("torch", reason="needs PyTorch: pip install 'accous[deep]'")
    X, y = labelled_rows()
    model = DANN(n_fit_steps=5).fit(X, y)
    file = tmp_path / "model.pickle"
    file.write_bytes(pickle.dumps(model))
    code = f"""
import pathlib, pickle
import numpy as np
from accous.exceptions import MissingExtraError
model = pickle.loads(pathlib.Path({str(file)!r}).read_bytes())
print(model.predict(np.eye(3)).tolist())
try:
    model.adapt(np.eye(3))
except MissingExtraError:
    print(model.n_rounds_)
"""
    assert output_without_torch(code).split("\n") == [str(model.predict(np.eye(3)).tolist()), "0"]
