"""What ``accous fit`` is asked for: the reference, the columns, the ratio, the predictor and the folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from accous.exceptions import CheckpointError
from accous.tabular.job_record import require_free
from accous.tabular.named_estimators import LINEAR

__all__ = ["FitRequest"]


@dataclass(frozen=True, kw_only=True)
class FitRequest:
    """A reference to fit on and how to fit.

    Attributes
    ----------
    reference : str
        A file, or ``"-"`` for standard input.
    label : str
        Its label column, or the file of its labels.
    folder : Path, optional
        Where to save the model; None if it is only replayed.
    drop, categorical : list of str
        Columns to leave out, and columns to read as categories.
    time : str, optional
        The column that gives the rows their order in time.
    is_ordered : bool, optional
        Whether the rows already are in order of time; None looks for a date column that gives the order.
    keep_as_feature : list of str
        Columns to use even if they look like ids, counters or times.
    ratio : str
        Name of the ratio estimator.
    feature_map, loss, max_ratio : optional
        Parameters of the ratio estimator; None leaves its default.
    estimator : str
        Name of the predictor; see `accous.tabular.named_estimators`. "auto" compares some on the reference.
    task : {"classification", "regression"}, optional
        What the label is; None decides by its values.
    C : float
        Inverse regularization strength of the linear classifier.
    alpha : float
        Penalty of the linear regression.
    refit_budget : float, optional
        Largest share of the time that refits may take; see `accous.AdaptiveClassifier`.
    caution : {"high", "normal", "low"}
        How much evidence the adaptation needs.
    seed : int
    table_format, encoding, separator : str, optional
        Of the reference, if they cannot be inferred from the file.
    skips_bad : bool
        Whether bad rows are set aside, or are an error.
    rejects : str, optional
        File for the rows set aside.
    overwrites : bool
        Whether existing files and models may be replaced.
    """

    reference: str
    label: str
    folder: Path | None = None
    drop: list[str] = field(default_factory=list)
    categorical: list[str] = field(default_factory=list)
    time: str | None = None
    is_ordered: bool | None = None
    keep_as_feature: list[str] = field(default_factory=list)
    ratio: str = "accous"
    feature_map: str | None = None
    loss: str | None = None
    max_ratio: float | None = None
    estimator: str = LINEAR
    task: str | None = None
    C: float = 1.0
    alpha: float = 1.0
    refit_budget: float | None = None
    caution: str = "normal"
    seed: int = 0
    table_format: str | None = None
    encoding: str | None = None
    separator: str | None = None
    skips_bad: bool = False
    rejects: str | None = None
    overwrites: bool = False

    def require_free_places(self) -> None:
        """Raise an error where a file or a model would be replaced without permission."""
        if self.overwrites:
            return
        if self.rejects is not None:
            require_free(self.rejects)
        if self.folder is not None and (self.folder / "manifest.json").exists():
            raise CheckpointError(
                f"{self.folder} already holds a model: give another folder, or use --force to replace the model and "
                "all it has learned"
            )
