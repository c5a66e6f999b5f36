"""Without PyTorch the benchmark works, but for images."""

import subprocess
import sys

import pytest

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


def test_a_benchmark_runs_without_torch_dann_included(tmp_path, output_without_torch):
    code = """
from accous.cli import main
print(main(["bench", "list"]))
common = ["bench", "run", "table3", "--batch-sizes", "1", "--shifts", "Lin", "--seeds", "0", "--rounds", "5", "-q"]
print(main([*common, "--contenders", "DANN,FIX", "-o", FOLDER]))
""".replace("FOLDER", repr(str(tmp_path)))
    *listed, first, rest = output_without_torch(code).splitlines()
    assert "images_tuned" in "".join(listed)
    assert "DANN" in "".join(listed)
    assert (first, rest) == ("0", "0")
