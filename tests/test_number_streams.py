"""The real streams of numbers: what is read of them, and that the benchmark of refits measures all contenders."""

import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from accous.core.regression import make_ridge_problem, solve_ridge
from accous.streams import OrderedStream
from accous.threads import one_blas_thread
from benchmarks.real_stream_tables import number_streams, prepare, read_number_stream, read_stream
from benchmarks.ridge_refits import measure_refits

has_streams = (Path(os.environ.get("ACCOUS_DATA", "")) / "streams" / "bike_sharing_hour.csv.gz").is_file()
needs_streams = pytest.mark.skipif(
    not has_streams,
    reason="needs real streams that accous cannot download: put them into the folder streams of ACCOUS_DATA",
)


def test_four_streams_have_numbers() -> None:
    assert number_streams() == ["beijing_pm25", "appliances_energy", "bike_sharing_hour", "metro_traffic"]


@needs_streams
@pytest.mark.parametrize("name", number_streams())
def test_a_stream_of_numbers_can_be_read_and_fitted(name: str) -> None:
    frame, y = read_number_stream(name, 3000)
    assert y.shape == (len(frame),) == (3000,)
    assert np.isfinite(y).all()
    assert len(np.unique(y)) > 50
    X = prepare(frame[:1000])(frame)
    stream = OrderedStream(X, y, n_reference=1000, batch_size=100)
    rows, targets = stream.reference()
    with one_blas_thread():
        coefs = solve_ridge(make_ridge_problem(rows, targets, 1.0), np.ones(1000))
    wanted = Ridge(alpha=1.0).fit(rows, targets)
    np.testing.assert_allclose(rows @ coefs[:-1] + coefs[-1], wanted.predict(rows), rtol=0, atol=1e-6 * targets.std())
    assert sum(len(batch.y) for batch in stream) == 2000


@needs_streams
def test_its_classes_are_whether_the_number_is_large() -> None:
    _, y = read_number_stream("bike_sharing_hour", 2000)
    frame, classes = read_stream("bike_sharing_hour", 2000)
    assert y[classes == "1"].min() > y[classes == "0"].max()
    assert "cnt" not in frame.columns


def test_refits_of_all_contenders_are_measured() -> None:
    times = measure_refits(60, 3, turns=1, refits_per_turn=2)
    assert set(times) == {"ridge", "logistic", "scikit_learn", "leave_one_out"}
    assert all(0.0 < seconds < 60.0 for seconds in times.values())
