"""Class or number: how a column of labels is read, written and joined with predictions."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.arrays import FloatArray
from accous.diagnostics.losses import ABSOLUTE, ERROR, LossScale
from accous.exceptions import DataError, ParameterError
from accous.model.predictors import LinearPredictor
from accous.model.tasks import LARGEST_TARGET, ClassTask, NumberTask, Task
from accous.table.readers import LabelledTable, Position, TableReader, no_such_column, require_usable, to_texts
from accous.text import listed
from accous.threads import one_openmp_thread_if_few

# --- Late labels and the rows they belong to, named by a key, by the id of their prediction, or by line


LINE, ID = "line", "id"
"""The columns that hold the line of a row in its file, and the id of its prediction."""


@dataclass(frozen=True)
class LabelTable:
    """Labels and the rows they belong to.

    Attributes
    ----------
    rows : polars.DataFrame
        The columns ``place`` (the key, id or line, as text) and ``label`` (text). Each place occurs once.
    by : {"key", "id", "line"}
        What the places are.
    place_column : str or None
        Their column. None: the table is the file that was predicted, and its own lines count.
    n_read, n_missing, n_repeated : int
        Rows of the table, those without a label, and those that repeat a place and its label.
    n_unnamed : int
        Rows that have a label, but no value in the place column.
    label_column : str
    """

    rows: pl.DataFrame
    by: str
    place_column: str | None
    n_read: int
    n_missing: int
    n_repeated: int
    n_unnamed: int = 0
    label_column: str = ""


def place_texts(values: pl.Series) -> pl.Series:
    """Return labels as text: 7 and 7.0 are the same, because numbers with gaps are often stored as floats."""
    values = values.alias("values")
    if values.dtype.is_float():
        whole = values.fill_nan(None)
        is_whole = bool((whole.drop_nulls() % 1.0 == 0.0).all()) and bool((whole.drop_nulls().abs() < 2**53).all())
        values = whole.cast(pl.Int64) if is_whole else whole
    return to_texts(values)


def key_texts(values: pl.Series) -> pl.Series:
    """Return keys as text, each by itself: a column comes in pieces, and 7.0 is 7 in each of them."""
    values = values.alias("values")
    if not values.dtype.is_float():
        return to_texts(values)
    known = values.fill_nan(None)
    whole = known.set((known % 1.0 != 0.0) | (known.abs() >= 2**53), None)
    return whole.cast(pl.Int64).cast(pl.String).fill_null(to_texts(known))


def read_label_table(
    table: TableReader, *, by: str, place_column: str | None, label: str | None, usual_label: str
) -> LabelTable:
    """Read a table of late labels.

    Parameters
    ----------
    table : TableReader
    by : {"key", "id", "line"}
    place_column : str, optional
        Column that names the row. None: the lines of the table itself do.
    label : str, optional
        Column of the labels. None: ``usual_label``, or the only column besides the one that names the row.
    usual_label : str
    """
    others = [name for name in table.columns if name != place_column]
    label = label or (others[0] if len(others) == 1 else usual_label)
    wanted = [label] if place_column is None else [place_column, label]
    for name in wanted:
        if name not in table.columns:
            raise no_such_column(table, name)
    require_usable(table, wanted)
    pieces = [pl.DataFrame(schema={"place": pl.String, "label": pl.String})]
    for chunk in table.chunks(list(dict.fromkeys(wanted)), Position()):
        if chunk is None:
            continue
        if chunk.bad_rows:
            bad = chunk.bad_rows[0]
            raise DataError(f"{table.name}, {table.unit} {bad.line}: {bad.reason}; fix it.")
        places = pl.Series(chunk.lines) if place_column is None else chunk.frame[place_column]
        pieces.append(pl.DataFrame({"place": key_texts(places), "label": place_texts(chunk.frame[label])}))
    return replace(check_labels(pl.concat(pieces), table.name, by, place_column), label_column=label)


def check_labels(rows: pl.DataFrame, name: str, by: str, place_column: str | None) -> LabelTable:
    """Leave out rows without a label and repeated ones; raise a DataError if a place has two different labels."""
    n_missing = rows["label"].null_count()
    labelled = rows.drop_nulls(["label", "place"])
    once = labelled.unique(maintain_order=True)
    repeated = once.filter(once["place"].is_duplicated())
    if repeated.height:
        place, *_ = repeated["place"]
        first, second, *_ = repeated.filter(repeated["place"] == place)["label"]
        raise DataError(
            f"{name} has two labels for {place_column or by} = {place}, {first!r} and {second!r}: remove one."
        )
    n_unnamed = rows.height - n_missing - labelled.height
    return LabelTable(once, by, place_column, rows.height, n_missing, labelled.height - once.height, n_unnamed)


# --- What a table's label is, classes or a number: how it is read, what the predictions show, and how they are
#     scored


_DECIMALS, _DIGITS = 6, 9
_FEWEST_ROWS = 5  # fits without some rows need that many
_OUTSIDE = 0.1  # share of true numbers that intervals leave out
_SMALLEST_PROBABILITY = 1e-12
_MOST_CLASSES = 200


@dataclass(frozen=True, eq=False)
class ClassForm:
    """How classes, and what is predicted of them, stand in a table: the form of a `ClassTask`."""

    classes: NDArray[Any]

    @cached_property
    def names(self) -> list[str]:
        """The classes as text."""
        return [str(each) for each in self.classes.tolist()]

    @property
    def columns(self) -> dict[str, Any]:
        """The class, and the probability of each class."""
        kind = pl.Int64() if self.classes.dtype.kind == "i" else pl.String()
        return {"prediction": kind} | {f"p_{name}": pl.Float64() for name in self.names}

    def scores(self, model: Any, X: FloatArray) -> FloatArray:
        """Compute scores whose softmax is the probabilities: log odds for two classes, else one for each class."""
        predictor = getattr(model, "estimator_", model)
        if isinstance(predictor, LinearPredictor):
            return np.asarray(predictor.decision_function(X))
        # Trees may be certain: the smallest probability has a finite logarithm.
        with one_openmp_thread_if_few(len(X)):
            logs = np.log(np.maximum(model.predict_proba(X), _SMALLEST_PROBABILITY))
        return np.asarray(logs[:, 1] - logs[:, 0] if logs.shape[1] == 2 else logs)

    def no_scores(self, n_rows: int) -> FloatArray:
        """Return one score per row for two classes, and one per row and class for more."""
        n_classes = len(self.classes)
        return np.zeros(n_rows if n_classes == 2 else (n_rows, n_classes))

    def shown(self, scores: FloatArray) -> dict[str, Any]:
        """Return the class and the rounded probabilities."""
        shares = np.round(self.probabilities(scores), _DECIMALS)
        columns: dict[str, Any] = {"prediction": pl.Series(self.classes.tolist()).gather(self.answers(scores))}
        return columns | {f"p_{name}": shares[:, number] for number, name in enumerate(self.names)}

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Class probabilities of each row: the softmax of its scores."""
        if scores.ndim == 1:
            scores = np.stack((np.zeros_like(scores), scores), axis=1)
        exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))

    def stored(self, scores: FloatArray) -> FloatArray:
        """Return what is remembered of each row: its probabilities."""
        return self.probabilities(scores)

    def answers(self, scores: FloatArray) -> NDArray[Any]:
        """Most probable class of each row, by its number."""
        return (scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)

    def fixed_answers(self, model: Any, X: FloatArray) -> NDArray[Any]:
        """Return the class numbers of the fixed model."""
        return self.answers(self.scores(model.fixed_.estimator, X))

    def predictions(self, answers: NDArray[Any]) -> NDArray[Any]:
        """Return classes."""
        return np.asarray(self.classes[answers])

    def predicted_texts(self, answers: NDArray[Any]) -> pl.Series:
        """Return the names of classes."""
        return pl.Series(self.names, dtype=pl.String).gather(answers)

    def true_answers(self, texts: pl.Series) -> NDArray[Any]:
        """Return the class numbers of labels, and -1 for other labels."""
        found = texts.replace_strict(self.names, list(range(len(self.names))), default=-1, return_dtype=pl.Int64)
        return found.fill_null(-1).to_numpy()

    def losses(self, model: Any, truths: NDArray[Any], answers: NDArray[Any]) -> NDArray[Any]:
        """Return where answers are wrong."""
        return np.asarray(answers != truths, dtype=np.int64)

    def texts(self, column: pl.Series) -> pl.Series:
        """Return labels as text; 7 and 7.0 are the same, unless one of them is the name of a class."""
        texts, as_they_are = place_texts(column), to_texts(column.alias("values"))
        whole = as_they_are.str.strip_suffix(".0")
        found = pl.when(as_they_are.is_in(self.names)).then(as_they_are)
        return pl.select(found.when(whole.is_in(self.names)).then(whole).otherwise(texts)).to_series()

    def values(self, texts: pl.Series) -> NDArray[Any]:
        """Return classes by their names; other names stay text."""
        by_name = dict(zip(self.names, self.classes.tolist(), strict=True))
        return np.array([by_name.get(name, name) for name in texts.to_list()], dtype=object)

    def new_values(self, texts: pl.Series) -> NDArray[Any]:
        """Return labels in the type of the classes, new ones included."""
        names = texts.to_list()
        n_classes = len({*names, *self.names})
        if n_classes > _MOST_CLASSES:
            raise DataError(
                f"With these rows there would be {n_classes} classes, more than {_MOST_CLASSES}: is this the label?"
            )
        if self.classes.dtype.kind not in "iu":
            return np.array(names, dtype=str)
        try:
            return np.array([int(name) for name in names], dtype=self.classes.dtype)
        except ValueError:
            odd = next(name for name in names if not name.removeprefix("-").isdecimal())
            raise DataError(f"The classes of the model are whole numbers, and the label {odd!r} is not.") from None

    def is_possible(self, texts: pl.Series) -> pl.Series:
        """Return which labels are classes."""
        return texts.is_in(self.names)

    def stranger(self, texts: pl.Series) -> str | None:
        """Say if no label is a class."""
        if self.is_possible(texts).any():
            return None
        return f"is a class of the reference ({listed(self.names)})"


