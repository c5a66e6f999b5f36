"""A table model compares late labels with the estimates of their rounds, stretch by stretch."""

import numpy as np

import accous
from accous.cli import main
from accous.diagnostics.labels import NO_STRETCHES
from tests.cli.tables import make_tables


def played(folder):
    """Return a model after twenty rounds, and the stream."""
    reference, stream = make_tables()
    reference.write_csv(folder / "reference.csv")
    options = ["--label", "label", "--drop", "id,day", "--unordered", "--estimator", "linear", "--quiet"]
    assert main(["fit", str(folder / "reference.csv"), "-o", str(folder / "model"), *options]) == 0
    model = accous.load(folder / "model")
    for start in range(0, 200, 10):
        model.step(stream[start : start + 10])
    return model, stream


def test_labels_are_compared_with_the_estimate_stretch_by_stretch(tmp_path):
    model, stream = played(tmp_path)
    model.observe(stream[:50])
    assert model.measured_.stretches == NO_STRETCHES
    assert "stretches" not in model.trust_.predictions.sentence
    rounds = np.repeat(np.arange(1.0, 21.0), 40)
    model.history.add_labels(rounds, (rounds <= 10.0).astype(float))
    model.observe(stream[50:60])  # what was read before labels came is forgotten
    found = model.measured_.stretches
    assert (found.n_apart, found.n_stretches, found.shortest) == (4, 4, 200)
    assert "throughout: in 4 of 4 stretches of at least 200 labels" in model.trust_.predictions.sentence
    model.extend(stream[:20])
    assert model.measured_.stretches == NO_STRETCHES  # they are about the model before
