"""Input that a model cannot use: an error of ours in one line that names the column, the row or the parameter."""

import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import TruncatedSVD
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

import accous
from accous import AccousError, AdaptiveClassifier, AdaptiveRegressor, OnlineDensityRatio
from accous.exceptions import DataError, DataWarning, ParameterError
from accous.keyed import KeyedAdapter
from tests.classifiers import labelled_rows

X, NUMBERS = labelled_rows()
TEXTS = np.where(NUMBERS > 0, "yes", "no").astype(object)
NAMES = ["age", "height", "weight"]
FRAME = pd.DataFrame(X, columns=NAMES)
WITH_TEXT = X.astype(object)
WITH_TEXT[4, 1] = "many"


def fitted(rows=X):
    return AdaptiveClassifier().fit(rows, NUMBERS)


def around(columns):
    return AdaptiveClassifier(make_pipeline(columns, LogisticRegression()), OnlineDensityRatio(feature_map=columns))


def scaled():
    return around(ColumnTransformer([("numbers", StandardScaler(), NAMES)]))


def with_value(labels, value, row=3):
    changed = labels.astype(object)
    changed[row] = value
    return changed


def adapt_with(rows, by=X):
    return lambda: fitted(by).step(rows)


def fit_with(labels, rows=X, **options):
    return lambda: AdaptiveClassifier().fit(rows, labels, **options)


