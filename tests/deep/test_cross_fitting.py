"""Cross-fitting: a network that has learned its rows by heart does not make the reference look different."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'accous[deep]'")

from accous import OnlineDensityRatio  # noqa: E402
from accous.deep import BackboneFeatures  # noqa: E402
from accous.deep.cross_fitting import deal_folds  # noqa: E402
from accous.exceptions import DataError, ParameterError  # noqa: E402
from tests.deep.networks import seeded, small_convolution, two_classes_of_images  # noqa: E402

N_ROWS = 120


class LearnsByHeart(torch.nn.Module):
    """Its last feature says whether it was trained on the row."""

    def __init__(self):
        super().__init__()
        self.linear = seeded(lambda: torch.nn.Linear(3, 3))
        self.register_buffer("seen", torch.full((N_ROWS, 3), torch.inf))

    def forward(self, rows):
        is_seen = (rows[:, None] == self.seen[None]).all(dim=2).any(dim=1)
        if self.training:
            n_seen = int(self.seen[:, 0].isfinite().sum())
            new = rows[~is_seen]
            self.seen[n_seen : n_seen + len(new)] = new
        return torch.cat((self.linear(rows), 5.0 * is_seen[:, None].float()), dim=1)


def labelled_and_fresh():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2 * N_ROWS, 3)).astype(np.float32)
    return X[:N_ROWS], (X[:N_ROWS, 0] > 0).astype(int), X[N_ROWS:]


def tuned(cross_fit, module=None, **parameters):
    settings = {"n_components": None, "fine_tune": True, "max_epochs": 2, "n_jobs": 1, "random_state": 0}
    return BackboneFeatures(module or LearnsByHeart(), cross_fit=cross_fit, **{**settings, **parameters})


def reference_and_fresh(cross_fit):
    X, y, fresh = labelled_and_fresh()
    model = tuned(cross_fit)
    if cross_fit == "hold_out":
        reference = model.fit(X, y).transform(X[model.reference_indices_])
    else:
        reference = model.fit_transform(X, y)
    return reference, model.transform(fresh)


def separability(reference, fresh):
    is_fresh = np.repeat([0, 1], [len(reference), len(fresh)])
    rows = np.concatenate((reference, fresh))
    return cross_val_score(LogisticRegression(), rows, is_fresh, scoring="roc_auc", cv=5).mean()


def test_reference_and_fresh_rows_of_one_distribution_are_told_apart_without_cross_fitting():
    assert separability(*reference_and_fresh("none")) > 0.9


@pytest.mark.parametrize("cross_fit", [5, 2, "hold_out"])
def test_and_are_not_with_it(cross_fit):
    assert separability(*reference_and_fresh(cross_fit)) < 0.6


def test_the_ratio_sees_a_shift_that_is_none_without_cross_fitting_and_not_with_it():
    distances = {}
    for cross_fit in ("none", 5, "hold_out"):
        reference, fresh = reference_and_fresh(cross_fit)
        ratio = OnlineDensityRatio(random_state=0).fit(reference)
        for start in range(0, len(fresh), 5):
            ratio.partial_fit(fresh[start : start + 5])
        distances[cross_fit] = np.abs(ratio.reference_ratio_ - 1.0).mean()
    assert max(distances[5], distances["hold_out"]) < 0.5 * distances["none"]


def test_folding_is_the_default():
    X, y, _ = labelled_and_fresh()
    model = BackboneFeatures(LearnsByHeart(), fine_tune=True, max_epochs=1, n_jobs=1, random_state=0).fit(X, y)
    assert [len(losses) for losses in model.validation_losses_] == [1] * 5
    np.testing.assert_array_equal(model.reference_indices_, np.arange(N_ROWS))


def test_fresh_images_get_the_mean_of_the_networks_and_the_cache_knows_it(tmp_path):
    X, y = two_classes_of_images(40)
    model = tuned(2, small_convolution(), image_size=8, cache=tmp_path)
    model.fit(X, y)
    prepared = model.backbone_.preparation.prepare(X)
    with torch.inference_mode():
        first, second = (network(prepared).mean(dim=(2, 3)) for network in model.backbone_.module.networks)
    assert (first - second).abs().max() > 1e-3
    expected = model.reduction_.transform(((first + second) / 2).numpy())
    np.testing.assert_allclose(model.transform(X), expected, atol=1e-5)
    np.testing.assert_array_equal(model.transform(X), model.transform(X))
    assert model.backbone_.identity is not None
    assert not any(parameter.requires_grad for parameter in model.backbone_.module.parameters())


def test_same_seed_same_bits():
    X, y = two_classes_of_images(40)
    first, second = (tuned(3, small_convolution(), image_size=8).fit_transform(X, y) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_folds_are_of_one_size_overall_and_in_every_class():
    labels = np.random.default_rng(0).permutation(np.repeat([0, 1, 2, 3], [50, 13, 4, 1]))
    folds = deal_folds(labels, 5, np.random.default_rng(0))
    for part in (folds, *(folds[labels == label] for label in range(4))):
        counts = np.bincount(part, minlength=5)
        assert counts.max() - counts.min() <= 1


def test_a_hold_out_keeps_its_share_of_every_class():
    X, y, _ = labelled_and_fresh()
    model = tuned("hold_out", hold_out_share=0.25).fit(X, y)
    kept = np.bincount(y[model.reference_indices_])
    np.testing.assert_array_equal(kept, np.round(0.25 * np.bincount(y)))


def test_errors_say_what_to_do():
    X, y, _ = labelled_and_fresh()
    with pytest.raises(ParameterError, match=r"call fit\(X, y\), and transform the rows at reference_indices_"):
        tuned("hold_out").fit_transform(X, y)
    for wrong in (1, "holdout", True, None):
        with pytest.raises(ParameterError, match=r'cross_fit must be an integer of at least 2, "hold_out" or "none"'):
            tuned(wrong).fit(X, y)
    with pytest.raises(ParameterError, match="hold_out_share must be below 1"):
        tuned("hold_out", hold_out_share=1.0).fit(X, y)
    with pytest.raises(DataError, match="cross_fit=5 needs at least 5 rows, got 4"):
        tuned(5).fit(X[:4], [0, 1, 0, 1])
