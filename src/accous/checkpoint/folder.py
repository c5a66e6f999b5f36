"""`save` and `load`: a model as a folder with a manifest."""

from __future__ import annotations

import hashlib
import os
import re
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.base import clone

from accous.arrays import from_plain, to_plain
from accous.checkpoint.codecs import (
    array_from_plain,
    array_to_plain,
    from_json,
    is_same_plain,
    read_data,
    rows_from_plain,
    rows_to_plain,
    to_json,
    write_data,
)
from accous.checkpoint.files import (
    LOCK_NAME,
    MANIFEST_NAME,
    Manifest,
    StoredFile,
    expecting_own_content,
    is_data_file,
    is_temporary_file,
    peek_manifest,
    read_consistently,
    remove_files,
    sync_folder,
    write_manifest,
)
from accous.exceptions import CheckpointError
from accous.model.estimators import AdaptiveEstimator
from accous.model.heldout import verification_from_plain, verification_to_plain
from accous.model.learning import Learning, restore_learning
from accous.ratio.base import RatioEstimator
from accous.threads import one_blas_thread
from accous.validation import require_learned

# --- Objects of the user's: what a saved model records about them, and the check that load is given the same
#     again


# What accous calls each method with, to compare with what it takes.
_STATE_METHODS: dict[str, tuple[str, ...]] = {"state_to_plain": (), "state_from_plain": ("plain", "X")}


def describe_foreign(value: Any) -> dict[str, str]:
    """Return class and parameters as scikit-learn prints them, and a checksum of all parameters.

    scikit-learn shortens what it prints, so a long pipeline with another parameter may look the same.
    """
    description = {"class": name_of(value), "repr": _text(value)}
    if hasattr(value, "get_params"):
        parameters = sorted((name, _text(part)) for name, part in value.get_params(deep=True).items())
        description["parameters"] = hashlib.sha256(repr(parameters).encode()).hexdigest()
    return description


def _text(value: Any) -> str:
    """Return the value as scikit-learn prints it, without addresses in memory."""
    with config_context(print_changed_only=True):
        return re.sub(r" at 0x[0-9a-f]+", "", " ".join(repr(value).split()))


def require_state_methods(ratio: RatioEstimator) -> None:
    """Check that a ratio estimator of the user's has methods of its own to save and load what it learned.

    Methods inherited from a class of accous do not count: they know nothing about what a subclass adds. A method that
    takes other arguments than accous passes is found here, so that it fails when the model is saved, not when it is
    loaded.
    """
    for method, arguments in _STATE_METHODS.items():
        home: str = getattr(type(ratio), method).__module__
        if home.partition(".")[0] == "accous":
            raise CheckpointError(
                f"A {name_of(ratio)} cannot be saved or loaded: it has no {method} of its own. Define "
                f"{' and '.join(_STATE_METHODS)} in {name_of(ratio)}."
            )
        try:
            signature(getattr(ratio, method)).bind(*arguments)
        except TypeError as error:
            raise CheckpointError(
                f"{name_of(ratio)}.{method} does not take what accous passes ({error}): define it as "
                f"{method}({', '.join(('self', *arguments))})."
            ) from error


def require_foreign(wanted: dict[str, dict[str, str]], given: dict[str, Any]) -> None:
    """Check that exactly the objects that were not saved are given again.

    Parameters
    ----------
    wanted : dict
        What ``describe_foreign`` returned when the model was saved, by the names that `load` has for the objects.
    given : dict
        The objects, or None, by the same names.
    """
    missing = [name for name, value in given.items() if name in wanted and value is None]
    if missing:
        call = ", ".join(
            f"{name}={'[...]' if name == 'candidates' else wanted[name]['class'] + '(...)'}" for name in missing
        )
        raise CheckpointError(
            f"The model uses objects of your own that are not saved ({' and '.join(missing)}): pass them again, "
            f"load(path, {call})."
        )
    for name, value in given.items():
        if name not in wanted and value is not None:
            raise CheckpointError(f"The model was saved without {name} of your own: leave {name} out of load.")
        value = list(value) if isinstance(value, tuple) else value
        if name in wanted and not _is_same(describe_foreign(value), wanted[name]):
            raise CheckpointError(
                f"The model was saved with {name}={wanted[name]['repr']}, not {describe_foreign(value)['repr']}: pass "
                "one with the same class and parameters."
            )
        if name in wanted and name == "ratio":
            if not isinstance(value, RatioEstimator):
                raise CheckpointError(f"ratio is a {name_of(value)}, which is not a RatioEstimator: pass one.")
            require_state_methods(value)


