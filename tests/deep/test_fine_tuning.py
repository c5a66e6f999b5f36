"""Fine-tuning: it learns, stops in time, keeps the best weights, and repeats bit for bit."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'accous[deep]'")

from accous.deep import BackboneFeatures, fine_tuning  # noqa: E402
from accous.exceptions import DataError, ParameterError  # noqa: E402
from tests.deep.networks import seeded, small_convolution, two_classes_of_images  # noqa: E402


def tuned(module=None, **parameters):
    settings = {"image_size": 8, "fine_tune": True, "max_epochs": 4, "random_state": 0, "n_jobs": 1, "batch_size": 16}
    module = small_convolution() if module is None else module
    return BackboneFeatures(module, cross_fit="none", **{**settings, **parameters})


def test_fine_tuning_lowers_the_validation_loss_and_changes_a_copy():
    X, y = two_classes_of_images(80)
    module = small_convolution()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    model = tuned(module, max_epochs=8, learning_rate=0.02, validation_share=0.25).fit(X, np.where(y, "cat", "dog"))
    (losses,) = model.validation_losses_
    assert min(losses) < 0.5 * losses[0]
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    kept = model.backbone_.module
    assert not kept.training
    assert not any(parameter.requires_grad for parameter in kept.parameters())
    assert not torch.equal(kept[0].weight, module[0].weight)


def test_same_seed_same_bits_whatever_torchs_own_random_numbers():
    X, y = two_classes_of_images(60)
    dropping = lambda: seeded(lambda: torch.nn.Sequential(small_convolution(), torch.nn.Dropout2d(0.3)))  # noqa: E731
    results = []
    for number in (1, 2):
        torch.manual_seed(number)
        state = torch.random.get_rng_state()
        model = tuned(dropping())
        results.append((model.fit_transform(X, y), model.validation_losses_))
        assert torch.equal(torch.random.get_rng_state(), state)
    np.testing.assert_array_equal(results[0][0], results[1][0])
    assert results[0][1] == results[1][1]
    other = tuned(dropping(), random_state=1).fit(X, y)
    assert other.validation_losses_ != results[0][1]


def test_fits_in_several_threads_do_not_take_each_others_random_numbers():
    X, y = two_classes_of_images(40)
    module = small_convolution()  # made once: making one in each thread would take torch's random numbers as well
    fit = lambda seed: tuned(module, max_epochs=2, random_state=seed).fit(X, y).validation_losses_  # noqa: E731
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(fit, (0, 1))) == [fit(0), fit(1)]


def test_it_stops_after_patience_and_keeps_the_best_weights():
    X, y = two_classes_of_images(40)
    y = np.random.default_rng(0).permutation(y)  # nothing to learn: the validation loss soon rises
    long = tuned(max_epochs=30, patience=2, learning_rate=0.05, validation_share=0.3).fit(X, y)
    (losses,) = long.validation_losses_
    n_best = int(np.argmin(losses)) + 1
    assert len(losses) == n_best + 2 < 30
    short = tuned(max_epochs=n_best, patience=30, learning_rate=0.05, validation_share=0.3).fit(X, y)
    assert short.validation_losses_ == [losses[:n_best]]
    np.testing.assert_array_equal(short.transform(X), long.transform(X))


def test_rows_set_aside_are_a_share_of_every_class():
    labels = np.repeat([0, 1, 2, 3], [50, 10, 2, 1])
    validating, training = fine_tuning.set_aside(labels, 0.2, np.random.default_rng(0))
    assert np.bincount(labels[validating], minlength=4).tolist() == [10, 2, 1, 0]
    assert np.array_equal(np.sort(np.concatenate((validating, training))), np.arange(len(labels)))


def test_frozen_parameters_of_a_module_stay():
    module = small_convolution()
    module[0].requires_grad_(False)
    X, y = two_classes_of_images(40)
    kept = tuned(module, max_epochs=2).fit(X, y).backbone_.module
    assert torch.equal(kept[0].weight, module[0].weight)
    assert not torch.equal(kept[1].weight, module[1].weight)


@pytest.mark.parametrize("is_frozen", [True, False])
def test_what_a_frozen_normalisation_has_averaged_stays_too(is_frozen):
    module = seeded(lambda: torch.nn.Sequential(torch.nn.BatchNorm2d(3), small_convolution()))
    module[0].requires_grad_(not is_frozen)
    X, y = two_classes_of_images(40)
    kept = tuned(module, max_epochs=2).fit(X, y).backbone_.module
    assert torch.equal(kept[0].running_mean, module[0].running_mean) is is_frozen


class WithNotes(torch.nn.Sequential):
    """Its state has more than tensors."""

    def get_extra_state(self):
        return {"notes": "mine"}

    def set_extra_state(self, state):
        assert state == {"notes": "mine"}


def test_a_state_of_more_than_tensors():
    X, y = two_classes_of_images(40)
    (losses,) = tuned(WithNotes(small_convolution()), max_epochs=2).fit(X, y).validation_losses_
    assert len(losses) == 2


def test_clear_errors():
    X, y = two_classes_of_images(20)
    with pytest.raises(DataError, match="needs the reference's labels"):
        tuned().fit(X)
    with pytest.raises(DataError, match="20 rows but 19 labels"):
        tuned().fit(X, y[:-1])
    with pytest.raises(DataError, match="at least two classes"):
        tuned().fit(X, np.zeros(20))
    with pytest.raises(DataError, match="two rows or more"):
        tuned().fit(X, np.arange(20))
    with pytest.raises(ParameterError, match="choose a smaller one"):
        tuned(learning_rate=1e30).fit(X, y)
