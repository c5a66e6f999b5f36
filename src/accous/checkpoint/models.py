"""Convert models to a description in JSON, the data that ``fit`` fixes and the data that rounds change, and back.

Class names are looked up in a fixed table, so that a file never decides which code is imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from sklearn.base import clone

from accous.checkpoint.foreign import describe_foreign, name_of, require_state_methods
from accous.checkpoint.plain import from_json, to_json
from accous.checkpoint.rows import array_from_plain, array_to_plain, is_same_plain, rows_from_plain, rows_to_plain
from accous.exceptions import CheckpointError
from accous.model.estimators import AdaptiveModel
from accous.ratio.base.base import RatioEstimator
from accous.threads import one_blas_thread
from accous.validation import require_learned

__all__ = [
    "describe",
    "fixed_parts",
    "fixed_to_plain",
    "foreign_objects",
    "require_fitted",
    "restore",
    "state_to_plain",
]

Model = AdaptiveModel | RatioEstimator

# The module of each class; only the classes that a model uses are imported.
_HOMES = {
    "AdaptiveClassifier": "accous.model.estimators",
    "AdaptiveRegressor": "accous.model.estimators",
    "KLIEP": "accous.ratio.one_step",
    "KMM": "accous.ratio.one_step",
    "LogisticRatio": "accous.ratio.one_step",
    "NoShift": "accous.ratio.online",
    "OnlineDensityRatio": "accous.ratio.base.online",
    "RULSIF": "accous.ratio.one_step",
    "SingleLearnerRatio": "accous.ratio.online",
    "ULSIF": "accous.ratio.one_step",
}

# Parameters that models of earlier versions were saved without, and what they did.
_BEFORE: dict[str, dict[str, Any]] = {
    "AdaptiveClassifier": {"standardize": False},
    "OnlineDensityRatio": {"pool": "none"},
}


def require_fitted(model: Model) -> None:
    """Raise a NotFittedError for a model that has not finished a ``fit``."""
    require_learned(model, "state_" if isinstance(model, AdaptiveModel) else "reference_")


# --- class and parameters ---------------------------------------------------------------------------------------


def describe(model: Any) -> dict[str, Any]:
    """Return class and parameters in JSON; objects of the user's are described by class name and parameters."""
    if not _is_own(model):
        return {"class": name_of(model), "$foreign": _describe_foreign_ratio(model)}
    parameters = {name: _parameter_to_json(name, value) for name, value in model.get_params(deep=False).items()}
    description = {"class": name_of(model), "parameters": parameters}
    if isinstance(model, AdaptiveModel) and hasattr(model, "ratio_"):
        description["fitted_ratio"] = describe(model.ratio_)
    return description


