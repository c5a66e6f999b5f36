"""The public names are pinned, load lazily, and raise the right errors."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import accous
from accous import exceptions

RATIO_NAMES = [
    "KLIEP",
    "KMM",
    "LogisticRatio",
    "NoShift",
    "OnlineDensityRatio",
    "RULSIF",
    "SingleLearnerRatio",
    "ULSIF",
]
PUBLIC_NAMES = [
    *sorted(["AccousError", "AdaptiveClassifier", "AdaptiveRegressor", "Alerts", *RATIO_NAMES]),
    "__version__",
    "backtest",
    "datasets",
    "deep",
    "keyed",
    "load",
    "river",
    "save",
    "streams",
]


def modules_after(statement: str) -> set[str]:
    """The modules loaded in a fresh interpreter after `statement`."""
    code = f"import sys\n{statement}\nprint(*sys.modules, sep='\\n')"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_public_names_are_pinned():
    assert sorted(accous.__all__) == PUBLIC_NAMES
    assert dir(accous) == PUBLIC_NAMES


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_every_public_name_resolves_and_stays_the_same_object(name):
    first = getattr(accous, name)
    assert first is not None
    assert getattr(accous, name) is first


@pytest.mark.parametrize("name", RATIO_NAMES)
def test_estimators_are_documented_classes_of_the_ratio_package(name):
    estimator = getattr(accous, name)
    assert isinstance(estimator, type)
    assert estimator.__name__ == name
    assert estimator.__module__.startswith("accous.ratio.base.")
    assert estimator.__doc__


def test_importing_the_package_loads_no_numerical_library():
    loaded = modules_after("import accous")
    assert "accous" in loaded
    assert not loaded & {"numba", "numpy", "scipy", "sklearn", "threadpoolctl"}
    assert not {name for name in loaded if name.startswith("accous.")}


def test_a_public_name_loads_its_own_module_on_first_use():
    loaded = modules_after("from accous import AccousError")
    assert "accous.exceptions" in loaded
    assert "numpy" not in loaded


def test_the_classifier_loads_only_what_it_uses(library_forks):
    code = "import sys\nfrom accous import AdaptiveClassifier, load\nprint(*sys.modules)"
    loaded = set(library_forks.run(code, kind="code").stdout.split())
    assert "accous.ratio.online" in loaded
    heavy = {"sklearn.model_selection", "sklearn.metrics", "sklearn.preprocessing", "sklearn.pipeline"}
    extras = {"polars", "rich", "plotly", "pooch", "typer", "matplotlib", "torch"}
    one_step = {f"accous.ratio.base.{name}" for name in ("kernel", "kliep", "kmm", "rulsif", "ulsif")}
    assert not loaded & (heavy | extras | one_step | {"accous.core.ratio_problems"})


def test_star_import_gives_exactly_the_public_names():
    namespace = {}
    exec("from accous import *", namespace)
    assert sorted(namespace.keys() - {"__builtins__"}) == PUBLIC_NAMES


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'accous' has no attribute 'OfflineRatio'"):
        _ = accous.OfflineRatio


def test_version_is_the_installed_one():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert accous.__version__ == project["version"]


def test_exception_tree():
    assert exceptions.__all__ == [
        "AccousError",
        "CheckpointError",
        "DataError",
        "LockedError",
        "MissingExtraError",
        "ParameterError",
        "TrapWarning",
    ]
    assert exceptions.TrapWarning.__bases__ == (UserWarning,)
    assert exceptions.AccousError.__bases__ == (Exception,)
    assert exceptions.ParameterError.__bases__ == (exceptions.AccousError, ValueError)
    assert exceptions.DataError.__bases__ == (exceptions.AccousError, ValueError)
    assert exceptions.MissingExtraError.__bases__ == (exceptions.AccousError, ImportError)
    assert exceptions.CheckpointError.__bases__ == (exceptions.AccousError,)
    assert exceptions.LockedError.__bases__ == (exceptions.CheckpointError,)
    assert accous.AccousError is exceptions.AccousError


def test_the_exceptions_docstring_draws_every_error():
    for name in exceptions.__all__:
        assert name in exceptions.__doc__
