"""BackboneFeatures: the scikit-learn contract, its inputs, its bits, and its use with the rest of the package."""

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from accous import AdaptiveClassifier, OnlineDensityRatio

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'accous[deep]'")

from accous.deep import BackboneFeatures  # noqa: E402
from accous.deep.features import fit_reduction  # noqa: E402
from accous.deep.networks import one_torch_thread  # noqa: E402
from tests.deep.networks import images, small_convolution, small_linear, two_classes_of_images  # noqa: E402
from tests.waiting import PATIENCE  # noqa: E402


def features(**parameters):
    return BackboneFeatures(small_convolution(), **{"image_size": 12, "random_state": 0, "n_jobs": 1, **parameters})


def embeddings_one_by_one(module, X):
    """What the backbone says, row by row, averaged over space."""
    with torch.inference_mode():
        found = [module.eval()(torch.from_numpy(row.astype(np.float32).transpose(2, 0, 1))[None])[0] for row in X]
    return np.array([row.numpy().mean(axis=(1, 2)) for row in found])


def test_features_are_the_reduced_embeddings():
    X, batch = images(60), images(20, seed=1)
    model = features(n_components=4, max_norm=3.0).fit(X)
    seed = np.random.RandomState(0).randint(2**31 - 1)
    reduction = fit_reduction(embeddings_one_by_one(small_convolution(), X), 4, 3.0, seed)
    expected = reduction.transform(embeddings_one_by_one(small_convolution(), batch))
    np.testing.assert_allclose(model.transform(batch), expected, atol=1e-4)
    assert model.transform(batch).dtype == np.float64


def test_fit_transform_is_fit_then_transform():
    X = images()
    np.testing.assert_array_equal(features().fit_transform(X), features().fit(X).transform(X))


def test_bits_do_not_depend_on_the_number_of_threads():
    X = images(50)
    one, three = (features(batch_size=8, n_jobs=n_jobs).fit_transform(X) for n_jobs in (1, 3))
    np.testing.assert_array_equal(one, three)


def test_rows_may_be_split_over_calls():
    X = images(50)
    model = features(batch_size=16).fit(X)
    split = np.concatenate([model.transform(X[:7]), model.transform(X[7:8]), model.transform(X[8:])])
    np.testing.assert_allclose(split, model.transform(X), atol=1e-5)


def test_torch_keeps_its_number_of_threads():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        features(n_jobs=2).fit(images())
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_several_callers_at_once_get_their_own_features():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        model = features(n_jobs=2, batch_size=8).fit(images())
        inputs = [images(30, seed=seed) for seed in range(4)]
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(model.transform, inputs))
        for X, features_of_X in zip(inputs, found, strict=True):
            np.testing.assert_array_equal(features_of_X, model.transform(X))
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(torch.get_num_threads).result() == 2
    finally:
        torch.set_num_threads(before)


def test_every_thread_keeps_its_own_number_of_torch_threads():
    before = torch.get_num_threads()
    both = threading.Barrier(2, timeout=PATIENCE)

    def counts(n_threads):
        if n_threads is not None:
            torch.get_num_threads()  # the first use makes the number the thread's own
            torch.set_num_threads(n_threads)
        both.wait()
        with one_torch_thread():
            both.wait()
            inside = torch.get_num_threads()
        both.wait()
        return inside, torch.get_num_threads()

    try:
        torch.set_num_threads(4)
        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(counts, (2, 3))) == [(1, 2), (1, 3)]
        torch.set_num_threads(4)
        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(counts, (None, None))) == [(1, 4), (1, 4)]
        assert torch.get_num_threads() == 4
    finally:
        torch.set_num_threads(before)