@dataclass(frozen=True, eq=False)
class NumberForm:
    """The form of a `NumberTask`: a number, with an interval that holds nine of ten true numbers."""

    task: NumberTask

    @property
    def names(self) -> list[str]:
        """No names."""
        return []

    @property
    def columns(self) -> dict[str, Any]:
        """The number and the ends of its interval."""
        return dict.fromkeys(("prediction", "low", "high"), pl.Float64())

    def scores(self, model: Any, X: FloatArray) -> FloatArray:
        """Compute the predictions and their intervals; the ends are NaN if there are too few rows for an interval."""
        found = np.full((len(X), 3), np.nan)
        found[:, 0] = model.predict(X)
        if len(self.task) >= _FEWEST_ROWS:
            # Too few also where the ratio leaves all weight to one row, as for a batch far from the reference.
            with suppress(DataError):
                found[:, 1:] = model.predict_interval(X, _OUTSIDE)
        return found

    def no_scores(self, n_rows: int) -> FloatArray:
        """Return three numbers per row."""
        return np.zeros((n_rows, 3))

    def shown(self, scores: FloatArray) -> dict[str, Any]:
        """Return the numbers, rounded to nine digits; no interval is a missing one."""
        rounded = _to_digits(scores)
        return {
            name: pl.Series(rounded[:, place], nan_to_null=True)
            for place, name in enumerate(("prediction", "low", "high"))
        }

    def stored(self, scores: FloatArray) -> FloatArray:
        """Return what is remembered of each row: the ends of its interval."""
        return _to_digits(scores[:, 1:])

    def answers(self, scores: FloatArray) -> NDArray[Any]:
        """Return the numbers as they are written."""
        return _to_digits(scores[:, 0])

    def fixed_answers(self, model: Any, X: FloatArray) -> NDArray[Any]:
        """Return the numbers of the fixed model."""
        with one_openmp_thread_if_few(len(X)):
            return _to_digits(np.asarray(model.fixed_.estimator.predict(X)))

    def predictions(self, answers: NDArray[Any]) -> NDArray[Any]:
        """Return the numbers."""
        return answers

    def predicted_texts(self, answers: NDArray[Any]) -> pl.Series:
        """Return the numbers as text."""
        return pl.Series([str(each) for each in answers.tolist()], dtype=pl.String)

    def true_answers(self, texts: pl.Series) -> NDArray[Any]:
        """Return numbers, and NaN for rows without one."""
        return np.asarray(texts.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy(), dtype=np.float64)

    def losses(self, model: Any, truths: NDArray[Any], answers: NDArray[Any]) -> NDArray[Any]:
        """Return the losses that the model judges by."""
        return np.asarray(model.losses_on(truths, answers))

    def texts(self, column: pl.Series) -> pl.Series:
        """Return labels as text."""
        return place_texts(column)

    def values(self, texts: pl.Series) -> NDArray[Any]:
        """Return numbers; raise a DataError for a text that is none."""
        numbers = self.true_answers(texts)
        is_bad = ~np.isfinite(numbers)
        if is_bad.any():
            row = int(np.flatnonzero(is_bad)[0])
            raise DataError(f"The model predicts numbers, and the label {texts[row]!r} is not one.")
        return numbers

    def new_values(self, texts: pl.Series) -> NDArray[Any]:
        """Return numbers."""
        return self.values(texts)

    def is_possible(self, texts: pl.Series) -> pl.Series:
        """Return which labels are numbers."""
        return pl.Series(np.isfinite(self.true_answers(texts)))

    def stranger(self, texts: pl.Series) -> str | None:
        """Say if no label is a number."""
        return None if self.is_possible(texts).any() else "is a number, which the model predicts"


