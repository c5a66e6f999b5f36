"""What a model says about input that it cannot use: which row, which column, and what to do."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from accous import AdaptiveClassifier, AdaptiveRegressor, OnlineDensityRatio
from accous.exceptions import DataError, ParameterError
from tests.classifiers import labelled_rows

X, NUMBERS = labelled_rows()
TEXTS = np.where(NUMBERS > 0, "yes", "no").astype(object)
NAMES = ["age", "height", "weight"]
FRAME = pd.DataFrame(X, columns=NAMES)


def with_value(labels: Any, value: Any, row: int = 3) -> Any:
    changed = labels.astype(object)
    changed[row] = value
    return changed


MISSING_LABELS = {
    "None among numbers": (with_value(NUMBERS, None), "None"),
    "None among texts": (with_value(TEXTS, None), "None"),
    "None in a list": (with_value(TEXTS, None).tolist(), "None"),
    "NaN among numbers": (with_value(NUMBERS, np.nan).astype(float), "NaN"),
    "NaN among texts": (with_value(TEXTS, np.nan), "NaN"),
    "pandas text": (pd.Series(with_value(TEXTS, None)), "NaN"),
    "pandas integers": (pd.Series(with_value(NUMBERS, None)).astype("Int64"), "NaN"),
    "pandas NA": (with_value(TEXTS, pd.NA), "<NA>"),
    "polars text": (pl.Series(with_value(TEXTS, None).tolist()), "None"),
    "polars integers": (pl.Series(with_value(NUMBERS, None).tolist()), "NaN"),
}


@pytest.mark.parametrize(("y", "value"), MISSING_LABELS.values(), ids=MISSING_LABELS)
def test_a_missing_label_is_named_by_its_row(y: Any, value: str) -> None:
    with pytest.raises(DataError, match=f"^y holds {value} in row 3:"):
        AdaptiveClassifier().fit(X, y)


@pytest.mark.parametrize("method", ["observe", "extend", "audit"])
@pytest.mark.parametrize("value", [None, np.nan])
def test_a_missing_late_label_is_named_by_its_row(method: str, value: Any) -> None:
    model = AdaptiveClassifier().fit(X, TEXTS)
    with pytest.raises(DataError, match=r"^y holds (None|NaN) in row 5:"):
        getattr(model, method)(X[:10], with_value(TEXTS[:10], value, row=5))


@pytest.mark.parametrize("y", [with_value(TEXTS, 7), with_value(TEXTS, 7).tolist()], ids=["array", "list"])
def test_labels_of_two_types_are_named(y: Any) -> None:
    with pytest.raises(DataError, match=r"y mixes types: '(yes|no)' in row 0 is text, 7 in row 3 is of type int"):
        AdaptiveClassifier().fit(X, y)


@pytest.mark.parametrize("named", [False, True], ids=["array", "frame"])
@pytest.mark.parametrize("method", ["fit", "adapt", "step", "predict"])
def test_a_lazy_frame_is_told_to_collect(method: str, named: bool) -> None:
    model = AdaptiveClassifier().fit(FRAME if named else X, NUMBERS)
    arguments = (pl.from_pandas(FRAME).lazy(), *([NUMBERS] if method == "fit" else []))
    with pytest.raises(DataError, match=r"LazyFrame.*X\.collect\(\)"):
        getattr(model, method)(*arguments)


@pytest.mark.parametrize("row", [dict.fromkeys(NAMES, 1.0), [dict.fromkeys(NAMES, 1.0)]], ids=["one", "a list"])
@pytest.mark.parametrize("estimator", [None, LogisticRegression()], ids=["own", "pipeline"])
def test_a_dict_as_a_row_is_told_to_be_a_frame(row: Any, estimator: Any) -> None:
    model = AdaptiveClassifier(estimator).fit(FRAME, NUMBERS)
    for method in (model.predict, model.adapt, model.step):
        with pytest.raises(DataError, match=r"dict.*pandas\.DataFrame\("):
            method(row)


def test_adapt_with_labels_points_to_observe() -> None:
    model = AdaptiveClassifier().fit(X, NUMBERS)
    with pytest.raises(ParameterError, match=r"adapt takes no labels: .*observe\(X, y\).*extend\(X, y\)"):
        model.adapt(X, NUMBERS)  # type: ignore[arg-type]
    assert model.n_rounds_ == 0
    assert model.adapt(X, None).n_rounds_ == 1


def scaled() -> ColumnTransformer:
    return ColumnTransformer([("numbers", StandardScaler(), NAMES)])


def with_text() -> pd.DataFrame:
    """Rows with a text where a number belongs, beside a column of texts that holds the same one."""
    frame = FRAME.astype(object).assign(note="n/k")
    frame.loc[5, "height"] = "n/k"
    return frame


@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_fixed", "adapt", "step"])
def test_text_in_a_number_column_of_a_pipeline_is_named(method: str) -> None:
    model = AdaptiveClassifier(make_pipeline(scaled(), LogisticRegression()), OnlineDensityRatio(feature_map=scaled()))
    model.fit(FRAME.assign(note="n/k"), NUMBERS)
    with pytest.raises(DataError, match=r"^Column 'height' holds the text 'n/k' in row 5, where"):
        getattr(model, method)(with_text())
    assert model.n_rounds_ == 0


def test_text_in_a_number_column_of_a_pipeline_is_named_by_fit() -> None:
    model = AdaptiveClassifier(make_pipeline(scaled(), LogisticRegression()), OnlineDensityRatio(feature_map=scaled()))
    with pytest.raises(DataError, match=r"^Column 'height' holds the text 'n/k' in row 5, where"):
        model.fit(with_text(), NUMBERS)


def test_text_in_a_polars_frame_is_named_too() -> None:
    model = AdaptiveClassifier(make_pipeline(scaled(), LogisticRegression()), OnlineDensityRatio(feature_map=scaled()))
    model.fit(pl.from_pandas(FRAME), NUMBERS)
    batch = pl.DataFrame({"age": [1.0, 2.0], "height": ["1.5", "tall"], "weight": [3.0, 4.0]})
    with pytest.raises(DataError, match=r"^Column 'height' holds the text 'tall' in row 1, where"):
        model.predict(batch)


UNREADABLE = {
    "text": FRAME.assign(height="tall"),
    "missing": FRAME.assign(height=np.nan),
    "dates": FRAME.assign(height=pd.Timestamp("2024-01-01")),
}


@pytest.mark.parametrize("frame", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize(("model", "kind"), [(AdaptiveClassifier(), "classifier"), (AdaptiveRegressor(), "regressor")])
def test_the_advice_is_about_the_part_that_fails(model: Any, kind: str, frame: pd.DataFrame) -> None:
    """A transformer of the ratio does not help the built-in regression; it does help a pipeline's ratio."""
    with pytest.raises(
        DataError, match=rf"Column 'height' .*{type(model).__name__}\(make_pipeline\(transformer, {kind}\)"
    ):
        model.fit(frame, NUMBERS)
    with pytest.raises(DataError, match=r"Column 'height' .*pass the ratio estimator a transformer"):
        OnlineDensityRatio().fit(frame)


def test_numbers_of_columns_rows_and_values_that_differ_come_with_advice() -> None:
    model, n = AdaptiveClassifier().fit(X, NUMBERS), len(X)
    for call in (model.predict, model.adapt, model.step, model.ratio_.partial_fit):
        with pytest.raises(
            DataError,
            match=r"^X has 2 features, but \w+ is expecting 3 features as input: pass the columns of the reference, in "
            r"the same order\.$",
        ):
            call(X[:, :2])
    for fit in (AdaptiveClassifier().fit, AdaptiveRegressor().fit, model.extend):
        with pytest.raises(
            DataError, match=rf"^X has {n} rows but y has {n - 3} labels .*: pass one label for each row"
        ):
            fit(X, NUMBERS[:-3])
    with pytest.raises(DataError, match=rf"^y has {n - 3} values for {n} rows .*: pass one value for each row"):
        model.observe(X, NUMBERS[:-3])
    for each, labels in ((model, NUMBERS), (AdaptiveRegressor().fit(X, X[:, 1] + NUMBERS), X[:, 1])):
        with pytest.raises(DataError, match=rf"^predicted has {n - 3} values for {n} rows .*: pass one value for each"):
            each.observe(X, labels, predicted=labels[:-3])