# Whole messages are in test_texts.py.
REFUSALS = {
    "missing column": (adapt_with(FRAME[NAMES[:2]], FRAME), "no column 'weight'"),
    "misspelt column": (adapt_with(FRAME.rename(columns={"weight": "Weight"}), FRAME), "X has 'Weight'"),
    "name twice": (lambda: fitted(FRAME.set_axis(["a", "b", "b"], axis=1)), "called 'b'"),
    "name twice later": (adapt_with(pd.concat([FRAME, FRAME[["age"]]], axis=1), FRAME), "called 'age'"),
    "name twice for a pipeline": (
        lambda: scaled().fit(FRAME, NUMBERS).step(FRAME.set_axis(["age", "height", "height"], axis=1)),
        "no column 'weight'",
    ),
    "array for names": (lambda: scaled().fit(FRAME, NUMBERS).step(X), "X is an array"),
    "flat list": (adapt_with([1.0, 2.0, 3.0]), "one dimension"),
    "flat list for a pipeline": (lambda: scaled().fit(FRAME, NUMBERS).step([1.0, 2.0, 3.0]), "one dimension"),
    "row of a frame": (adapt_with(FRAME.iloc[0], FRAME), r"iloc\[\[0\]\]"),
    "None": (adapt_with(None), "got None"),
    "number": (adapt_with(3.0), r"got 3\.0"),
    "text": (adapt_with("a,b,c"), "got 'a,b,c'"),
    "complex": (adapt_with(X * 1j), "Complex"),
    "sparse": (adapt_with(sparse.csr_matrix(X)), r"X\.toarray\(\)"),
    "word": (adapt_with(WITH_TEXT), "Column 1 .* row 4 "),
    "word in a list": (adapt_with(WITH_TEXT.tolist()), "Column 1 .* row 4 "),
    "word in a frame": (adapt_with(pd.DataFrame(WITH_TEXT, columns=NAMES), FRAME), "Column 'height' .* row 4 "),
    "word after a missing value": (
        adapt_with(pd.DataFrame({"age": [1.0, 2.0], "height": [None, "many"], "weight": [1.0, 2.0]}), FRAME),
        "Column 'height' .* row 1 ",
    ),
    "dict": (adapt_with(dict.fromkeys(NAMES, 1.0), FRAME), "dict.*DataFrame"),
    "dicts": (adapt_with([dict.fromkeys(NAMES, 1.0)], FRAME), "dict.*DataFrame"),
    "lazy frame": (adapt_with(pl.from_pandas(FRAME).lazy(), FRAME), r"X\.collect\(\)"),
    "lazy frame for an array": (adapt_with(pl.from_pandas(FRAME).lazy()), r"X\.collect\(\)"),
    "lazy reference": (fit_with(NUMBERS, pl.from_pandas(FRAME).lazy()), r"X\.collect\(\)"),
    "one row": (lambda: AdaptiveClassifier().fit([[1.0, 2.0]], [0]), "1 sample"),
    "no labels": (fit_with(None), "requires y"),
    "one class": (fit_with(np.zeros(120)), "one class 0"),
    "one class of texts": (fit_with(np.array(["only"] * 120)), "one class 'only'"),
    "numbers as classes": (fit_with(X[:, 0]), "continuous.*AdaptiveRegressor"),
    "two labels": (fit_with(X[:, :2] > 0), r"shape \(120, 2\)"),
    "two numbers": (lambda: AdaptiveRegressor().fit(X, X[:, :2]), r"shape \(120, 2\)"),
    "lists as labels": (fit_with([[0, 1], [1]] * 60), "y must have one value"),
    "complex labels": (fit_with(NUMBERS * 1j), "y cannot be read"),
    "infinite label": (fit_with(with_value(NUMBERS, -np.inf).astype(float)), "y holds -infinity in row 3"),
    "types mixed": (fit_with(with_value(TEXTS, 7)), "types: '(yes|no)' in row 0 .* 7 in row 3"),
    "types mixed in a list": (fit_with(with_value(TEXTS, 7).tolist()), "types: '(yes|no)' in row 0 .* 7 in row 3"),
    "few weights": (fit_with(NUMBERS, sample_weight=[1.0, 2.0]), r"sample_weight .* shape \(2,\)"),
    "ragged weights": (fit_with(NUMBERS, sample_weight=[[1.0, 2.0], [1.0]] * 60), "sample_weight"),
    "weights in words": (fit_with(NUMBERS, sample_weight=["a"] * 120), "sample_weight"),
    "negative weights": (fit_with(NUMBERS, sample_weight=X[:, 0]), "sample_weight"),
    "weights of zero": (fit_with(NUMBERS, sample_weight=np.zeros(120)), "sample_weight"),
    "missing weights": (fit_with(NUMBERS, sample_weight=np.where(NUMBERS, np.nan, 1.0)), "sample_weight"),
    "infinite weights": (fit_with(NUMBERS, sample_weight=np.where(NUMBERS, np.inf, 1.0)), "sample_weight"),
    "name as order": (fit_with(NUMBERS, order="day"), "order must be 'auto'"),
    "not fitted": (lambda: AdaptiveClassifier().adapt(X), "not fitted"),
    "saved too early": (lambda: accous.save(OnlineDensityRatio(), "nowhere"), "not fitted"),
    "labels for adapt": (lambda: fitted().adapt(X, NUMBERS), r"observe\(X, y\)"),
    "class for a model": (lambda: accous.backtest(AdaptiveClassifier, X, NUMBERS), "the class AdaptiveClassifier"),
    "none for a model": (lambda: accous.backtest(None, X, NUMBERS), "NoneType"),
    "no states": (lambda: KeyedAdapter(fitted()).step_many(None, [1] * 120, None, X), "states must be a dict"),
    **{
        f"missing label: {kind}": (fit_with(y), "y holds .* in row 3")
        for kind, y in {
            "None among numbers": with_value(NUMBERS, None),
            "None among texts": with_value(TEXTS, None),
            "None in a list": with_value(TEXTS, None).tolist(),
            "NaN among numbers": with_value(NUMBERS, np.nan).astype(float),
            "NaN among texts": with_value(TEXTS, np.nan),
            "pandas text": pd.Series(with_value(TEXTS, None)),
            "pandas integers": pd.Series(with_value(NUMBERS, None)).astype("Int64"),
            "pandas NA": with_value(TEXTS, pd.NA),
            "polars text": pl.Series(with_value(TEXTS, None).tolist()),
            "polars integers": pl.Series(with_value(NUMBERS, None).tolist()),
        }.items()
    },
    **{
        f"missing late label: {value}": (
            lambda value=value: (
                AdaptiveClassifier().fit(X, TEXTS).observe(X[:10], with_value(TEXTS[:10], value, row=5))
            ),
            "y holds (None|NaN) in row 5",
        )
        for value in (None, np.nan)
    },
}