LabelForm = ClassForm | NumberForm
"""The columns that labels and predictions of a task have in tables: how they are written, read and remembered."""


def form_of(task: Task, classes: NDArray[Any] | None = None) -> LabelForm:
    """Return the form of what a model predicts in tables; classes that labels have added can be given."""
    if not task.has_classes:
        return NumberForm(task)
    return ClassForm(task.classes if classes is None else classes)


def _to_digits(values: FloatArray) -> FloatArray:
    """Round to nine significant digits, which keeps files small and readable."""
    with np.errstate(divide="ignore", invalid="ignore"):
        places = _DIGITS - 1 - np.floor(np.log10(np.abs(values)))
    scale = np.where(np.isfinite(places), 10.0 ** np.clip(np.where(np.isfinite(places), places, 0.0), -300, 300), 1.0)
    rounded = np.round(values * scale) / scale
    return np.where(np.isfinite(places), rounded, values)


# --- Whether the label of a table is a class or a number to predict: decided by its values, unless the user
#     says it


CLASSIFICATION, REGRESSION = "classification", "regression"
TASKS: dict[str, type[Task]] = {CLASSIFICATION: ClassTask, REGRESSION: NumberTask}
# Numbers with fewer different values are rather the names of classes.
_MOST_FRACTIONS, _MOST_WHOLE = 10, 50


