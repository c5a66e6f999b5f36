"""What users pass: any batch size, frames, bad values with errors that name the place."""

import datetime
import pickle
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from accous import NoShift, OnlineDensityRatio, SingleLearnerRatio
from accous.exceptions import DataError
from tests.ratio.input_cases import NAMES, MakeInput, assert_sane, each_kind, normal_rows

each_class = pytest.mark.parametrize("estimator_class", [OnlineDensityRatio, SingleLearnerRatio, NoShift])
# Both read their input by the same code: every door of the one and one door of the other are enough.
each_door = pytest.mark.parametrize(
    ("estimator_class", "method"),
    [
        (OnlineDensityRatio, "partial_fit"),
        (OnlineDensityRatio, "predict_ratio"),
        (OnlineDensityRatio, "score_loss"),
        (SingleLearnerRatio, "partial_fit"),
    ],
)
each_frame = pytest.mark.parametrize("make_frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])


def used(estimator: Any, make_input: MakeInput = np.asarray, n_rounds: int = 9) -> Any:
    """The estimator after a fit and a few rounds."""
    estimator.fit(make_input(normal_rows(20)))
    for seed in range(n_rounds):
        estimator.partial_fit(make_input(normal_rows(1 + seed % 3, seed=seed) + 0.5))
    return estimator


def column_dict(**changes: Any) -> dict[str, Any]:
    """Four rows as columns of numbers, some replaced."""
    return dict(zip(NAMES, normal_rows(4).T, strict=True)) | changes


# --- batch sizes --------------------------------------------------------------------------------------------


@each_class
def test_batches_of_any_size_in_any_order_are_rounds(estimator_class: Any) -> None:
    estimator = estimator_class().fit(normal_rows(20))
    for t, size in enumerate([1, 1000, 2, 1, 7, 300, 1], start=1):
        assert estimator.partial_fit(normal_rows(size, seed=t)).n_rounds_ == t
        assert estimator.predict_ratio(normal_rows(size)).shape == (size,)


@each_kind
@each_class
def test_an_empty_batch_changes_no_bit(estimator_class: Any, make_input: MakeInput) -> None:
    estimator = used(estimator_class(), make_input)
    before = pickle.dumps(estimator)
    empty = make_input(np.empty((0, 3)))
    assert estimator.partial_fit(empty) is estimator
    assert pickle.dumps(estimator) == before
    assert estimator.n_rounds_ == 9


@each_kind
def test_an_empty_batch_changes_no_bit_with_a_transformer(make_input: MakeInput) -> None:
    estimator = used(OnlineDensityRatio(StandardScaler()), make_input)
    before = pickle.dumps(estimator)
    estimator.partial_fit(make_input(np.empty((0, 3))))
    assert pickle.dumps(estimator) == before


@each_kind
@each_class
def test_the_ratio_of_no_rows_is_an_empty_array(estimator_class: Any, make_input: MakeInput) -> None:
    ratio = used(estimator_class(), make_input).predict_ratio(make_input(np.empty((0, 3))))
    assert ratio.shape == (0,)
    assert ratio.dtype == np.float64


@each_class
def test_the_loss_of_no_rows_is_refused(estimator_class: Any) -> None:
    with pytest.raises(ValueError, match=r"0 (sample|row)|at least (1|one) row"):
        used(estimator_class()).score_loss(np.empty((0, 3)))


@each_class
def test_an_empty_batch_of_the_wrong_width_is_refused(estimator_class: Any) -> None:
    with pytest.raises(ValueError, match="3"):
        used(estimator_class()).partial_fit(np.empty((0, 2)))


@each_class
def test_empty_batches_in_between_leave_the_stream_as_it_is(estimator_class: Any) -> None:
    plain, interrupted = (estimator_class().fit(normal_rows(20)) for _ in range(2))
    for seed in range(12):
        plain.partial_fit(normal_rows(2, seed=seed))
        interrupted.partial_fit(normal_rows(2, seed=seed)).partial_fit(np.empty((0, 3)))
    assert plain.n_rounds_ == interrupted.n_rounds_ == 12
    assert plain.reference_ratio_.tobytes() == interrupted.reference_ratio_.tobytes()


# --- values that are not finite -----------------------------------------------------------------------------

NOT_FINITE = pytest.mark.parametrize(
    ("value", "word"), [(np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "-?inf")], ids=["nan", "inf", "-inf"]
)


@NOT_FINITE
@each_kind
@each_door
def test_a_value_that_is_not_finite_is_located_and_changes_nothing(
    estimator_class: Any, method: str, make_input: MakeInput, value: float, word: str
) -> None:
    estimator = used(estimator_class(), make_input)
    before = pickle.dumps(estimator)
    X = normal_rows(5)
    X[3, 1] = value
    place = "'height'" if hasattr(make_input(X), "columns") else "1"
    with pytest.raises(DataError, match=rf"Column {place} holds {word}.* row 3"):
        getattr(estimator, method)(make_input(X))
    assert pickle.dumps(estimator) == before


@NOT_FINITE
@each_kind
@pytest.mark.parametrize("estimator_class", [OnlineDensityRatio, SingleLearnerRatio])
def test_a_value_that_is_not_finite_in_the_reference_is_located(
    estimator_class: Any, make_input: MakeInput, value: float, word: str
) -> None:
    X = normal_rows(5)
    X[4, 2] = value
    place = "'weight'" if hasattr(make_input(X), "columns") else "2"
    with pytest.raises(DataError, match=rf"Column {place} holds {word}.* row 4"):
        estimator_class().fit(make_input(X))


@pytest.mark.parametrize("value", [None, pd.NA], ids=["None", "NA"])
def test_missing_objects_of_a_frame_are_located(value: Any) -> None:
    estimator = used(OnlineDensityRatio(), lambda X: pd.DataFrame(X, columns=NAMES))
    batch = pd.DataFrame(column_dict(height=pd.array([1, 2, value, 4], dtype="Int64")))
    with pytest.raises(DataError, match=r"Column 'height' holds NaN in row 2"):
        estimator.partial_fit(batch)


@each_frame
def test_none_in_a_column_of_floats_is_located(make_frame: Any) -> None:
    with pytest.raises(DataError, match=r"Column 'height' holds NaN in row 1"):
        OnlineDensityRatio().fit(make_frame(column_dict(height=[1.0, None, 2.0, 3.0])))


def test_none_in_an_array_of_objects_is_located() -> None:
    with pytest.raises(DataError, match=r"Column 1 holds NaN in row 0"):
        used(OnlineDensityRatio()).partial_fit(np.array([[1.0, None, 2.0]], dtype=object))


@pytest.mark.parametrize("n_rows", [4, 4000])
def test_finite_values_whose_sum_overflows_are_no_error(n_rows: int) -> None:
    estimator = used(OnlineDensityRatio())
    estimator.partial_fit(np.full((n_rows, 3), 1.7e308)).partial_fit([[1.7e308, -1.7e308, 1.7e308]])
    assert_sane(estimator, np.full((4, 3), -1.7e308))


# --- what is not rows of numbers ----------------------------------------------------------------------------

NOT_ROWS = {
    "too wide": (np.ones((2, 4)), "4 features.* 3 features"),
    "too narrow": (np.ones((2, 2)), "2 features.* 3 features"),
    "1-D": (np.ones(3), "one dimension"),
    "3-D": (np.ones((2, 3, 1)), "dim 3.*If these are images, accous.deep.BackboneFeatures"),
    "scalar": (1.0, "2D array"),
    "None": (None, "2D array"),
    "empty list": ([], "2D array"),
    "ragged list": ([[1.0, 2.0, 3.0], [1.0]], r"inhomogeneous|ragged"),
    "sparse": (sparse.csr_matrix(np.ones((2, 3))), "[Ss]parse"),
    "complex": (np.ones((2, 3)) * 1j, "Complex"),
    "strings": (np.array([["1.0", "x", "2.0"]]), "Column 1 cannot be read as numbers"),
    "objects": (np.array([[1.0, 2.0, object()]], dtype=object), "Column 2 cannot be read as numbers"),
    "list with a string": ([[1.0, 2.0, 3.0], [1.0, "x", 3.0]], "'x'"),
    "dates": (np.array([["2024-01-01"] * 3], dtype="datetime64[D]"), "Column 0"),
    "durations": (np.ones((2, 3), dtype="timedelta64[s]"), "Column 0"),
}


@pytest.mark.parametrize(("X", "message"), NOT_ROWS.values(), ids=NOT_ROWS)
@each_door
def test_a_batch_that_is_not_rows_of_numbers_is_refused_and_changes_nothing(
    estimator_class: Any, method: str, X: Any, message: str
) -> None:
    estimator = used(estimator_class())
    before = pickle.dumps(estimator)
    with pytest.raises((ValueError, TypeError), match=message):
        getattr(estimator, method)(X)
    assert pickle.dumps(estimator) == before


NOT_NUMBERS = {
    "strings": ["a", "b", "c", "d"],
    "times": [datetime.datetime(2024, 1, 1)] * 4,
    "dates": [datetime.date(2024, 1, 1)] * 4,
    "durations": [datetime.timedelta(days=1)] * 4,
}


@pytest.mark.parametrize("values", NOT_NUMBERS.values(), ids=NOT_NUMBERS)
@each_frame
def test_a_batch_column_that_is_not_numbers_is_named(make_frame: Any, values: list[Any]) -> None:
    estimator = used(OnlineDensityRatio(), lambda X: make_frame(dict(zip(NAMES, X.T, strict=True))))
    before = pickle.dumps(estimator)
    with pytest.raises((ValueError, TypeError), match="Column 'height'"):
        estimator.partial_fit(make_frame(column_dict(height=values)))
    assert pickle.dumps(estimator) == before


@pytest.mark.parametrize("values", NOT_NUMBERS.values(), ids=NOT_NUMBERS)
@each_frame
def test_a_reference_column_that_is_not_numbers_is_named(make_frame: Any, values: list[Any]) -> None:
    with pytest.raises((ValueError, TypeError), match="Column 'height'"):
        OnlineDensityRatio().fit(make_frame(column_dict(height=values)))


@each_frame
def test_columns_of_booleans_and_integers_are_numbers(make_frame: Any) -> None:
    frame = make_frame(column_dict(height=[True, False, True, True], weight=[1, 2, 3, 4]))
    estimator = OnlineDensityRatio().fit(frame)
    for _ in range(5):
        estimator.partial_fit(frame)
    assert_sane(estimator, frame)


# --- predict_ratio ------------------------------------------------------------------------------------------


@each_class
def test_predict_ratio_counts_nothing(estimator_class: Any) -> None:
    estimator = used(estimator_class())
    before = pickle.dumps(estimator)
    for X in (normal_rows(5), np.full((3, 3), 1e300), np.empty((0, 3))):
        estimator.predict_ratio(X)
    assert pickle.dumps(estimator) == before


def test_predict_ratio_row_by_row_equals_all_at_once() -> None:
    estimator = used(OnlineDensityRatio())
    X = np.vstack([normal_rows(20), np.full((1, 3), 1e300)])
    row_by_row = [estimator.predict_ratio(row[None])[0] for row in X]
    np.testing.assert_allclose(row_by_row, estimator.predict_ratio(X), rtol=1e-12)


def test_the_batches_may_come_from_a_generator_of_frames() -> None:
    frames = (pd.DataFrame(normal_rows(2, seed=seed), columns=NAMES) for seed in range(100))
    estimator = OnlineDensityRatio().fit(pd.DataFrame(normal_rows(20), columns=NAMES))
    for frame in islice(frames, 10):
        estimator.partial_fit(frame.set_index("age", drop=False))  # an index of floats is nothing to us
    assert estimator.n_rounds_ == 10