@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
@pytest.mark.parametrize(("call", "message"), REFUSALS.values(), ids=REFUSALS)
def test_a_mistake_is_an_error_of_ours_in_one_line(call, message):
    with pytest.raises(AccousError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_what_scikit_learn_calls_a_wrong_type_is_a_type_error_too():
    with pytest.raises(TypeError, match="Sparse"):
        fitted().step(sparse.csr_matrix(X))
    with pytest.raises(ValueError, match="infinity"):
        AdaptiveClassifier().fit(X, np.where(NUMBERS, np.inf, 0.0))


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csr_array])
def test_sparse_rows_are_read_where_the_users_parts_read_them(kind):
    def error_now(rows):
        ratio = OnlineDensityRatio(feature_map=TruncatedSVD(2, random_state=0))
        model = AdaptiveClassifier(LogisticRegression(), ratio).fit(rows, NUMBERS)
        model.step(rows[:50])
        model.observe(rows[:50], NUMBERS[:50])
        return model.snapshot().performance("error")

    found, dense = error_now(kind(X)), error_now(X)
    assert found.n_labels == 50
    assert found.value == pytest.approx(dense.value, abs=0.01)


PARAMETERS = {
    "refit": [0, -1, 1.0, 2.5, True, False, None, "never", "Auto", [1], np.nan],
    "C": [0, -1.0, np.nan, np.inf, 1e101, "1", None, True],
    "adaptation": ["none", None, True, 1.0, "AUTO"],
    "standardize": ["yes", None, 1],
    "refit_budget": [0.0, -1.0, 2.0, "much"],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in PARAMETERS for value in PARAMETERS[name]])
def test_a_bad_parameter_is_named(name, value):
    with pytest.raises(ParameterError, match=rf"^{name} must be"):
        AdaptiveClassifier(**{name: value}).fit(X, NUMBERS)


def test_a_penalty_beside_an_estimator_is_refused():
    with pytest.raises(ParameterError, match=r"^C .*estimator"):
        AdaptiveClassifier(LogisticRegression(), C=2.0).fit(X, NUMBERS)


def test_numbers_of_columns_rows_and_values_that_differ_are_named():
    model, n = fitted(), len(X)
    numbers = AdaptiveRegressor().fit(X, X[:, 1] + NUMBERS)
    for call in (model.predict, model.adapt, model.step, model.ratio_.partial_fit):
        with pytest.raises(DataError, match=r"2 features.* 3 features"):
            call(X[:, :2])
    for fit in (AdaptiveClassifier().fit, AdaptiveRegressor().fit):
        with pytest.raises(DataError, match=f"{n} rows .*{n - 3} labels"):
            fit(X, NUMBERS[:-3])
    with pytest.raises(DataError, match=f"{n - 3} values .*{n} rows"):
        model.observe(X, NUMBERS[:-3])
    for each, labels in ((model, NUMBERS), (numbers, X[:, 1])):
        with pytest.raises(DataError, match=f"predicted has {n - 3} values for {n} rows"):
            each.observe(X, labels, predicted=labels[:-3])


@pytest.mark.parametrize(
    ("model", "wrong", "right"),
    [
        (AdaptiveClassifier(), "predict_interval", "predict_set"),
        (AdaptiveRegressor(), "predict_set", "predict_interval"),
    ],
)
@pytest.mark.parametrize("is_fitted", [False, True], ids=["new", "fitted"])
def test_the_method_of_the_other_class_names_that_of_this_one(model, wrong, right, is_fitted):
    model = model.fit(X, NUMBERS) if is_fitted else model
    with pytest.raises(AttributeError, match=f"'{wrong}': use {right}"):
        getattr(model, wrong)
    assert not hasattr(model, wrong)
    assert hasattr(model, right)
    with pytest.raises(AttributeError, match=r"'predicted'$"):
        _ = model.predicted