def find_task(labels: pl.Series, column: str, chosen: str | None) -> tuple[type[Task], str]:
    """Decide what the label is, and say how in a sentence, which is empty if it could not be the other.

    Whole numbers with more than 50 different values, and other numbers with more than 10, are numbers to predict.

    Parameters
    ----------
    labels : polars.Series
        As text; null where there is none.
    column : str
        For the sentence.
    chosen : {"classification", "regression"}, optional
        What the user says.

    Examples
    --------
    >>> import polars as pl
    >>> from accous.table.kinds import find_task
    >>> find_task(pl.Series(["yes", "no"]), "y", None)
    (<class 'accous.model.tasks.ClassTask'>, '')
    >>> find_task(pl.Series([f"{number / 8}" for number in range(100)]), "y", None)[0]
    <class 'accous.model.tasks.NumberTask'>
    """
    if chosen is not None:
        return TASKS[chosen], ""
    known = labels.drop_nulls()
    numbers = _as_numbers(known)
    if not len(known) or not np.isfinite(numbers).all():
        return ClassTask, ""
    n_different = len(np.unique(numbers))
    is_whole = bool((numbers % 1.0 == 0.0).all())
    if n_different > (_MOST_WHOLE if is_whole else _MOST_FRACTIONS):
        decided = "so numbers are predicted. If they are classes, say --task classification."
        return NumberTask, f"Column {column!r} has {n_different:,} different numbers, {decided}"
    if n_different <= 2:
        return ClassTask, ""
    decided = "which are taken as classes. If they are to be predicted as numbers, say --task regression."
    return ClassTask, f"Column {column!r} has {n_different} different numbers, {decided}"


