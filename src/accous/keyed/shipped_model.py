"""A model on its way to workers: the bytes of its folder, and the adapter that each worker makes of them once."""

from __future__ import annotations

import hashlib
import tempfile
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any

from accous.exceptions import ParameterError
from accous.keyed.adapter import KeyedAdapter
from accous.model.estimators import AdaptiveRegressor
from accous.model_folders import load, save

__all__ = ["ShippedModel"]

_ADAPTERS: dict[tuple[str, str], tuple[Any, KeyedAdapter]] = {}


class ShippedModel:
    """A fitted model and the settings of its keys, in a form that can be sent to other processes.

    What is sent is the folder that `accous.save` writes, so nothing of the model is ever unpickled.

    Parameters
    ----------
    model : path, AdaptiveClassifier or TableModel
    settings : dict
        Of `KeyedAdapter`.
    """

    def __init__(self, model: Any, settings: dict[str, Any]) -> None:
        self.settings = dict(settings)
        if isinstance(model, (str, Path)):
            self.files = _read_folder(Path(model))
        else:
            with tempfile.TemporaryDirectory() as folder:
                save(model, folder)
                self.files = _read_folder(Path(folder))
        if not self.files:
            raise ParameterError(f"There is no saved model in {model}: make one with accous.save or accous fit.")

    @cached_property
    def digest(self) -> str:
        """A name for these bytes."""
        digest = hashlib.blake2b(digest_size=16)
        for name, content in sorted(self.files.items()):
            digest.update(name.encode() + b"\0" + content)
        return digest.hexdigest()

    def __getstate__(self) -> dict[str, Any]:
        return {"settings": self.settings, "files": self.files, "digest": self.digest}

    def unpack(self) -> tuple[Any, KeyedAdapter]:
        """Return the model and its adapter; a process makes them once."""
        name = self.digest, repr(sorted(self.settings.items()))
        if name not in _ADAPTERS:
            with tempfile.TemporaryDirectory() as folder:
                for path, content in self.files.items():
                    target = Path(folder) / path
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(content)
                model = load(folder)
            _ADAPTERS[name] = model, KeyedAdapter(_shareable(model), **self.settings)
        return _ADAPTERS[name]


def _shareable(model: Any) -> Any:
    """Return what keys share of a model; refuse a table's model that predicts numbers."""
    shared = getattr(model, "model", model)
    if shared is not model and isinstance(shared, AdaptiveRegressor):
        raise ParameterError(
            "Keys predict classes only, but this model predicts numbers: fit one with a label of classes "
            "(`accous fit --estimator linear`)."
        )
    if "feature_names_in_" not in vars(shared):
        return shared
    # The step finds the columns by their names and passes arrays; scikit-learn would warn that these have no names.
    shared = copy(shared)
    del shared.feature_names_in_
    return shared


def _read_folder(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".lock"
    }
