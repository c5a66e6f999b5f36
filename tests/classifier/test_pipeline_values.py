"""Values that a user's pipeline does not take: the error names column and row, in a line that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from accous import AdaptiveClassifier, AdaptiveRegressor, OnlineDensityRatio
from accous.exceptions import DataError

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "from": RNG.choice(["A", "B"], 120),
        "weight": RNG.normal(size=120),
        "to": RNG.choice(["C", "D"], 120),
        "height": RNG.normal(size=120),
        "zone": RNG.choice([1, 2], 120),
    }
)
LABELS = FRAME["height"] > 0.0
METHODS: dict[str, Callable[[Any, Any], Any]] = {
    **{
        name: lambda model, X, name=name: getattr(model, name)(X)
        for name in ("predict", "predict_proba", "predict_fixed", "predict_set", "adapt", "step")
    },
    "observe": lambda model, X: model.observe(X, LABELS[: len(X)]),
    "audit": lambda model, X: model.audit(X, LABELS[: len(X)]),
}
each_method = pytest.mark.parametrize("call", METHODS.values(), ids=METHODS)


def columns(encoder: Any = OneHotEncoder) -> ColumnTransformer:
    # Not in the order of the frame, so that the number of a column in an error is not its place in the frame.
    return ColumnTransformer(
        [("numbers", StandardScaler(), ["height", "weight"]), ("texts", encoder(), ["to", "from", "zone"])]
    )


def make(encoder: Any = OneHotEncoder) -> Any:
    return around(columns(encoder))


def around(columns: ColumnTransformer) -> Any:
    return AdaptiveClassifier(make_pipeline(columns, LogisticRegression()), OnlineDensityRatio(feature_map=columns))


@pytest.fixture(scope="module")
def model() -> Any:
    return make().fit(FRAME, LABELS)


def changed(**values: Any) -> pd.DataFrame:
    """Ten rows with other values in row 4."""
    rows = FRAME[:10].astype(object)
    for name, value in values.items():
        rows.loc[4, name] = value
    return rows.infer_objects()


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(DataError) as refused:
        call()
    message = str(refused.value)
    assert "\n" not in message
    return message


@each_method
def test_a_missing_number_is_named(call: Any, model: Any) -> None:
    message = refusal(lambda: call(model, changed(height=np.nan)))
    assert message.startswith(
        "Column 'height' holds a missing value (NaN) in row 4, which your estimator or transformer"
    )
    assert "SimpleImputer()" in message
    assert model.n_rounds_ == 0


@each_method
def test_an_unknown_category_is_named(call: Any, model: Any) -> None:
    message = refusal(lambda: call(model, changed(to="NEW")))
    assert message.startswith("Column 'to' holds 'NEW' in row 4, a category that your encoder does not know")
    assert 'OneHotEncoder(handle_unknown="ignore")' in message
    assert model.n_rounds_ == 0


def test_the_advice_about_missing_numbers_and_unknown_categories_works() -> None:
    def columns() -> ColumnTransformer:
        texts = OneHotEncoder(handle_unknown="ignore")
        return ColumnTransformer([("numbers", SimpleImputer(), ["height"]), ("texts", texts, ["to"])])

    model = AdaptiveClassifier(
        make_pipeline(columns(), LogisticRegression()), OnlineDensityRatio(feature_map=columns())
    )
    model.fit(FRAME, LABELS).step(changed(height=np.nan, to="NEW"))
    assert model.n_rounds_ == 1


def test_a_category_that_another_column_knows_is_found_where_it_is_new(model: Any) -> None:
    assert refusal(lambda: model.step(changed(to="A"))).startswith("Column 'to' holds 'A' in row 4")
    assert refusal(lambda: model.step(changed(**{"from": "D"}))).startswith("Column 'from' holds 'D' in row 4")


@pytest.mark.parametrize("encoder", [OneHotEncoder, OrdinalEncoder])
@pytest.mark.parametrize(("value", "shown"), [(7, "7"), (None, "a missing value (NaN)"), ("it's", '"it\'s"')])
def test_categories_of_every_kind_are_named(value: Any, shown: str, encoder: Any) -> None:
    name = "zone" if value == 7 else "to"
    model = make(encoder).fit(FRAME, LABELS)
    assert refusal(lambda: model.step(changed(**{name: value}))).startswith(f"Column {name!r} holds {shown} in row 4")


def test_a_column_whose_reference_has_missing_values_is_not_the_cause() -> None:
    numbers = make_pipeline(SimpleImputer(), StandardScaler())

    def columns() -> ColumnTransformer:
        return ColumnTransformer([("filled", numbers, ["weight"]), ("as they are", StandardScaler(), ["height"])])

    model = AdaptiveClassifier(
        make_pipeline(columns(), LogisticRegression()), OnlineDensityRatio(feature_map=columns())
    )
    model.fit(FRAME.assign(weight=FRAME["weight"].where(FRAME["weight"] > -1.0)), LABELS)
    message = refusal(lambda: model.step(changed(weight=np.nan, height=np.nan)))
    assert message.startswith("Column 'height' holds a missing value")


def test_a_missing_number_comes_before_a_missing_text() -> None:
    rows = FRAME.astype({"from": object})
    rows.loc[2, "from"] = None
    rows.loc[3, "height"] = np.nan
    assert refusal(lambda: make().fit(rows, LABELS)).startswith("Column 'height' holds a missing value (NaN) in row 3")


def test_polars_frames_arrays_and_regressors_are_named_too() -> None:
    model = make().fit(pl.from_pandas(FRAME), LABELS.to_numpy())
    rows = pl.from_pandas(changed(height=np.nan))
    assert refusal(lambda: model.step(rows)).startswith("Column 'height' holds a missing value (NaN) in row 4")
    rows = pl.from_pandas(changed(to="NEW"))
    assert refusal(lambda: model.step(rows)).startswith("Column 'to' holds 'NEW' in row 4")
    X = FRAME[["weight", "height"]].to_numpy().copy()
    regressor = AdaptiveRegressor(Ridge(), OnlineDensityRatio(feature_map=StandardScaler())).fit(X, X[:, 0])
    X[4, 1] = np.nan
    for call in (regressor.predict, regressor.predict_interval, regressor.adapt, regressor.step):
        assert refusal(lambda call=call: call(X[:10])).startswith("Column 1 holds a missing value (NaN) in row 4")


def test_what_is_missing_after_the_pipeline_alone_reaches_the_user_as_it_is() -> None:
    class Breaks(StandardScaler):
        def transform(self, X: Any, copy: bool | None = None) -> Any:
            return np.where(len(X) == 10, np.nan, super().transform(X, copy))

    estimator = make_pipeline(Breaks(), LogisticRegression())
    X = FRAME[["weight", "height"]]
    with pytest.raises(ValueError, match=r"^Input X contains NaN\.\nLogisticRegression") as error:
        AdaptiveClassifier(estimator).fit(X, LABELS).predict(X[:10])
    assert not isinstance(error.value, DataError)
