"""The order of labelled rows in time: given by the user, read from a column of times, or found by a test."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from accous.arrays import FloatArray, IntArray
from accous.diagnostics.coverage import follows_rows
from accous.exceptions import DataError, ParameterError
from accous.threads import one_blas_thread

# --- What is known about the order of the rows


class OrderKind(StrEnum):
    """Where the order in time comes from, or why there is none."""

    GIVEN = "given"
    TIMES = "times"
    COLUMN = "column"
    FOUND = "found"
    NOT_FOUND = "not found"
    UNORDERED = "unordered"
    SORTED_BY_LABEL = "sorted by label"
    ONE_DAY = "one day"
    FEW_ROWS = "few rows"


_DOUBT = 0.05  # a p-value that is small, but too large for an order
IN_TIME = (OrderKind.GIVEN, OrderKind.TIMES, OrderKind.COLUMN, OrderKind.FOUND)
_TEXTS = {
    OrderKind.GIVEN: "The rows are in order of time, as you said.",
    OrderKind.TIMES: "The rows are taken in the order of the times that you gave.",
    OrderKind.COLUMN: "The rows are taken in the order of column {column!r}.",
    OrderKind.FOUND: "The rows are taken in order of time: later rows differ from earlier ones (p = {p_value:.3f}).",
    OrderKind.NOT_FOUND: "The rows show no order in time (p = {p_value:.2f}): they count as drawn at random.",
    OrderKind.UNORDERED: "The rows have no order in time, as you said.",
    OrderKind.SORTED_BY_LABEL: "The rows are sorted by their label, which is not an order in time.",
    OrderKind.ONE_DAY: "All times{of} are of a single day, which is not an order in time.",
    OrderKind.FEW_ROWS: "The rows are too few to tell whether they are in order of time.",
}


@dataclass(frozen=True)
class Order:
    """What is known about the order of the rows.

    Attributes
    ----------
    kind : OrderKind
    p_value : float, optional
        Of the test whether the order of the rows matters, if it was made.
    column : str, optional
        The column of times.
    """

    kind: OrderKind
    p_value: float | None = None
    column: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", OrderKind(self.kind))  # files have its text

    @property
    def is_in_time(self) -> bool:
        """Whether the rows have an order in time."""
        return self.kind in IN_TIME

    @property
    def may_matter(self) -> bool:
        """Whether the rows have an order in time, or the test nearly found one."""
        return self.is_in_time or (self.kind is OrderKind.NOT_FOUND and (self.p_value or 0.0) <= _DOUBT)

    @property
    def by(self) -> str | None:
        """``"time"`` if a column or times sort the rows, ``"rows"`` if they are in order as they come."""
        if not self.is_in_time:
            return None
        return "time" if self.kind in (OrderKind.TIMES, OrderKind.COLUMN) else "rows"

    @property
    def sentence(self) -> str:
        """What is known, in one sentence."""
        of = "" if self.column is None else f" in column {self.column!r}"
        return _TEXTS[self.kind].format(column=self.column, of=of, p_value=self.p_value)

    def to_json(self) -> dict[str, Any]:
        """Return what settings record."""
        return {"by": self.by, "column": self.column, "kind": str(self.kind), "p_value": self.p_value}


def find_order(order: Any, X: Any, y: NDArray[Any], *, has_classes: bool) -> tuple[Order, IntArray | None]:
    """Return what is known about the order of labelled rows, and the rows oldest first if they have one.

    Parameters
    ----------
    order : "auto", bool, array of shape (n_rows,) or Order
        As for ``fit``. "auto" takes a column of times if the frame has one, and tests the given order otherwise.
    X : array or frame of shape (n_rows, n_features)
    y : array of shape (n_rows,)
        Classes or numbers.
    has_classes : bool
    """
    n_rows, column = len(y), None
    if isinstance(order, Order):  # of rows that are sorted already
        return order, np.arange(n_rows) if order.is_in_time else None
    if isinstance(order, (bool, np.bool_)):
        return (Order(OrderKind.GIVEN), np.arange(n_rows)) if order else (Order(OrderKind.UNORDERED), None)
    if isinstance(order, str) and order == "auto":
        column = _time_column(X)
        if column is None:
            found = look_for_order(numbers_of(X), y, has_classes=has_classes)
            return found, np.arange(n_rows) if found.is_in_time else None
        order = _as_array(X[column])
    elif order is None or isinstance(order, str):
        raise ParameterError(
            f"order must be 'auto', True, False or the times of the rows, got {order!r}: pass a column as X[name]."
        )
    rows = read_order(order, n_rows)
    if is_one_day(order):
        return Order(OrderKind.ONE_DAY, column=column), None
    return Order(OrderKind.TIMES if column is None else OrderKind.COLUMN, column=column), rows


_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def is_one_day(times: Any) -> bool:
    """Whether times are all equal, or dates of a single day.

    Examples
    --------
    >>> is_one_day(["2024-05-31 17:00", "2024-05-31 18:00"]), is_one_day([5.0, 6.0])
    (True, False)
    """
    values = _as_array(times)
    if values.dtype.kind == "M":
        values = values.astype("datetime64[D]")
    elif values.dtype.kind in "OUST":
        texts = [str(value) for value in values.tolist()]
        values = np.array([text[:10] if _DAY.match(text) else text for text in texts])
    return len(values) == 0 or bool((values == values[0]).all())


def _as_array(values: Any) -> NDArray[Any]:
    """Return a column as an array; dates with a zone become those of UTC."""
    dtype = getattr(values, "dtype", None)
    if getattr(dtype, "tz", None) is not None:
        values = values.dt.tz_convert(None)
    return np.asarray(values)


def _time_column(X: Any) -> str | None:
    """Return the column of dates that orders a frame: of those in order the finest, or the only one."""
    if not hasattr(X, "columns"):
        return None
    dates = {}
    for name in X.columns:
        kind = str(X[name].dtype).lower()
        if kind.startswith(("datetime", "date")) and not is_one_day(X[name]):
            dates[name] = _as_array(X[name])
    rising = [name for name, times in dates.items() if (np.diff(times) >= np.timedelta64(0)).all()]
    if rising:
        return max(rising, key=lambda name: len(np.unique(dates[name])))
    return next(iter(dates)) if len(dates) == 1 and not np.isnat(next(iter(dates.values()))).any() else None


# --- The test: do later rows differ from earlier ones, beyond chance?


ALPHA = 0.01
FEWEST_ROWS = 100
_MOST_ROWS = 3_000
_MOST_COLUMNS, _ROWS_PER_COLUMN = 50, 20
_MOST_CLASSES = 9
_N_PERMUTED = 299
_N_WAVES = 3
_FARTHEST = 3.0  # deviations: beyond, single values would decide


def look_for_order(X: FloatArray, y: NDArray[Any], *, has_classes: bool) -> Order:
    """Test whether the given order of labelled rows matters.

    A linear predictor of three slow waves of time (half a period, a whole and one and a half, so that first and last
    part, and the middle and the ends, are told apart) reads the columns and the labels, and also their squares and
    products. What it explains is compared with what it explains of the same rows in random order: the p-value is exact,
    whatever the columns look like. Columns that count the rows are left out, so that an id proves nothing.

    Rows that are sorted by their label have no order of time, even if those of each class had one.

    Parameters
    ----------
    X : array of shape (n_rows, n_columns)
        May hold NaN.
    y : array of shape (n_rows,)
    has_classes : bool
    """
    if len(y) < FEWEST_ROWS:
        return Order(OrderKind.FEW_ROWS)
    if _is_sorted(y) if has_classes else follows_rows(np.asarray(y, dtype=np.float64)):
        return Order(OrderKind.SORTED_BY_LABEL)
    some = np.unique(np.linspace(0, len(y) - 1, min(len(y), _MOST_ROWS)).astype(np.int64))
    X, y = X[some], y[some]
    with one_blas_thread():
        p_value = _p_value(_bases(X, _label_columns(y, has_classes=has_classes)), len(y))
    return Order(OrderKind.FOUND if p_value <= ALPHA else OrderKind.NOT_FOUND, p_value)


def _is_sorted(y: NDArray[Any]) -> bool:
    """Whether all rows of each class stand together."""
    n_changes = np.count_nonzero(y[1:] != y[:-1])
    return bool(0 < n_changes == len(np.unique(y)) - 1)


def _p_value(bases: tuple[FloatArray, FloatArray], n_rows: int) -> float:
    """Return how often rows in random order are explained as well as in the given one.

    It counts the largest of four scores: of the slowest wave or of all, explained by the first basis or by both. What
    is simple is found with few rows, and what is not with more.
    """
    random, time = np.random.default_rng(0), (np.arange(n_rows) + 0.5) / n_rows
    waves = np.cos(np.pi * np.arange(1, _N_WAVES + 1)[:, None] * time)
    orders = np.argsort(random.random((_N_PERMUTED, n_rows)), axis=1)
    all_waves = np.concatenate((waves[:, None], waves[:, orders]), axis=1).reshape(-1, n_rows)
    explained = np.array([np.square(all_waves @ basis).sum(axis=1).reshape(_N_WAVES, -1) for basis in bases])
    sums = explained.cumsum(axis=0).cumsum(axis=1)[:, [0, -1]].reshape(4, -1)
    scores = (sums - sums.mean(axis=1, keepdims=True)) / np.maximum(sums.std(axis=1, keepdims=True), 1e-300)
    largest = scores.max(axis=0)
    return float((largest >= largest[0] - 1e-9).mean())


def _bases(X: FloatArray, labels: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return orthonormal bases of what columns and labels span, and of what squares and products add to it."""
    is_used = [not follows_rows(X[:, column]) for column in range(X.shape[1])]
    columns = _standardised(X[:, is_used])
    most = min(_MOST_COLUMNS, len(X) // _ROWS_PER_COLUMN)
    if columns.shape[1] > most:
        columns = _standardised(columns @ np.random.default_rng(0).normal(size=(columns.shape[1], most)))
    first = _basis(np.hstack((columns, labels)))
    products = [columns * labels[:, [place]] for place in range(min(2, labels.shape[1]))]
    others = _standardised(np.hstack((columns**2, *products)))
    return first, _basis(others - first @ (first.T @ others))


def _basis(values: FloatArray) -> FloatArray:
    left, sizes, _ = np.linalg.svd(values - values.mean(axis=0), full_matrices=False)
    return np.ascontiguousarray(left[:, sizes > 1e-3 * np.sqrt(len(values))])


def _standardised(values: FloatArray) -> FloatArray:
    """Return columns with mean 0 and deviation 1, missing values at the mean, without those that are constant."""
    is_missing = np.isnan(values)
    n_known = np.maximum(1, (~is_missing).sum(axis=0))
    centred = np.where(is_missing, 0.0, values)
    centred = np.where(is_missing, 0.0, centred - centred.sum(axis=0) / n_known)
    deviation = np.sqrt(np.square(centred).sum(axis=0) / n_known)
    is_used = deviation > 1e-9 * np.abs(np.where(is_missing, 0.0, values)).max(axis=0, initial=0.0)
    return np.clip(centred[:, is_used] / deviation[is_used], -_FARTHEST, _FARTHEST)


def _label_columns(y: NDArray[Any], *, has_classes: bool) -> FloatArray:
    """Return the number to predict, or which of the most frequent classes a row has, with mean 0 and deviation 1."""
    if not has_classes:
        return _standardised(np.asarray(y, dtype=np.float64)[:, None])
    _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    frequent = np.argsort(-counts, kind="stable")[:_MOST_CLASSES]
    return _standardised((codes[:, None] == frequent).astype(np.float64))


def numbers_of(X: Any) -> FloatArray:
    """Return rows as numbers: columns of texts as which of their most frequent values a row has.

    Parameters
    ----------
    X : array, frame or sparse matrix
        The columns of a sparse matrix can be too many: it is read along random directions.
    """
    if issparse(X):
        directions = np.random.default_rng(0).normal(size=(X.shape[1], _MOST_COLUMNS))
        return np.asarray(X @ directions, dtype=np.float64)
    if isinstance(X, np.ndarray) and X.dtype.kind in "fiub":
        return np.asarray(X, dtype=np.float64)
    names = list(X.columns) if hasattr(X, "columns") else None
    values = [_as_array(X[name]) for name in names] if names is not None else list(np.asarray(X, dtype=object).T)
    columns = [_as_numbers(each) for each in values]
    return np.hstack(columns) if columns else np.empty((len(X), 0))


def _as_numbers(values: NDArray[Any]) -> FloatArray:
    """Return a column as numbers; of texts, which of the most frequent values each row has."""
    try:
        return values.astype(np.float64)[:, None]
    except (TypeError, ValueError):
        return _label_columns(values.astype(str), has_classes=True)


# --- The order in time that a user gives for rows: what sorts as time does, and what is refused


_ISO = re.compile(
    r"\d{4}-(?:0[1-9]|1[0-2])"
    r"(?:-(?:0[1-9]|[12]\d|3[01])(?:(?P<mark>[T ])[0-2]\d(?P<minutes>:[0-5]\d(?P<seconds>:[0-6]\d(?:\.\d+)?)?)?"
    r"(?P<zone>Z|[+-]\d{2}(?::?\d{2})?)?)?)?"
)


def read_order(order: Any, n_rows: int) -> IntArray:
    """Return the rows in order of time, oldest first; rows of the same time keep their order.

    Text is sorted letter by letter, so it must be in one ISO form, in which this is the order of time.
    """
    times = np.asarray(order)
    if isinstance(order, str):
        raise DataError(f"order is {order!r}, but it takes the times themselves, as X[{order!r}], or True: no name.")
    if times.shape != (n_rows,):
        raise DataError(f"order must have one entry for each of the {n_rows} rows, got shape {times.shape}.")
    try:
        # NaN and NaT differ from themselves.
        is_missing = (times != times) | (times == None)  # noqa: E711, PLR0124
    except TypeError as error:
        raise _not_sortable(error) from None
    if is_missing.any():
        raise DataError(f"order has no time in row {int(np.flatnonzero(is_missing)[0])}.")
    try:
        return np.argsort(_sortable(times), kind="stable")
    except TypeError as error:
        raise _not_sortable(error) from None


def _not_sortable(error: TypeError) -> DataError:
    return DataError(f"order has entries that cannot be sorted: {error}.")


def _sortable(times: NDArray[Any]) -> NDArray[Any]:
    """Return times as they sort: text in ISO form without its zone, anything else as it is."""
    if times.dtype.kind not in "OUST":
        return times
    texts = [value.decode(errors="replace") if isinstance(value, bytes) else value for value in times.tolist()]
    # Other objects, such as dates, know how they sort; a mixture does not.
    if not all(isinstance(text, str) for text in texts):
        return times
    forms = [_form(text) for text in texts]
    for row, (text, form) in enumerate(zip(texts, forms, strict=True)):
        if form is None or form != forms[0]:
            raise _not_iso(text, row, texts[0] if form is not None else None)
    end = -len(forms[0][-1]) if forms and forms[0] is not None and forms[0][-1] else None
    return np.array([text[:end] for text in texts])


def _form(text: str) -> tuple[int, str, bool, bool, str] | None:
    """Return what two texts must share to sort as their times do; None for a text that is not in ISO form."""
    found = _ISO.fullmatch(text)
    if found is None:
        return None
    parts = found.groupdict()
    mark = parts["mark"] or ""
    n_of_date = len(text) if not mark else text.index(mark)
    return n_of_date, mark, parts["minutes"] is not None, parts["seconds"] is not None, parts["zone"] or ""


def _not_iso(text: str, row: int, first: str | None) -> DataError:
    """Make the error about a text; ``first`` is that of row 0 where both are ISO text, but of two forms."""
    if first is not None:
        what = f"text of several forms, {first!r} in row 0 and {text!r} in row {row}"
        advice = 'pass pandas.to_datetime(order, format="ISO8601", utc=True).'
    else:
        what = f"the text {text!r} in row {row}"
        to = "pandas.to_numeric(order)" if _is_number(text) else "pandas.to_datetime(order, format=...)"
        advice = f"pass {to}, or ISO text such as 2024-05-31 17:00."
    return DataError(f"order holds {what}, and text sorts letter by letter, not by time: {advice}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
