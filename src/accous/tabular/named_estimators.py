"""The predictors by the names they have on the command line, for classes and for numbers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from accous.exceptions import ParameterError
from accous.parameters import did_you_mean
from accous.tabular.columns.plain_columns import Block, PlainColumns, is_category

__all__ = ["BOOSTING", "FOREST", "LINEAR", "NAMES", "is_own_code", "make_estimator"]

LINEAR, BOOSTING, FOREST = NAMES = ("linear", "boosting", "forest")
_CLASSES = {
    ("classifier", BOOSTING): "HistGradientBoostingClassifier",
    ("classifier", FOREST): "RandomForestClassifier",
    ("regressor", BOOSTING): "HistGradientBoostingRegressor",
    ("regressor", FOREST): "RandomForestRegressor",
}
# Few leaves, small steps and a strong penalty: what a reference of a thousand rows supports (docs/defaults.md).
_BOOSTING = {"learning_rate": 0.05, "max_leaf_nodes": 8, "max_iter": 120, "l2_regularization": 10.0}
_FOREST = {"n_estimators": 100, "min_samples_leaf": 5}


def make_estimator(name: str, *, kind: str, seed: int, blocks: tuple[Block, ...]) -> Any:
    """Make an unfitted predictor that reads the encoded features of a table; None is the built-in linear one.

    Parameters
    ----------
    name : str
        "linear", "boosting", "forest", or MODULE:NAME, a function without arguments that returns a scikit-learn
        estimator.
    kind : {"classifier", "regressor"}
    seed : int
        For every ``random_state``; those that a function of the user's has set are kept.
    blocks : tuple
        What the features are; see `accous.tabular.columns.plain_columns.blocks_of`.

    Examples
    --------
    >>> from accous.tabular.named_estimators import make_estimator
    >>> make_estimator("forest", kind="regressor", seed=0, blocks=())
    RandomForestRegressor(min_samples_leaf=5, random_state=0)
    """
    if is_own_code(name):
        return _seeded(_import_factory(name)(), seed)
    if name not in NAMES:
        raise ParameterError(
            f"--estimator must be one of auto, {', '.join(NAMES)} or MODULE:NAME, got {name!r}"
            f"{did_you_mean(name, NAMES)}."
        )
    if name == LINEAR:
        return None
    cls = getattr(import_module("sklearn.ensemble"), _CLASSES[kind, name])
    return _make_boosting(cls, seed, blocks) if name == BOOSTING else cls(**_FOREST, random_state=seed)


def is_own_code(name: str) -> bool:
    """Whether the name is MODULE:NAME, code of the user's."""
    return ":" in name


def _make_boosting(cls: type[Any], seed: int, blocks: tuple[Block, ...]) -> Any:
    from sklearn.pipeline import make_pipeline

    categories = is_category(blocks)
    boosting = cls(**_BOOSTING, categorical_features=categories if any(categories) else None, random_state=seed)
    return make_pipeline(PlainColumns(blocks), boosting)


def _seeded(estimator: Any, seed: int) -> Any:
    """Set every random_state that is None, also of parts, so that a folder gives the same predictions every time."""
    unset = [
        name
        for name, value in estimator.get_params(deep=True).items()
        if value is None and name.rpartition("__")[2] == "random_state"
    ]
    return estimator.set_params(**dict.fromkeys(unset, seed)) if unset else estimator


def _import_factory(name: str) -> Callable[[], Any]:
    """Import a function of the user's; modules in the working folder are found too, as with ``python -m``."""
    module_name, _, attribute = name.partition(":")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = import_module(module_name)
    except Exception as error:  # whatever the user's code raises
        raise ParameterError(
            f"--estimator {name}: {module_name!r} cannot be imported ({type(error).__name__}: {error})."
        ) from error
    factory = getattr(module, attribute, None)
    if not callable(factory):
        raise ParameterError(f"--estimator {name}: {module_name} has no function {attribute!r}.")
    return _named(factory, name)


def _named(factory: Callable[[], Any], name: str) -> Callable[[], Any]:
    """Return the function with errors that name the option."""

    def make() -> Any:
        try:
            estimator = factory()
        except Exception as error:
            raise ParameterError(f"--estimator {name} failed ({type(error).__name__}: {error}).") from error
        if isinstance(estimator, type) or not hasattr(estimator, "fit") or not hasattr(estimator, "get_params"):
            raise ParameterError(
                f"--estimator {name} must return a scikit-learn estimator, got {type(estimator).__name__}."
            )
        return estimator

    return make
