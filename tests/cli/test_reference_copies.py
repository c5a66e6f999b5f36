"""`accous extend` with rows that the reference has already: they do not join again, whatever file they come in."""

import json
import re

import numpy as np
import polars as pl
import pytest

import accous
from accous.cli import main
from accous.exceptions import TrapWarning
from tests.cli.processes import restored
from tests.cli.tables import make_tables


@pytest.fixture(scope="module")
def _base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("copies")
    reference, stream = make_tables()
    reference.write_csv(folder / "reference.csv")
    stream.write_csv(folder / "stream.csv")
    fit = ["fit", str(folder / "reference.csv"), "--drop", "id", "-q", "--time", "day"]
    assert main([*fit, "--label", "label", "-o", str(folder / "classes")]) == 0
    numbers = ["--label", "x3", "--task", "regression", "--estimator", "linear", "-o", str(folder / "numbers")]
    assert main([*fit, *numbers]) == 0
    return folder


@pytest.fixture(autouse=True)
def _folder(_base, monkeypatch):
    monkeypatch.chdir(_base)
    with restored(_base, "classes"):
        yield


def rows_of(name: str) -> pl.DataFrame:
    return pl.read_csv(f"{name}.csv")


def extend(capsys, frame: pl.DataFrame, *options: str, model: str = "model") -> tuple[dict, str]:
    frame.write_csv("given.csv")
    capsys.readouterr()
    assert main(["extend", model, "given.csv", "--json", *options]) == 0
    found = capsys.readouterr()
    return json.loads(found.out), re.sub(r"\s+", " ", found.err)


@pytest.mark.parametrize("model", ["model", "numbers"])
@pytest.mark.parametrize("options", [[], ["--key", "id"]], ids=["by line", "by key"])
def test_the_rows_that_fit_was_given_do_not_join_again(capsys, model, options):
    before = accous.load(model)
    found, remarks = extend(capsys, rows_of("reference"), *options, model=model)
    assert (found["joined"], found["joined_before"], found["in_reference"]) == (0, 0, 300)
    assert found["reference_rows"] == 300
    assert "Nothing new: 300 rows are in the reference already and do not join again" in remarks
    assert accous.load(model).backtest_ == before.backtest_


def test_the_order_of_the_rows_and_of_the_columns_does_not_matter(capsys):
    shuffled = rows_of("reference").sample(fraction=1.0, shuffle=True, seed=0)
    found, _ = extend(capsys, shuffled.select(reversed(shuffled.columns)))
    assert found["in_reference"] == 300


def test_only_the_new_rows_of_a_reference_that_has_grown_join(capsys):
    grown = pl.concat((rows_of("reference"), rows_of("stream")[:100].with_columns(pl.col("id") + 1000)))
    found, remarks = extend(capsys, grown, "--key", "id")
    assert (found["joined"], found["in_reference"], found["reference_rows"]) == (100, 300, 400)
    assert "300 rows are in the reference already and do not join again" in remarks
    expected = accous.load("classes").extend(rows_of("stream")[:100])
    assert np.array_equal(accous.load("model").model.reference_, expected.model.reference_)
    # The keys of the copies are remembered too, where content cannot tell: fewer than twenty rows.
    again, _ = extend(capsys, rows_of("reference")[100:110], "--key", "id")
    assert (again["joined"], again["joined_before"]) == (0, 10)


def test_another_label_is_another_row(capsys):
    swapped = rows_of("reference").with_columns(label=pl.col("label").replace({"yes": "no", "no": "yes"}))
    assert extend(capsys, swapped)[0]["joined"] == 300


@pytest.mark.parametrize("options", [[], ["--key", "id"]], ids=["by line", "by key"])
def test_the_same_customers_with_some_other_labels_join(capsys, options):
    """Without the rows whose label stayed, the reference would get changed labels only."""
    flipped = pl.col("label").replace({"yes": "no", "no": "yes"})
    later = rows_of("reference").with_columns(
        id=pl.col("id") + 1000, label=pl.when(pl.int_range(pl.len()) % 50 == 0).then(flipped).otherwise(pl.col("label"))
    )
    found, remarks = extend(capsys, later, *options)
    assert (found["joined"], found["in_reference"]) == (300, 0)
    assert "294 of the rows that joined equal a row of the reference" in remarks


def test_less_than_half_joins_with_a_remark_and_a_few_without(capsys):
    mixed = pl.concat((rows_of("reference")[:40], rows_of("stream")[:60]))
    found, remarks = extend(capsys, mixed)
    assert (found["joined"], found["in_reference"]) == (100, 0)
    assert "40 of the rows that joined equal a row of the reference in label and features" in remarks
    found, remarks = extend(capsys, pl.concat((rows_of("reference")[50:65], rows_of("stream")[60:80])))
    assert found["joined"] == 35
    assert "equal a row" not in remarks


@pytest.mark.parametrize("n_levels", [2, 4, 9])
def test_other_rows_of_a_table_of_few_categories_join(capsys, n_levels):
    """Nearly each of them is the same as some row of the reference, but not as one that is there once."""
    random = np.random.default_rng(n_levels)
    values = random.integers(0, n_levels, size=(500, 3))
    frame = pl.DataFrame({f"c{place}": [f"v{each}" for each in values[:, place]] for place in range(3)})
    frame = frame.with_columns(label=pl.Series(np.where(values[:, 0] > random.integers(0, n_levels, 500), "a", "b")))
    frame[:300].write_csv("few.csv")
    fit = ["fit", "few.csv", "--label", "label", "--ordered", "--estimator", "linear", "-o", "few", "-q", "--force"]
    assert main(fit) == 0
    found, _ = extend(capsys, frame[300:], model="few")
    assert (found["joined"], found["in_reference"]) == (200, 0)


def test_python_leaves_them_out_with_a_warning():
    model = accous.load("model")
    with pytest.warns(TrapWarning, match="300 rows are in the reference already and do not join again"):
        model.extend(rows_of("reference"))
    assert len(model.model.task_) == 300
    assert len(model.extend(rows_of("stream")[:50]).model.task_) == 350
