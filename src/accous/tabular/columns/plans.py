"""How a column is encoded: as a number, a category, a date, or not at all."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.arrays import FloatArray
from accous.exceptions import CheckpointError
from accous.tabular.formats.values import to_numbers, to_texts, to_times
from accous.text import count

__all__ = [
    "ALL_MISSING",
    "ALWAYS_THE_SAME",
    "LARGEST",
    "CategoryColumn",
    "ColumnPlan",
    "DateColumn",
    "Encoded",
    "LeftOutColumn",
    "NumberColumn",
    "plan_from_json",
    "plan_to_json",
]

# Reasons to leave a column out; such columns are still watched.
ALWAYS_THE_SAME, ALL_MISSING = "always the same value", "all values are missing"
_MISSING, _OTHER = "(missing)", "(other)"
LARGEST = 1e9  # in standard deviations of the reference: enough to be far away, and its square is a number


@dataclass(frozen=True)
class Encoded:
    """A column as features.

    Attributes
    ----------
    features : array of shape (n_rows, n_features)
    is_bad : array of shape (n_rows,)
        Values that cannot be read.
    reason : str
        What is wrong with them; messages put it after the value.
    is_missing, is_unknown : array of shape (n_rows,) or None
        Values that are missing, and categories that the reference does not have; None where there are none.
    """

    features: FloatArray
    is_bad: NDArray[np.bool_]
    reason: str
    is_missing: NDArray[np.bool_] | None = None
    is_unknown: NDArray[np.bool_] | None = None


class ColumnPlan(Protocol):
    """How one column is encoded."""

    kind: ClassVar[str]

    @property
    def name(self) -> str:
        """The column."""

    @property
    def feature_names(self) -> list[str]:
        """Names of its features."""

    def encode(self, column: pl.Series) -> Encoded:
        """Return the column as features."""

    def summary(self) -> str:
        """Describe the encoding in one line."""


@dataclass(frozen=True)
class NumberColumn:
    """A number: missing values become the reference's median, then mean 0 and deviation 1 on the reference.

    Attributes
    ----------
    name : str
    median, mean, deviation : float
        Of the reference; mean and deviation after missing values are filled in.
    marks_missing : bool
        Whether a second feature marks missing values; it does if the reference has any.
    """

    name: str
    median: float
    mean: float
    deviation: float
    marks_missing: bool
    kind: ClassVar[str] = "number"

    @property
    def feature_names(self) -> list[str]:
        """The number and, if the reference has missing values, whether it is missing."""
        return [self.name, f"{self.name} is missing"] if self.marks_missing else [self.name]

    def encode(self, column: pl.Series) -> Encoded:
        """Return the number, scaled, and whether it is missing."""
        values, is_bad = to_numbers(column)
        is_missing = np.isnan(values)
        has_missing = bool(is_missing.any())
        if has_missing:
            values = np.where(is_missing, self.median, values)
        with np.errstate(over="ignore"):  # what becomes infinite is cut
            scaled = (values - self.mean) / self.deviation
        features = np.clip(scaled, -LARGEST, LARGEST)[:, None]
        if self.marks_missing:
            features = np.column_stack((features, is_missing))
        return Encoded(features, is_bad, "is not a number", is_missing if has_missing else None)

    def summary(self) -> str:
        """Describe the encoding in one line."""
        marked = ", marked" if self.marks_missing else ""
        sign = "+" if self.mean < 0.0 else "-"
        return f"(x {sign} {abs(self.mean):.4g}) / {self.deviation:.4g}; missing: {self.median:.4g}{marked}"


@dataclass(frozen=True, kw_only=True)
class CategoryColumn:
    """A category: one feature for each level that is frequent in the reference.

    Attributes
    ----------
    name : str
    levels : list of str
        The frequent levels, the most frequent first.
    has_other : bool
        Whether one more feature stands for all levels that are rare in the reference, and for unknown levels. Without
        it, unknown levels have no feature.
    has_missing : bool
        Whether one more feature stands for missing values.
    rare : list of str
        The levels that share a feature; empty if there are too many to list.
    n_rare : int
    """

    name: str
    levels: list[str]
    has_other: bool
    has_missing: bool
    rare: list[str]
    n_rare: int
    kind: ClassVar[str] = "category"

    @property
    def _all_levels(self) -> list[str]:
        return [*self.levels, *[_OTHER] * self.has_other, *[_MISSING] * self.has_missing]

    @property
    def feature_names(self) -> list[str]:
        """One for each level."""
        return [f"{self.name} = {level}" for level in self._all_levels]

    def encode(self, column: pl.Series) -> Encoded:
        """Return one-hot features."""
        texts, n_levels = to_texts(column), len(self.levels)
        codes = texts.replace_strict(self.levels, list(range(n_levels)), default=-1, return_dtype=pl.Int64).to_numpy()
        is_missing = texts.is_null().to_numpy()
        is_other = (codes < 0) & ~is_missing
        columns = [codes == level for level in range(n_levels)]
        columns += [is_other] * self.has_other + [is_missing] * self.has_missing
        features = np.column_stack(columns).astype(np.float64)
        is_unknown = ~self.is_known(column) if is_other.any() else None
        return Encoded(features, np.zeros(len(texts), dtype=bool), "", is_missing, is_unknown)

    def is_known(self, column: pl.Series) -> NDArray[np.bool_]:
        """Which values are missing or in the reference; all, if the reference has too many rare levels to list."""
        if self.n_rare > len(self.rare):
            return np.ones(len(column), dtype=bool)
        texts = to_texts(column)
        return np.asarray((texts.is_in([*self.levels, *self.rare]) | texts.is_null()).fill_null(True).to_numpy())

    def summary(self) -> str:
        """Describe the encoding in one line."""
        parts = [f"{count(len(self.levels), 'level')}, a feature each"]
        if self.has_other:
            rare = count(self.n_rare, "rare level")
            parts.append(f"{rare} and unknown levels share one")
        else:
            parts.append("unknown levels have none")
        if self.has_missing:
            parts.append("missing is a level")
        return "; ".join(parts)


@dataclass(frozen=True)
class DateColumn:
    """A date: its position in the cycles that the reference covers, each as a point on a circle.

    The date itself is not a feature: every future date lies outside the reference, and no weighting could follow it.

    Attributes
    ----------
    name : str
    form : str
        The format, as for ``strftime``; empty for a column of typed dates.
    cycles : list of str
        Of ``"year"``, ``"week"`` and ``"day"``.
    """

    name: str
    form: str
    cycles: list[str]
    kind: ClassVar[str] = "date"

    @property
    def feature_names(self) -> list[str]:
        """Two for each cycle."""
        return [f"{self.name}: {part} of {cycle}" for cycle in self.cycles for part in ("sine", "cosine")]

    def encode(self, column: pl.Series) -> Encoded:
        """Return a point on a circle for each cycle; its centre where the date is missing."""
        times, is_bad = to_times(column, self.form)
        columns = []
        for cycle in self.cycles:
            angles = np.asarray(_share_of_cycle(times, cycle).to_numpy(), dtype=np.float64) * 2.0 * np.pi
            columns += [np.nan_to_num(np.sin(angles)), np.nan_to_num(np.cos(angles))]
        is_missing = times.is_null().to_numpy() & ~is_bad
        return Encoded(np.column_stack(columns), is_bad, "is not a date like those of the reference", is_missing)

    def summary(self) -> str:
        """Describe the encoding in one line."""
        features = "two features each" if len(self.cycles) > 1 else "two features"
        return f"position in the {', '.join(self.cycles)}, {features}; the date itself is left out"


@dataclass(frozen=True)
class LeftOutColumn:
    """A column that is not used.

    Attributes
    ----------
    name, reason : str
    """

    name: str
    reason: str
    kind: ClassVar[str] = "left out"

    def summary(self) -> str:
        """Give the reason in one line."""
        return self.reason


_PLANS: dict[str, type[Any]] = {plan.kind: plan for plan in (NumberColumn, CategoryColumn, DateColumn, LeftOutColumn)}


def plan_to_json(plan: Any) -> dict[str, Any]:
    """Return the plan, ready for JSON."""
    return {"kind": plan.kind, **asdict(plan)}


def plan_from_json(content: dict[str, Any]) -> Any:
    """Undo ``plan_to_json``."""
    parts = dict(content)
    cls = _PLANS.get(parts.pop("kind", ""))
    if cls is None:
        raise CheckpointError(
            "The saved preprocessing has a kind of column that this version of accous does not know: upgrade accous."
        )
    return cls(**parts)


def _share_of_cycle(times: pl.Series, cycle: str) -> pl.Series:
    seconds = times.dt.hour().cast(pl.Float64) * 3600 + times.dt.minute() * 60 + times.dt.second()
    day = seconds / 86_400
    if cycle == "day":
        return day
    if cycle == "week":
        return (times.dt.weekday().cast(pl.Float64) - 1 + day) / 7
    return (times.dt.ordinal_day().cast(pl.Float64) - 1 + day) / 365.25