UNREADABLE = {"text": "tall", "missing": np.nan, "dates": pd.Timestamp("2024-01-01")}


@pytest.mark.parametrize("value", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize(("model", "kind"), [(AdaptiveClassifier(), "classifier"), (AdaptiveRegressor(), "regressor")])
def test_the_advice_is_about_the_part_that_fails(model, kind, value):
    """A transformer of the ratio does not help the built-in regression; it does help a pipeline's ratio."""
    frame = FRAME.assign(height=value)
    pipeline = rf"{type(model).__name__}\(make_pipeline\(transformer, {kind}\)"
    advice = 'pass estimator="auto"' if pd.isna(value) else pipeline  # those take missing values
    with pytest.raises(DataError, match=f"'height' .*{advice}"):
        model.fit(frame, NUMBERS)
    with pytest.raises(DataError, match=r"'height' .*transformer"):
        OnlineDensityRatio().fit(frame)


# --- values that a user's pipeline does not take ------------------------------------------------------------


RNG = np.random.default_rng(0)
MIXED = pd.DataFrame(
    {
        "from": RNG.choice(["A", "B"], 120),
        "weight": RNG.normal(size=120),
        "to": RNG.choice(["C", "D"], 120),
        "height": RNG.normal(size=120),
        "zone": RNG.choice([1, 2], 120),
    }
)
LABELS = MIXED["height"] > 0.0


def mixed(encoder=OneHotEncoder):
    # Not in the order of the frame, so that the number of a column in an error is not its place in the frame.
    numbers = ("numbers", StandardScaler(), ["height", "weight"])
    return around(ColumnTransformer([numbers, ("texts", encoder(), ["to", "from", "zone"])]))


@pytest.fixture(scope="module")
def model():
    return mixed().fit(MIXED, LABELS)


def changed(**values):
    """Ten rows with other values in row 4."""
    rows = MIXED[:10].astype(object)
    for name, value in values.items():
        rows.loc[4, name] = value
    return rows.infer_objects()


def assert_named(call, column, value, row=4):
    with pytest.raises(DataError, match=re.escape(f"Column {column!r} holds {value} in row {row}")) as refused:
        call()
    assert "\n" not in str(refused.value)


MISSING = "a missing value (NaN)"


@pytest.mark.parametrize(
    "method", ["predict", "predict_proba", "predict_fixed", "predict_set", "adapt", "step", "observe"]
)
def test_a_missing_number_an_unknown_category_and_a_text_are_named_by_every_method(method, model):
    labels = (LABELS[:10],) if method == "observe" else ()
    assert_named(lambda: getattr(model, method)(changed(height=np.nan), *labels), "height", MISSING)
    assert_named(lambda: getattr(model, method)(changed(to="NEW"), *labels), "to", "'NEW'")
    assert_named(lambda: getattr(model, method)(changed(height="D"), *labels), "height", "the text 'D'")
    assert model.n_rounds_ == 0


def test_the_advice_about_missing_numbers_and_unknown_categories_works():
    texts = OneHotEncoder(handle_unknown="ignore")
    model = around(ColumnTransformer([("numbers", SimpleImputer(), ["height"]), ("texts", texts, ["to"])]))
    model.fit(MIXED, LABELS).step(changed(height=np.nan, to="NEW"))
    assert model.n_rounds_ == 1


@pytest.mark.parametrize("encoder", [OneHotEncoder, OrdinalEncoder])
@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("zone", 7, "7"),
        ("to", None, MISSING),
        ("to", "it's", '"it\'s"'),
        ("to", "A", "'A'"),  # which another column knows
        ("from", "D", "'D'"),
    ],
)
def test_categories_of_every_kind_are_named_where_they_are_new(name, value, shown, encoder):
    model = mixed(encoder).fit(MIXED, LABELS)
    assert_named(lambda: model.step(changed(**{name: value})), name, shown)