def read_task(kind: type[Task], labels: pl.Series, column: str, table: str) -> Task:
    """Return labels, all known, as the model takes them: numbers, or classes that are whole numbers or text."""
    if kind is NumberTask:
        return NumberTask(_as_numbers(labels), ABSOLUTE)
    return ClassTask(*np.unique(_as_classes(labels, column, table), return_inverse=True))


def is_no_number(labels: pl.Series) -> NDArray[np.bool_]:
    """Where there is a label that is no number to predict."""
    return labels.is_not_null().to_numpy() & ~(np.abs(_as_numbers(labels)) <= LARGEST_TARGET)


def _as_numbers(labels: pl.Series) -> FloatArray:
    """Return numbers, and NaN where there is none."""
    return np.asarray(labels.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy(), dtype=np.float64)


def _as_classes(labels: pl.Series, name: str, table: str) -> NDArray[Any]:
    different = labels.unique().to_list()
    if len(different) < 2:
        raise DataError(f"{table}: the label {name!r} is always {different[0]!r}; at least two classes are needed.")
    if len(different) > _MOST_CLASSES:
        raise DataError(
            f"{table}: the label {name!r} has {len(different)} different values, too many for classes; if it is a "
            "number, say --task regression."
        )
    if all(_is_whole_number(label) for label in different):
        return labels.cast(pl.Int64).to_numpy()
    return np.array(labels.to_list(), dtype=str)


def _is_whole_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and len(text) < 18 and str(int(text)) == text


# --- Labels that are to be scored with must have something to do with those of the model


_FEWEST_LABELS = 3  # one or two rows of a new class are no reason to doubt the column
_LARGEST_SHARE = 0.2  # of labels that the model does not know; with more, they may be those of something else


def require_no_feature(column: str, label: str, features: Collection[str]) -> None:
    """Raise a ParameterError if the column of the labels is one that the model predicts from.

    Parameters
    ----------
    column : str
    label : str
        What ``--label`` was given, for the error.
    features : collection of str
        The columns that the model uses.
    """
    if column in features:
        raise ParameterError(
            f"--label {label}: the model uses column {column!r} as a feature, so it cannot be the label. Give the "
            "column of the labels."
        )


