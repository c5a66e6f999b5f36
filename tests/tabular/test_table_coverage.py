"""A table's own findings about its columns decide in every reading: the answers, the estimate and what labels say."""

import numpy as np
import polars as pl
import pytest

import accous
from accous.cli import main


def rows(n_rows, seed, category=None):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_rows, 6))
    plan = rng.choice(["basic", "family", "pro"], n_rows) if category is None else np.full(n_rows, category)
    numbers = {f"x{number}": x[:, number] for number in range(6)}
    return pl.DataFrame(numbers | {"plan": plan, "y": 2.0 * x[:, 0] + rng.normal(scale=0.5, size=n_rows)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("coverage")
    rows(400, 0).write_csv(folder / "reference.csv")
    fit = ["fit", str(folder / "reference.csv"), "--label", "y", "--unordered", "--estimator", "linear", "--quiet"]
    assert main([*fit, "-o", str(folder / "model")]) == 0
    return folder


@pytest.fixture
def model(folder):
    """A model of numbers, half of whose recent rows have a category that the reference does not have."""
    model = accous.load(folder / "model")
    rng = np.random.default_rng(1)
    for seed in range(30):
        new = rng.random(10) < 0.5
        batch = rows(10, 2 + seed)
        model.step(batch.with_columns(plan=pl.when(pl.Series(new)).then(pl.lit("student")).otherwise("plan")))
    return model


def test_a_new_category_in_many_rows_is_not_covered_in_any_reading(model):
    assert model.trust_.inputs.answer == "no"
    assert "'plan' has categories that the reference does not have, such as 'student'" in model.trust_.inputs.sentence
    assert model.model.risk_.is_covered  # the features alone do not show it
    assert not model.risk_.is_covered
    later = rows(200, 99, "student").with_columns(pl.col("y") + 50.0)
    found = model.observe(later).measured_
    assert (found.is_covered, found.concept_changed) == (False, "not known")
    assert np.isnan(found.estimated)
    assert found.sentence.count("the reference does not cover the inputs") == 1


def test_categories_that_have_joined_are_not_new_to_the_reference(model):
    model.extend(rows(100, 100, "student"))
    assert model.trust_.inputs.answer == "not known"
    sentences = [each.sentence for each in model.coverage_.columns]
    assert len(sentences) == 1
    assert sentences[0].startswith(
        "Column 'plan' had categories that fit did not see in 20.0% of the reference and has"
    )
    assert model.risk_.is_covered