def foreign_objects(description: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Return what is recorded about the user's objects, by the names that `load` has for them."""
    return dict(_foreign_objects(description))


def _parameter_to_json(name: str, value: Any) -> Any:
    if (name == "estimator" and value is not None) or (name == "feature_map" and not isinstance(value, str)):
        return {"$foreign": describe_foreign(value)}
    if name == "candidates" and value is not None:
        return _candidates_to_json(value)
    if name == "ratio" and value is not None:
        return {"$model": describe(value)} if _is_own(value) else {"$foreign": _describe_foreign_ratio(value)}
    try:
        return to_json(value)
    except CheckpointError as error:
        allowed = "an integer or None" if name == "random_state" else "None, a bool, a number or a string"
        raise CheckpointError(
            f"The parameter {name} is a {name_of(value)}, which cannot be saved: use {allowed}."
        ) from error


def _candidates_to_json(candidates: Any) -> dict[str, Any]:
    """Describe a list of candidates by its estimators if all of them are ours; otherwise the user gives it again."""
    for each in candidates:
        if isinstance(each, RatioEstimator) and not _is_own(each):
            require_state_methods(each)
    if all(_is_own(each) for each in candidates):
        models = [describe(each) for each in candidates]
        if not any(foreign_objects(each) for each in models):
            return {"$models": models}
    return {"$foreign": describe_foreign(list(candidates))}


def _is_own(model: Any) -> bool:
    """Whether the class is one of ours; a subclass is not."""
    return _HOMES.get(type(model).__name__) == type(model).__module__


def _describe_foreign_ratio(model: Any) -> dict[str, str]:
    if not isinstance(model, RatioEstimator):
        raise CheckpointError(
            f"A {name_of(model)} cannot be saved: use one of {', '.join(_HOMES)}, TableModel or a RatioEstimator of "
            "your own."
        )
    require_state_methods(model)
    return describe_foreign(model)


def _foreign_objects(description: dict[str, Any]) -> Iterator[tuple[str, dict[str, str]]]:
    if "$foreign" in description:
        yield "ratio", description["$foreign"]
        return
    for name, value in description["parameters"].items():
        if isinstance(value, dict) and "$foreign" in value:
            yield name, value["$foreign"]
        if isinstance(value, dict) and "$model" in value:
            yield from _foreign_objects(value["$model"])
    if "fitted_ratio" in description:
        yield from _foreign_objects(description["fitted_ratio"])


def _build(description: dict[str, Any], foreign: dict[str, Any]) -> Any:
    """Make the unfitted model; a clone of a ratio estimator of the user's."""
    if "$foreign" in description:
        return clone(foreign["ratio"])
    home = _HOMES.get(description["class"])
    if home is None:
        raise CheckpointError(f"This version of accous does not know the class {description['class']}: upgrade accous.")
    cls: type[Model] = getattr(import_module(home), description["class"])
    unknown = description["parameters"].keys() - cls().get_params(deep=False).keys()
    if unknown:
        raise CheckpointError(
            f"{cls.__name__} has no parameter {min(unknown)!r} in this version of accous: upgrade accous."
        )
    parameters = {name: _parameter_from_json(name, v, foreign) for name, v in description["parameters"].items()}
    return cls(**_BEFORE.get(cls.__name__, {}) | parameters)


def _parameter_from_json(name: str, value: Any, foreign: dict[str, Any]) -> Any:
    if isinstance(value, dict) and "$foreign" in value:
        return foreign[name]
    if isinstance(value, dict) and "$model" in value:
        return _build(value["$model"], foreign)
    if isinstance(value, dict) and "$models" in value:
        return [_build(each, foreign) for each in value["$models"]]
    return from_json(value)


# --- what was learned -------------------------------------------------------------------------------------------


def fixed_parts(model: Any) -> tuple[Any, ...]:
    """Return the objects that ``fit`` makes and no round changes."""
    if isinstance(model, AdaptiveModel):
        own = (model.reference_, *model.task_.stored.values(), model.base_weight_)
        return (*own, *fixed_parts(model.ratio_))
    return (model.reference_,)


def fixed_to_plain(model: Any) -> dict[str, Any]:
    """Return everything that ``fit`` makes and no round changes; rows that the ratio shares are stored once."""
    names = getattr(model, "feature_names_in_", None)
    plain = {
        "rows": rows_to_plain(model.reference_),
        "n_features": int(model.n_features_in_),
        "names": None if names is None else array_to_plain(names, "The list of column names"),
    }
    if isinstance(model, AdaptiveModel):
        ratio = fixed_to_plain(model.ratio_)
        if is_same_plain(ratio["rows"], plain["rows"]):
            ratio["rows"] = None
        stored = model.task_.stored
        if "classes" in stored:
            stored |= {"classes": array_to_plain(stored["classes"], "y")}
        plain |= stored | {
            "base_weight": model.base_weight_,
            "verification": model.verification_to_plain(),
            "ratio": ratio,
        }
    return plain


def state_to_plain(model: Any) -> dict[str, Any]:
    """Return everything that the rounds have changed since ``fit``."""
    plain: dict[str, Any] = {"model": model.state_to_plain()}
    if isinstance(model, AdaptiveModel):
        plain["ratio"] = model.ratio_.state_to_plain()
    return plain


def restore(description: dict[str, Any], foreign: dict[str, Any], fixed: dict[str, Any], state: dict[str, Any]) -> Any:
    """Make the model again; objects of the user's are fitted again if the saved ones were."""
    model = _build(description, foreign)
    rows = rows_from_plain(fixed["rows"])
    with one_blas_thread():
        if not isinstance(model, AdaptiveModel):
            _restore_ratio(model, rows, fixed, state["model"])
            return model
        ratio, of_ratio = clone(_build(description["fitted_ratio"], foreign)), fixed["ratio"]
        ratio_rows = rows if of_ratio["rows"] is None else rows_from_plain(of_ratio["rows"])
        _restore_ratio(ratio, ratio_rows, of_ratio, state["ratio"])
        _restore_reference(model, rows, fixed)
        classes = {"classes": array_from_plain(fixed["classes"])} if "classes" in fixed else {}
        model.restore_task(fixed | classes)
        _require_same_rows(len(model.task_), state["model"])
        model.base_weight_ = fixed["base_weight"]
        model.verification_from_plain(fixed.get("verification"))
        model.state_from_plain(state["model"], ratio)
    return model


def _require_same_rows(n_labels: int, state: dict[str, Any]) -> None:
    n_weights = len(state["weights"])
    if n_labels != n_weights:
        raise CheckpointError(
            f"The folder has {n_labels} labels but {n_weights} weights: the model was extended while it was saved. "
            "Restore the folder from a copy, or fit and save again."
        )


def _restore_ratio(ratio: RatioEstimator, rows: Any, fixed: dict[str, Any], state: dict[str, Any]) -> None:
    _restore_reference(ratio, rows, fixed)
    ratio.state_from_plain(state, rows)


def _restore_reference(model: Any, rows: Any, fixed: dict[str, Any]) -> None:
    model.reference_ = rows
    model.n_features_in_ = fixed["n_features"]
    if fixed["names"] is not None:
        model.feature_names_in_ = array_from_plain(fixed["names"])