def _is_same(given: dict[str, str], wanted: dict[str, str]) -> bool:
    """Whether two descriptions agree in what both have: code that cannot be read has no checksum."""
    return all(given[name] == wanted[name] for name in given.keys() & wanted.keys())


def name_of(value: Any) -> str:
    """Return the name of the value's class."""
    return type(value).__name__


# --- Convert models to a description in JSON, the data that fit fixes and the data that rounds change, and back


Model = AdaptiveEstimator | RatioEstimator


def require_fitted(model: Model) -> None:
    """Raise a NotFittedError for a model that has not finished a ``fit``."""
    require_learned(model, "state_" if isinstance(model, AdaptiveEstimator) else "reference_")


# --- class and parameters ---------------------------------------------------------------------------------------


def describe(model: Any) -> dict[str, Any]:
    """Return class and parameters in JSON; objects of the user's are described by class name and parameters."""
    if not _is_own(model):
        return {"class": name_of(model), "$foreign": _describe_foreign_ratio(model)}
    parameters = {name: _parameter_to_json(name, value) for name, value in model.get_params(deep=False).items()}
    description = {"class": name_of(model), "parameters": parameters}
    if isinstance(model, AdaptiveEstimator) and hasattr(model, "ratio_"):
        description["fitted_ratio"] = describe(model.ratio_)
    return description