def test_a_column_whose_reference_has_missing_values_is_not_the_cause():
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    columns = [("filled", numbers, ["weight"]), ("as they are", StandardScaler(), ["height"])]
    model = around(ColumnTransformer(columns))
    model.fit(MIXED.assign(weight=MIXED["weight"].where(MIXED["weight"] > -1.0)), LABELS)
    assert_named(lambda: model.step(changed(weight=np.nan, height=np.nan)), "height", MISSING)


def test_fit_names_a_text_and_a_missing_number_before_a_missing_text():
    rows = MIXED.astype({"from": object, "height": object})
    rows.loc[2, "from"] = None
    rows.loc[3, "height"] = np.nan
    assert_named(lambda: mixed().fit(rows.infer_objects(), LABELS), "height", MISSING, 3)
    rows.loc[3, "height"] = "n/k"
    assert_named(lambda: mixed().fit(rows, LABELS), "height", "the text 'n/k'", 3)


def test_polars_frames_arrays_and_regressors_are_named_too():
    model = mixed().fit(pl.from_pandas(MIXED), LABELS.to_numpy())
    assert_named(lambda: model.step(pl.from_pandas(changed(height=np.nan))), "height", MISSING)
    assert_named(lambda: model.step(pl.from_pandas(changed(to="NEW"))), "to", "'NEW'")
    texts = pl.from_pandas(MIXED[:2]).with_columns(height=pl.Series(["1.5", "tall"]))
    assert_named(lambda: model.predict(texts), "height", "the text 'tall'", 1)
    X = MIXED[["weight", "height"]].to_numpy().copy()
    regressor = AdaptiveRegressor(Ridge(), OnlineDensityRatio(feature_map=StandardScaler())).fit(X, X[:, 0])
    X[4, 1] = np.nan
    for call in (regressor.predict, regressor.predict_interval, regressor.adapt, regressor.step):
        assert_named(lambda call=call: call(X[:10]), 1, MISSING)


def test_what_is_missing_after_the_pipeline_alone_reaches_the_user_as_it_is():
    class Breaks(StandardScaler):
        def transform(self, X, copy=None):
            return np.where(len(X) == 10, np.nan, super().transform(X, copy))

    rows = MIXED[["weight", "height"]]
    model = AdaptiveClassifier(make_pipeline(Breaks(), LogisticRegression())).fit(rows, LABELS)
    with pytest.raises(ValueError, match="contains NaN") as error:
        model.predict(rows[:10])
    assert not isinstance(error.value, DataError)


# --- what `fit` warns of ------------------------------------------------------------------------------------


NOISY = np.random.default_rng(0).normal(size=(400, 3))
NOISY_LABELS = (NOISY[:, 0] + np.random.default_rng(1).normal(size=400) > 0).astype(int)


@pytest.mark.parametrize("estimator", [None, LogisticRegression()])
def test_a_column_that_gives_the_label_away(estimator):
    leaky = np.column_stack((NOISY, NOISY_LABELS + 0.1 * np.random.default_rng(2).random(400)))
    with pytest.warns(DataWarning, match="Column 'x3'") as caught:
        model = AdaptiveClassifier(estimator).fit(leaky, NOISY_LABELS)
    assert caught[0].filename == __file__
    assert model.n_features_in_ == 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DataWarning):
            model.fit(leaky[:, [0, 1, 3]], NOISY_LABELS)
    assert model.n_features_in_ == model.reference_.shape[1] == 4, "an error leaves the model as it was"


def test_classes_with_few_rows_and_counters_in_rows_that_are_in_order():
    with pytest.warns(DataWarning, match="Class '2' has only 5 rows"):
        AdaptiveClassifier().fit(NOISY, np.where(np.arange(400) < 5, 2, NOISY_LABELS))
    counted = np.column_stack((NOISY, np.arange(400.0)))
    with pytest.warns(DataWarning, match="'x3' counts"):
        AdaptiveClassifier().fit(counted, NOISY_LABELS, order=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rows, labels in ((counted, NOISY_LABELS), (NOISY, NOISY_LABELS), (NOISY[:150, :1], NOISY[:150, 0] > 0)):
            AdaptiveClassifier().fit(rows, labels)
