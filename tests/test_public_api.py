"""The public names are pinned, load lazily, and raise the right errors."""

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

import accous
from accous import exceptions

ONE_STEP = ["KLIEP", "KMM", "LogisticRatio", "RULSIF", "ULSIF"]
RATIO_NAMES = [*ONE_STEP, "NoShift", "OnlineDensityRatio", "SingleLearnerRatio"]
PUBLIC_NAMES = [
    *sorted(["AccousError", "AdaptiveClassifier", "AdaptiveRegressor", *RATIO_NAMES]),
    *("__version__", "backtest", "datasets", "deep", "keyed", "load", "river", "save", "streams"),
]
BASES = {
    "AccousError": (Exception,),
    "CheckpointError": (exceptions.AccousError,),
    "DataError": (exceptions.AccousError, ValueError),
    "DataWarning": (UserWarning,),
    "LockedError": (exceptions.CheckpointError,),
    "MissingExtraError": (exceptions.AccousError, ImportError),
    "ParameterError": (exceptions.AccousError, ValueError),
}


def modules_after(statement: str) -> set[str]:
    """The modules loaded in a fresh interpreter after `statement`."""
    code = f"import sys\n{statement}\nprint(*sys.modules, sep='\\n')"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_public_names_are_pinned_and_resolve_to_the_same_objects():
    assert sorted(accous.__all__) == dir(accous) == PUBLIC_NAMES
    namespace = {}
    exec("from accous import *", namespace)
    assert sorted(namespace.keys() - {"__builtins__"}) == PUBLIC_NAMES
    assert all(getattr(accous, name) is namespace[name] is not None for name in PUBLIC_NAMES)
    with pytest.raises(AttributeError, match="OfflineRatio"):
        _ = accous.OfflineRatio


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(accous.__file__).read_text(encoding="utf8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {
        name.asname: node.module for node in block.body if isinstance(node, ast.ImportFrom) for name in node.names
    }
    assert sorted([*imported, "__version__"]) == PUBLIC_NAMES
    for name, module in imported.items():
        assert getattr(importlib.import_module(module), name) is getattr(accous, name)


@pytest.mark.parametrize("name", RATIO_NAMES)
def test_estimators_are_documented_classes_of_the_package(name):
    estimator = getattr(accous, name)
    assert isinstance(estimator, type)
    assert estimator.__name__ == name
    assert estimator.__module__ == "accous"
    assert estimator.__doc__


def test_importing_the_package_loads_no_numerical_library():
    loaded = modules_after("import accous")
    assert "accous" in loaded
    assert not loaded & {"numba", "numpy", "scipy", "sklearn", "threadpoolctl"}
    assert not {name for name in loaded if name.startswith("accous.")}
    loaded = modules_after("from accous import AccousError")
    assert "accous.exceptions" in loaded
    assert "numpy" not in loaded


def test_the_classifier_loads_only_what_it_uses(library_forks):
    code = "import sys\nfrom accous import AdaptiveClassifier, load\nprint(*sys.modules)"
    loaded = set(library_forks.run(code, kind="code").stdout.split())
    assert "accous.ratio.online" in loaded
    heavy = {"sklearn.model_selection", "sklearn.metrics", "sklearn.preprocessing", "sklearn.pipeline"}
    extras = {"polars", "rich", "plotly", "pooch", "typer", "matplotlib", "torch"}
    assert not loaded & (heavy | extras | {"accous.ratio.one_step"})


def test_version_is_the_installed_one():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert accous.__version__ == project["version"]


def test_exception_tree():
    assert exceptions.__all__ == list(BASES)
    for name, bases in BASES.items():
        assert getattr(exceptions, name).__bases__ == bases
        assert name in exceptions.__doc__
    assert accous.AccousError is exceptions.AccousError


@pytest.mark.parametrize("package", ["core", "ratio", "model", "diagnostics", "checkpoint", "table", "keyed", "report"])
def test_a_packages_first_paragraph_names_each_of_its_modules(package):
    folder = Path(accous.__file__).parent / package
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf8")))
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    named = {name for name in re.findall(r"`(\w+\*?)`", text) if name in modules or name.endswith("*")}
    assert not [module for module in modules if not any(fnmatch(module, name) for name in named)]