def foreign_objects(description: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Return what is recorded about the user's objects, by the names that `load` has for them."""
    return dict(_foreign_objects(description))


def _parameter_to_json(name: str, value: Any) -> Any:
    if name == "class_weight" and isinstance(value, dict):
        return {"$pairs": [[to_json(part) for part in pair] for pair in value.items()]}  # keys may be numbers
    if name == "cost" and value is not None:
        return np.asarray(value, dtype=np.float64).tolist()
    if (name == "estimator" and not isinstance(value, str | None)) or (
        name == "feature_map" and not isinstance(value, str)
    ):
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
    return type(model) is _own_class(type(model).__name__)


def _own_class(name: Any) -> type[Model] | None:
    """Return the public class that a folder names; only those that a model uses are imported."""
    accous = import_module("accous")
    value = getattr(accous, name) if name in accous.__all__ and name[0].isupper() else None
    return value if isinstance(value, type) and issubclass(value, Model) else None


def _describe_foreign_ratio(model: Any) -> dict[str, str]:
    if not isinstance(model, RatioEstimator):
        raise CheckpointError(
            f"A {name_of(model)} cannot be saved: use AdaptiveClassifier, AdaptiveRegressor, a ratio estimator, or "
            "a TableModel."
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
    cls = _own_class(description["class"])
    if cls is None:
        raise CheckpointError(f"This version of accous does not know the class {description['class']}: upgrade accous.")
    unknown = description["parameters"].keys() - cls().get_params(deep=False).keys()
    if unknown:
        raise CheckpointError(
            f"{cls.__name__} has no parameter {min(unknown)!r} in this version of accous: upgrade accous."
        )
    parameters = {name: _parameter_from_json(name, v, foreign) for name, v in description["parameters"].items()}
    return cls(**parameters)


def _parameter_from_json(name: str, value: Any, foreign: dict[str, Any]) -> Any:
    if isinstance(value, dict) and "$foreign" in value:
        return foreign[name]
    if isinstance(value, dict) and "$pairs" in value:
        return {from_json(key): from_json(weight) for key, weight in value["$pairs"]}
    if isinstance(value, dict) and "$model" in value:
        return _build(value["$model"], foreign)
    if isinstance(value, dict) and "$models" in value:
        return [_build(each, foreign) for each in value["$models"]]
    return from_json(value)


# --- what was learned -------------------------------------------------------------------------------------------


def fixed_parts(model: Any) -> tuple[Any, ...]:
    """Return the objects that ``fit`` makes and no round changes."""
    if isinstance(model, AdaptiveEstimator):
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
    if isinstance(model, AdaptiveEstimator):
        ratio = fixed_to_plain(model.ratio_)
        if is_same_plain(ratio["rows"], plain["rows"]):
            ratio["rows"] = None
        stored = model.task_.stored
        if "classes" in stored:
            stored |= {"classes": array_to_plain(stored["classes"], "y")}
        plain |= stored | {
            "base_weight": model.base_weight_,
            "verification": verification_to_plain(model),
            "ratio": ratio,
        }
    return plain


def state_to_plain(model: Any) -> dict[str, Any]:
    """Return everything that the rounds have changed since ``fit``."""
    plain: dict[str, Any] = {"model": model.state_to_plain()}
    if isinstance(model, AdaptiveEstimator):
        plain["ratio"] = model.ratio_.state_to_plain()
        plain["learning"] = learning_to_plain(model.state_.learning)
    return plain


def learning_to_plain(learning: Learning | None) -> dict[str, Any] | None:
    """Return what was learned from labels; the predictor is fitted again from the rows."""
    if learning is None:
        return None
    plain: dict[str, Any] = to_plain(learning)
    kept = learning.kept
    plain["kept"] |= {"rows": rows_to_plain(kept.rows), "truths": array_to_plain(kept.truths, "y")}
    return plain


def learning_from_plain(plain: dict[str, Any] | None) -> Learning | None:
    """Undo `learning_to_plain`."""
    if plain is None:
        return None
    kept = plain["kept"]
    kept = kept | {"rows": rows_from_plain(kept["rows"]), "truths": array_from_plain(kept["truths"])}
    learning: Learning = from_plain(Learning, plain | {"kept": kept})
    return learning


def restore(description: dict[str, Any], foreign: dict[str, Any], fixed: dict[str, Any], state: dict[str, Any]) -> Any:
    """Make the model again; objects of the user's are fitted again if the saved ones were."""
    model = _build(description, foreign)
    rows = rows_from_plain(fixed["rows"])
    with one_blas_thread():
        if not isinstance(model, AdaptiveEstimator):
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
        verification_from_plain(model, fixed["verification"])
        model.state_from_plain(state["model"], ratio)
        restore_learning(model, learning_from_plain(state["learning"]))
    return model


def _require_same_rows(n_labels: int, state: dict[str, Any]) -> None:
    n_weights = len(state["weights"])
    if n_labels != n_weights:
        raise CheckpointError(
            f"The folder has {n_labels} labels but {n_weights} weights: they are of different saves. "
            "Restore the folder from a copy, or fit and save again."
        )


def _restore_ratio(ratio: RatioEstimator, rows: Any, fixed: dict[str, Any], state: dict[str, Any]) -> None:
    _restore_reference(ratio, rows, fixed)
    ratio.state_from_plain(state, rows)


def _restore_reference(model: Any, rows: Any, fixed: dict[str, Any]) -> None:
    if fixed["n_features"] != rows.shape[1]:
        raise CheckpointError(f"The folder has rows of {rows.shape[1]:,} columns, not of {fixed['n_features']!r}.")
    model.reference_ = rows
    model.n_features_in_ = rows.shape[1]
    if fixed["names"] is not None:
        model.feature_names_in_ = array_from_plain(fixed["names"])


# --- save and load: a folder with the reference, written only once, the state of the last save, and a manifest


@dataclass(frozen=True)
class _Written:
    """The file that a model's reference was last written to or read from, and what the reference was then."""

    parts: tuple[weakref.ref[Any], ...]
    file: StoredFile

    def is_of(self, parts: tuple[Any, ...]) -> bool:
        return len(parts) == len(self.parts) and all(old() is new for old, new in zip(self.parts, parts, strict=True))


# A reference is large and changes only with ``fit``, so it is written and hashed only once.
_written: weakref.WeakKeyDictionary[Any, _Written] = weakref.WeakKeyDictionary()


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Save a fitted model to a folder; see `accous.save`."""
    save_with(model, path, None, None)


def save_with(
    model: Any, path: str | os.PathLike[str], attached: dict[str, Any] | None, progress: dict[str, Any] | None
) -> None:
    """Save a model and other data in one step; after a crash, the last complete save is still there.

    Parameters
    ----------
    model : as in `save`
    path : str or path
    attached : dict, optional
        What stays the same, in JSON types; it can be read in the manifest.
    progress : dict, optional
        What changes with the rounds: nested dicts of arrays, numbers and strings.
    """
    description = describe(model)
    require_fitted(model)
    folder = Path(path)
    try:
        _prepare(folder, is_attached=attached is not None)
        with model.lock():
            reference = _write_reference(model, folder)
            plain = state_to_plain(model)
            # A ratio estimator of the user's need not count its rounds.
            n_rounds = int(getattr(model, "n_rounds_", 0))
        if progress is not None:
            plain["progress"] = progress
        state = write_data(folder, f"state-{n_rounds}", plain)
        write_manifest(folder, Manifest(description, reference, state, attached))
        current = {reference.name, state.name}
        remove_files(folder, lambda name: is_data_file(name) and name not in current)
    except OSError as error:
        raise CheckpointError(
            f"Cannot write to {folder} ({error}): free some space, change the permissions or give another folder."
        ) from error


def load(path: str | os.PathLike[str], **foreign: Any) -> Any:
    """Load a model that `save` wrote; see `accous.load`."""
    return load_with(path, **foreign)[0]


def load_with(
    path: str | os.PathLike[str],
    *,
    estimator: Any = None,
    feature_map: Any = None,
    ratio: Any = None,
    candidates: Any = None,
    find_estimator: Callable[[dict[str, Any] | None], Any] = lambda _: None,
) -> tuple[Any, dict[str, Any] | None, dict[str, Any] | None]:
    """Load what `save_with` saved: the model, the attached data and the progress.

    Parameters
    ----------
    path, estimator, feature_map, ratio, candidates : as in `load`
    find_estimator : callable, optional
        Takes the attached data, or None if there is none, and returns the estimator, if that is not given.
    """
    folder = Path(path)

    def read(manifest: Manifest) -> tuple[Manifest, dict[str, Any], dict[str, Any]]:
        state = read_data(folder, manifest.state)
        return manifest, read_data(folder, manifest.reference), state

    manifest, fixed, state = read_consistently(folder, read)
    with expecting_own_content(folder):
        if estimator is None:
            estimator = find_estimator(manifest.attached)
        foreign = {"estimator": estimator, "feature_map": feature_map, "ratio": ratio, "candidates": candidates}
        require_foreign(foreign_objects(manifest.model), foreign)
        model = restore(manifest.model, foreign, fixed, state)
        _remember(model, manifest.reference)
        return model, manifest.attached, state.get("progress")


def _prepare(folder: Path, *, is_attached: bool) -> None:
    """Create the folder if it is missing, check that it holds nothing else, remove what a crash left behind."""
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(f"{folder} is a file: give a folder.")
    if not folder.exists():
        folder.mkdir(parents=True, exist_ok=True)
        sync_folder(folder.parent)
    before = None
    if (folder / MANIFEST_NAME).exists():
        before = peek_manifest(folder / MANIFEST_NAME)
        is_ours = before is not None
    else:
        # Only files of accous: the first save was interrupted.
        is_ours = all(_is_name_of_ours(file.name) for file in folder.iterdir())
    if not is_ours:
        raise CheckpointError(
            f"{folder} holds something that accous did not save: give a new or empty folder, or remove what is there."
        )
    if not is_attached and before is not None and before.get("attached") is not None:
        raise CheckpointError(
            f"{folder} holds a table model that accous fit made, and its columns and history would be lost: give "
            "another folder, or save the table model that accous.load returns."
        )
    remove_files(folder, is_temporary_file)


def _is_name_of_ours(name: str) -> bool:
    return is_data_file(name) or is_temporary_file(name) or name == LOCK_NAME


def _write_reference(model: Any, folder: Path) -> StoredFile:
    """Write what ``fit`` fixes, unless the folder already has it."""
    written = _written.get(model)
    if written is not None and written.is_of(fixed_parts(model)) and written.file.is_in(folder):
        return written.file
    file = write_data(folder, "reference", fixed_to_plain(model))
    _remember(model, file)
    return file


def _remember(model: Any, file: StoredFile) -> None:
    _written[model] = _Written(tuple(map(weakref.ref, fixed_parts(model))), file)