def check_known_labels(table: TableReader, column: str, label: str, form: LabelForm) -> str | None:
    """Raise a ParameterError if no label in the first rows can be one of the model, and return a remark if many cannot.

    Closes the table. Rows without a label do not count. A new class among known ones is no error, nor are one or two
    labels of new ones.

    Parameters
    ----------
    table : TableReader
        Opened for this alone.
    column : str
    label : str
        What ``--label`` was given, for the error.
    form : LabelForm
        Of the model.
    """
    try:
        labels = to_texts(_first_labels(table, column)).drop_nulls()
    finally:
        table.close()
    stranger = form.stranger(labels) if len(labels) >= _FEWEST_LABELS else None
    if stranger is not None:
        raise ParameterError(
            f"--label {label}: none of the first {len(labels):,} labels {stranger.replace('reference', 'model')}; the "
            f"first is {labels[0]!r}. Give the column of the labels."
        )
    odd = labels.filter(~form.is_possible(labels))
    if len(odd) < _FEWEST_LABELS or len(odd) <= _LARGEST_SHARE * len(labels):
        return None
    counted = f" ({listed(form.names)}) and count as errors" if form.names else ""
    return (
        f"--label {label}: {len(odd) / len(labels):.0%} of the first {len(labels):,} labels are unknown to the "
        f"model{counted}; the first is {odd[0]!r}. Is this the column of the labels?"
    )


def _first_labels(table: TableReader, column: str) -> pl.Series:
    """Return the labels of the first piece of a table that has any; a file that grows may have no rows yet."""
    if isinstance(table, LabelledTable):
        return table.labels
    for chunk in table.chunks([column], Position()):
        if chunk is None:
            break
        if chunk.frame[column].null_count() < chunk.frame.height:
            return chunk.frame[column]
    return pl.Series(column, [], dtype=pl.String)


# --- How well held-out rows of the reference were predicted, and how they were held out, in words


TOO_FEW_ROWS = "unknown, the reference has too few rows to cross-validate"
_IN_BLOCKS, _IN_FOLDS = "in blocks of time, each predicted by a fit on all rows before it", "cross-validated"


def held_out_in_words(*, is_ordered: bool) -> str:
    """Return how rows of the reference were held out."""
    return _IN_BLOCKS if is_ordered else _IN_FOLDS


def predictors_in_words(predictors: dict[str, Any], scale: LossScale) -> str:
    """Return weights and held-out errors of the predictors that predict together.

    Examples
    --------
    >>> from accous.diagnostics.losses import ERRORS
    >>> found = {"linear": {"weight": 0.25, "error": 0.12}, "boosting": {"weight": 0.75, "error": 0.09}}
    >>> predictors_in_words(found | {"together": {"error": 0.08}}, ERRORS)
    'linear (weight 0.25, error 12.0%) and boosting (weight 0.75, error 9.0%), together 8.0%'
    """

    def shown(error: float | None) -> str:
        return "not known" if error is None else scale.shown(error)

    parts = [
        f"{name} (weight {predictors[name]['weight']:.2f}, {scale.name} {shown(predictors[name]['error'])})"
        for name in ("linear", "boosting")
    ]
    return f"{' and '.join(parts)}, together {shown(predictors['together']['error'])}"


def scale_of(settings: dict[str, Any]) -> LossScale:
    """Return how errors on the reference are written, given the settings of a model."""
    return LossScale("absolute" if "error" in settings else ERROR)


def reference_error(settings: dict[str, Any]) -> float | None:
    """Return the error on held-out rows of the reference, of classes or numbers; None if it is unknown."""
    if "error" in settings:
        error: float | None = settings["error"]
        return error
    accuracy = settings["accuracy"]
    # Rounded: 1 - (1 - 0.1) lies below 0.1, and an error that equals a constant's must not look smaller.
    return None if accuracy is None else round(1.0 - accuracy, 12)


def no_better_in_words(settings: dict[str, Any]) -> str:
    """Say that held-out rows do not show the model to be better than a constant; empty if they do, or are too few.

    Examples
    --------
    >>> no_better_in_words({"accuracy": 0.8, "error_of_constant": 0.2, "beats_constant": False})
    'By its error, the model is no better than always predicting the most frequent class.'
    """
    error = reference_error(settings)
    if error is None or settings["beats_constant"]:
        return ""
    scale, how = scale_of(settings), "not clearly" if error < round(settings["error_of_constant"], 12) else "no"
    constant = "most frequent class" if scale.is_share else "median"
    return f"By its {scale.name}, the model is {how} better than always predicting the {constant}."