def test_the_module_passed_is_not_changed():
    module = small_convolution()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    BackboneFeatures(module, image_size=12, random_state=0).fit(images())
    assert module.training
    assert all(parameter.requires_grad for parameter in module.parameters())
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_a_module_gets_arrays_as_they_are():
    X = np.random.default_rng(0).normal(size=(30, 5))
    model = BackboneFeatures(small_linear(), n_components=None, max_norm=1e6, random_state=0).fit(X)
    with torch.inference_mode():
        embeddings = small_linear().eval()(torch.from_numpy(X.astype(np.float32))).numpy()
    centred = embeddings - embeddings.mean(axis=0)
    found = model.transform(X)
    is_short = np.linalg.norm(found, axis=1) < 1e6 - 1.0
    assert is_short.sum() == 29
    np.testing.assert_allclose(found[is_short] / model.reduction_.scale, centred[is_short], atol=1e-6)
    np.testing.assert_array_equal(model.transform(torch.from_numpy(X)), found)


def test_clone_parameters_and_names():
    model = features(n_components=3).fit(images())
    again = clone(model)
    assert again.get_params().keys() == model.get_params().keys()
    assert again.n_components == 3
    assert not hasattr(again, "reduction_")
    np.testing.assert_array_equal(again.fit_transform(images()), model.transform(images()))
    assert model.n_features_out_ == 3
    assert list(model.get_feature_names_out()) == [f"backbonefeatures{i}" for i in range(3)]
    frame = model.set_output(transform="pandas").transform(images(4))
    assert list(frame.columns) == list(model.get_feature_names_out())


def test_not_fitted():
    with pytest.raises(NotFittedError):
        features().transform(images())
    with pytest.raises(NotFittedError):
        features().get_feature_names_out()


def test_pickled_it_gives_the_same_features():
    model = features().fit(images())
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).transform(images(5)), model.transform(images(5)))


def test_a_failed_fit_leaves_the_old_one():
    model = features().fit(images())
    before = model.transform(images(5))
    with pytest.raises(ValueError, match="same features"):
        model.fit(np.zeros_like(images()))
    np.testing.assert_array_equal(model.transform(images(5)), before)


def test_a_table_that_is_refused_leaves_the_old_shape():
    rng = np.random.default_rng(0)
    model = BackboneFeatures(torch.nn.Identity(), n_jobs=1, random_state=0).fit(rng.normal(size=(9, 4)))
    before = dict(vars(model))
    with pytest.raises(TypeError, match="string"):
        model.fit(pd.DataFrame(rng.normal(size=(9, 2)), columns=["a", 1]))
    assert vars(model) == before
    assert (model.row_shape_, model.n_features_in_) == ((4,), 4)


def test_a_reference_of_one_image_again_and_again_is_refused():
    X = np.repeat(images(1), 50, axis=0)
    with pytest.raises(ValueError, match="same features"):
        features(batch_size=16).fit(X)  # the last mini-batch is smaller, and rounds otherwise


def test_features_feed_an_adaptive_classifier():
    X, y = two_classes_of_images()
    model = features(image_size=8)
    classifier = AdaptiveClassifier(random_state=0).fit(model.fit_transform(X), y)
    for seed in range(3):
        batch, truth = two_classes_of_images(20, seed=seed + 1)
        classifier.adapt(model.transform(batch))
    assert np.mean(classifier.predict(model.transform(batch)) == truth) > 0.9


def test_a_pipeline_with_an_adaptive_classifier():
    X, y = two_classes_of_images()
    pipeline = make_pipeline(features(image_size=8), AdaptiveClassifier(random_state=0)).fit(X, y)
    batch, truth = two_classes_of_images(20, seed=1)
    pipeline[-1].adapt(pipeline[:-1].transform(batch))
    assert np.mean(pipeline.predict(batch) == truth) > 0.9


def test_as_the_feature_map_of_a_ratio():
    X, _ = two_classes_of_images()
    bright = np.clip(X[:20].astype(int) + 60, 0, 255).astype(np.uint8)
    ratio = OnlineDensityRatio(feature_map=features(image_size=8), random_state=0).fit(X)
    for _ in range(10):
        ratio.partial_fit(bright)
    assert ratio.predict_ratio(bright).mean() > 1.2 * ratio.predict_ratio(X).mean()
