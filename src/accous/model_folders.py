"""`accous.save` and `accous.load`: models of every kind, those on arrays and those on tables."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from accous.checkpoint import folder as saving
from accous.checkpoint.files import lock_to_save
from accous.exceptions import CheckpointError
from accous.text import require_extra

__all__ = ["load", "save"]


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Save a fitted model to a folder, from which `load` resumes it bit for bit.

    The reference is written once; saving again to the same folder writes only the state of the round. A crash at any
    moment leaves the previous save whole. A model that another program saved there is replaced. Nothing is pickled: a
    foreign ``estimator`` or ``feature_map`` is recorded by its class name, and you pass it to `load` again.

    One process at a time may save to a folder; any number of processes may load from it meanwhile. A folder that
    ``accous serve`` or another command is using is refused. If another thread calls the model to learn, what is saved
    is the state after a complete round.

    From `load` to ``save``, let only one process work on a folder: of two that load the same state, adapt and save, the
    last save wins, and the rounds of the other are lost without an error.

    Parameters
    ----------
    model : AdaptiveClassifier, ratio estimator or TableModel
        Fitted. A ratio estimator of your own needs ``state_to_plain`` and ``state_from_plain``.
    path : str or path
        A folder: new, empty, or one that was saved to before. A folder that ``accous fit`` made takes table models
        only.

    Raises
    ------
    CheckpointError
        If the model has parts that cannot be saved, or the folder holds something else or cannot be written to.
    LockedError
        If a command in another process, such as ``accous serve``, is using the folder; the message names the process.

    Examples
    --------
    >>> import tempfile
    >>> import accous
    >>> from accous.streams import GaussianStream, SquareShift
    >>> stream = GaussianStream(SquareShift(period=50), n_rounds=20, batch_size=5)
    >>> model = accous.AdaptiveClassifier().fit(*stream.reference())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for batch in stream:
    ...         accous.save(model.adapt(batch.X), folder)
    ...     accous.load(folder).n_rounds_
    20
    """
    folder = Path(path)
    try:
        with lock_to_save(folder):
            _save(model, folder)
    except OSError as error:
        raise CheckpointError(f"Cannot write to {folder} ({error.strerror}): change its permissions.") from None


def _save(model: Any, folder: Path) -> None:
    # There is no table model before its module is imported, which needs polars.
    tables = sys.modules.get("accous.table.model")
    if tables is None or not isinstance(model, tables.TableModel):
        saving.save(model, folder)
        return
    from accous.table.model import save_table_model

    save_table_model(model, folder)


def load(
    path: str | os.PathLike[str],
    *,
    estimator: Any = None,
    feature_map: Any = None,
    ratio: Any = None,
    candidates: list[Any] | None = None,
) -> Any:
    """Load a saved model; it continues where the saved one stopped, bit for bit.

    Parameters
    ----------
    path : str or path
        A folder that `save` or ``accous fit`` wrote.
    estimator : classifier, optional
        The ``estimator`` that the saved `AdaptiveClassifier` had, if it was not None; it is fitted again with the
        weights of its last fit, so it must have the same class, parameters and seed. A `TableModel` needs it only if
        ``accous fit`` was given code of your own (``--estimator MODULE:NAME``): pass what that returns.
    feature_map : transformer, optional
        The ``feature_map`` that the saved ratio estimator had, if it was a transformer; it is fitted again on the
        reference.
    ratio : RatioEstimator, optional
        The ratio estimator, if its class is your own: the one that was saved, or the ``ratio`` of the saved
        `AdaptiveClassifier`. Pass one with the same class and parameters; a clone of it takes over what was learned.
    candidates : list, optional
        The ``candidates`` of the saved `OnlineDensityRatio`, if not all of them are estimators of this package with
        parameters that are saved: the whole list, in the same order.

    Returns
    -------
    AdaptiveClassifier, OnlineDensityRatio, SingleLearnerRatio, NoShift or TableModel
        A `TableModel` from a folder that ``accous fit`` made; the classifier in it is its attribute ``model``.

    Raises
    ------
    CheckpointError
        If there is no saved model, if a file of it was changed, or if it needs another estimator or feature map.
    MissingExtraError
        If the model is a `TableModel` and polars is not installed.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import accous
    >>> rng = np.random.default_rng(0)
    >>> ratio = accous.OnlineDensityRatio().fit(rng.normal(size=(50, 2)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     accous.save(ratio, folder)
    ...     resumed = accous.load(folder)
    >>> batches = rng.normal(loc=1.0, size=(10, 5, 2))
    >>> for batch in batches:
    ...     _ = ratio.partial_fit(batch), resumed.partial_fit(batch)
    >>> bool(np.all(ratio.coef_ == resumed.coef_))
    True
    """
    foreign = {"estimator": estimator, "feature_map": feature_map, "ratio": ratio, "candidates": candidates}
    model, attached, progress = saving.load_with(
        path, **foreign, find_estimator=lambda found: _find_estimator(found, path)
    )
    if attached is None or progress is None:
        return model
    require_extra("polars", f"The model in {path}, made by accous fit,")
    from accous.table.model import restore_table_model

    return restore_table_model(model, attached, progress, Path(path))


def _find_estimator(attached: dict[str, Any] | None, path: str | os.PathLike[str]) -> Any:
    """Return the estimator that ``accous fit`` was given by name, unless it is code of the user's."""
    if attached is None:
        return None
    require_extra("polars", f"The model in {path}, made by accous fit,")
    from accous.table.model import known_estimator

    return known_estimator(attached)
