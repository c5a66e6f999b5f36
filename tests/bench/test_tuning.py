"""Tuned backbones: they learn, stop in time, repeat bit for bit, and do not make the reference look different."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'accous[deep]'")

from accous import OnlineDensityRatio  # noqa: E402
from accous.exceptions import DataError, ParameterError  # noqa: E402
from accous_bench.tuning import TunedFeatures, deal_folds, set_aside  # noqa: E402
from tests.deep.networks import seeded, small_convolution, two_classes_of_images  # noqa: E402


def trained_twice(module=None, **parameters):
    settings = {"image_size": 8, "max_epochs": 4, "random_state": 0, "n_jobs": 1, "batch_size": 16}
    module = small_convolution() if module is None else module
    return TunedFeatures(module, cross_fit=2, **{**settings, **parameters})


def test_fine_tuning_lowers_the_validation_loss_and_changes_a_copy():
    X, y = two_classes_of_images(80)
    module = small_convolution()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    model = trained_twice(module, max_epochs=8, learning_rate=0.02, validation_share=0.25).fit(
        X, np.where(y, "cat", "dog")
    )
    assert all(min(losses) < 0.5 * losses[0] for losses in model.validation_losses_)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    kept = model.backbone_.module
    assert not kept.training
    assert not any(parameter.requires_grad for parameter in kept.parameters())
    assert not torch.equal(kept.networks[0][0].weight, module[0].weight)


def test_same_seed_same_bits_whatever_torchs_own_random_numbers():
    X, y = two_classes_of_images(60)
    dropping = lambda: seeded(lambda: torch.nn.Sequential(small_convolution(), torch.nn.Dropout2d(0.3)))  # noqa: E731
    results = []
    for number in (1, 2):
        torch.manual_seed(number)
        state = torch.random.get_rng_state()
        model = trained_twice(dropping())
        results.append((model.fit_transform(X, y), model.validation_losses_))
        assert torch.equal(torch.random.get_rng_state(), state)
    np.testing.assert_array_equal(results[0][0], results[1][0])
    assert results[0][1] == results[1][1]
    other = trained_twice(dropping(), random_state=1).fit(X, y)
    assert other.validation_losses_ != results[0][1]


def test_it_stops_after_patience_and_keeps_the_best_weights():
    X, y = two_classes_of_images(40)
    y = np.random.default_rng(0).permutation(y)  # nothing to learn: the validation loss soon rises
    long = trained_twice(max_epochs=30, patience=2, learning_rate=0.05, validation_share=0.3).fit(X, y)
    n_best = [int(np.argmin(losses)) + 1 for losses in long.validation_losses_]
    assert [len(losses) for losses in long.validation_losses_] == [n + 2 for n in n_best]
    assert max(n_best) + 2 < 30
    short = trained_twice(max_epochs=n_best[0], patience=30, learning_rate=0.05, validation_share=0.3).fit(X, y)
    assert short.validation_losses_[0] == long.validation_losses_[0][: n_best[0]]
    weights = [model.backbone_.module.networks[0].state_dict() for model in (short, long)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_rows_set_aside_are_a_share_of_every_class():
    labels = np.repeat([0, 1, 2, 3], [50, 10, 2, 1])
    validating, training = set_aside(labels, 0.2, np.random.default_rng(0))
    assert np.bincount(labels[validating], minlength=4).tolist() == [10, 2, 1, 0]
    assert np.array_equal(np.sort(np.concatenate((validating, training))), np.arange(len(labels)))


def test_clear_errors():
    X, y = two_classes_of_images(20)
    with pytest.raises(DataError, match="requires y"):
        trained_twice().fit(X)
    with pytest.raises(DataError, match=r"20 rows .* 19 labels"):
        trained_twice().fit(X, y[:-1])
    with pytest.raises(DataError, match="two classes"):
        trained_twice().fit(X, np.zeros(20))
    with pytest.raises(DataError, match="two rows"):
        set_aside(np.arange(20), 0.1, np.random.default_rng(0))
    with pytest.raises(ParameterError, match="smaller"):
        trained_twice(learning_rate=1e30).fit(X, y)


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
    settings = {"n_components": None, "max_epochs": 2, "n_jobs": 1, "random_state": 0}
    return TunedFeatures(module or LearnsByHeart(), cross_fit=cross_fit, **{**settings, **parameters})


def reference_and_fresh(cross_fit):
    X, y, fresh = labelled_and_fresh()
    model = tuned(cross_fit)
    return model.fit_transform(X, y), model.transform(fresh), model.transform(X)


def separability(reference, fresh):
    is_fresh = np.repeat([0, 1], [len(reference), len(fresh)])
    rows = np.concatenate((reference, fresh))
    return cross_val_score(LogisticRegression(), rows, is_fresh, scoring="roc_auc", cv=5).mean()


@pytest.mark.parametrize("cross_fit", [5, 2])
def test_the_networks_tell_rows_that_they_have_seen_but_not_the_reference_from_fresh_rows(cross_fit):
    reference, fresh, seen = reference_and_fresh(cross_fit)
    assert separability(reference, fresh) < 0.6
    assert separability(seen, fresh) > 0.9


def test_the_ratio_sees_a_shift_that_is_none_without_cross_fitting_and_not_with_it():
    reference, fresh, seen = reference_and_fresh(5)
    distances = []
    for rows in (reference, seen):
        ratio = OnlineDensityRatio(random_state=0).fit(rows)
        for start in range(0, len(fresh), 5):
            ratio.partial_fit(fresh[start : start + 5])
        distances.append(np.abs(ratio.reference_ratio_ - 1.0).mean())
    assert distances[0] < 0.5 * distances[1]


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


def test_folds_are_of_one_size_overall_and_in_every_class():
    labels = np.random.default_rng(0).permutation(np.repeat([0, 1, 2, 3], [50, 13, 4, 1]))
    folds = deal_folds(labels, 5, np.random.default_rng(0))
    for part in (folds, *(folds[labels == label] for label in range(4))):
        counts = np.bincount(part, minlength=5)
        assert counts.max() - counts.min() <= 1


def test_errors_say_what_to_do():
    X, y, _ = labelled_and_fresh()
    for wrong in (1, "hold_out", True, None):
        with pytest.raises(ParameterError, match=r"cross_fit must"):
            tuned(wrong).fit(X, y)
    for name, value in (("validation_share", 1.0), ("patience", 0), ("learning_rate", -1)):
        with pytest.raises(ParameterError, match=f"{name} must be"):
            tuned(2, **{name: value}).fit(X, y)
    with pytest.raises(DataError, match="cross_fit=5"):
        tuned(5).fit(X[:4], [0, 1, 0, 1])
