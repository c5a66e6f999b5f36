"""The declared sources of images: what is published where, and what stands in for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from accous.datasets.dataset import Source
from accous.datasets.files import read_npz
from accous.datasets.image_archives import pad_digits, parse_cifar, parse_cinic, parse_mnist, parse_svhn
from accous.datasets.image_files import PoolSource, PublishedFile
from accous.datasets.image_pools import Images

__all__ = [
    "CIFAR",
    "CIFAR_JPEG",
    "CIFAR_SAMPLE",
    "CINIC",
    "CINIC_SAMPLE",
    "MNIST",
    "MNIST_AT_HAND",
    "SVHN",
    "SVHN_AT_HAND",
    "TINY_IMAGENET",
]

_N_FEATURES = 32 * 32 * 3
# Images of CINIC-10 that are farther than this from every image of CIFAR-10 come from ImageNet.
_LEAST_CIFAR_DISTANCE = 600.0

_MNIST_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_MNIST_CITATION = "LeCun, Bottou, Bengio and Haffner, Gradient-based learning applied to document recognition, 1998"
_MNIST_SHA256 = "22d035aa82c491d30180fdbc875611e6211075567229130d8154d5d9eb114e0f"
_SVHN_URL = "http://ufldl.stanford.edu/housenumbers/"
_SVHN_CITATION = "Netzer and others, Reading digits in natural images with unsupervised feature learning, 2011"
_CIFAR_URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
_CIFAR_CITATION = "Krizhevsky, Learning multiple layers of features from tiny images, 2009"
_CINIC_URL = "https://datashare.ed.ac.uk/handle/10283/3192"
_CINIC_CITATION = "Darlow, Crowley, Antoniou and Storkey, CINIC-10 is not ImageNet or CIFAR-10, arXiv:1810.03505, 2018"
_TINY_CITATION = "Le and Yang, Tiny ImageNet visual recognition challenge, 2015"


def _read_mnist(path: Path) -> Images:
    arrays = read_npz(path, ("X_test", "y_test"))
    return pad_digits(arrays["X_test"]), arrays["y_test"].astype(np.int64)


def _read_svhn(path: Path) -> Images:
    arrays = read_npz(path, ("X_train", "y_train", "X_test", "y_test"))
    images, labels = (np.concatenate([arrays[f"{name}_train"], arrays[f"{name}_test"]]) for name in "Xy")
    return images, labels.astype(np.int64)


def _read_arrays(path: Path) -> Images:
    arrays = read_npz(path, ("X", "y"))
    return arrays["X"], arrays["y"].astype(np.int64)


def _read_cinic_sample(path: Path) -> Images:
    arrays = read_npz(path, ("X", "y", "nearest_cifar_mse"))
    is_imagenet = arrays["nearest_cifar_mse"] > _LEAST_CIFAR_DISTANCE
    return arrays["X"][is_imagenet], arrays["y"][is_imagenet].astype(np.int64)


MNIST_AT_HAND = PoolSource(
    Source(
        "mnist", "MNIST", _MNIST_URL, "CC BY-SA 3.0", _MNIST_CITATION,
        10_000, _N_FEATURES, 10, "mnist.npz", _MNIST_SHA256,
    ),
    _read_mnist,
)  # fmt: skip
MNIST = PoolSource(
    Source(
        "mnist", "MNIST", _MNIST_URL, "CC BY-SA 3.0", _MNIST_CITATION,
        10_000, _N_FEATURES, 10, "mnist_test_32.npz", _MNIST_SHA256,
    ),
    published=tuple(
        PublishedFile(name, (_MNIST_URL + name,), md5)
        for name, md5 in (
            ("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
            ("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"),
        )
    ),
    parse=parse_mnist,
)  # fmt: skip

SVHN_AT_HAND = PoolSource(
    Source(
        "svhn", "SVHN (10,000 crops, cut anew)", _SVHN_URL, "non-commercial use only", _SVHN_CITATION,
        10_000, _N_FEATURES, 10, "svhn_10k.npz",
        "818dfdadfda9bbfa59fc45ffbe750715e3f0e135bda412b755681d4a8863b644",
    ),
    _read_svhn,
)  # fmt: skip
SVHN = PoolSource(
    Source(
        "svhn", "SVHN (10,000 crops)", _SVHN_URL, "non-commercial use only", _SVHN_CITATION,
        10_000, _N_FEATURES, 10, "svhn_published_10k.npz",
    ),
    published=tuple(
        PublishedFile(name, (_SVHN_URL + name,), md5)
        for name, md5 in (
            ("train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373"),
            ("test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3"),
        )
    ),
    parse=parse_svhn,
)  # fmt: skip

CIFAR_JPEG = PoolSource(
    Source(
        "cifar10_jpeg", "CIFAR-10 (JPEG-compressed)", _CIFAR_URL, "not stated", _CIFAR_CITATION,
        10_000, _N_FEATURES, 10, "cifar10_10k_jpeg.npz",
        "4ce52c23570321ba31e46406806e2812250b20e1afa4a399e6379ad14fd47b4b",
    ),
    _read_arrays,
    stand_in_for="CIFAR-10's test set, lossless",
)  # fmt: skip
CIFAR_SAMPLE = PoolSource(
    Source(
        "cifar10_sample", "CIFAR-10 (2,000 images)", _CIFAR_URL, "not stated", _CIFAR_CITATION,
        2000, _N_FEATURES, 10, "cifar10_lossless_sample_2000.npz",
        "52ee830274b7ab8528dddd086c0d901af0002920ea56f7963df7f2e60c40ca4f",
    ),
    _read_arrays,
)  # fmt: skip
CIFAR = PoolSource(
    Source(
        "cifar10", "CIFAR-10", _CIFAR_URL, "not stated", _CIFAR_CITATION,
        10_000, _N_FEATURES, 10, "cifar10_test.npz",
    ),
    # The version in binary records, because the better known one holds pickles.
    published=(PublishedFile("cifar-10-binary.tar.gz", (_CIFAR_URL,), "c32a1d4ab5d03f1284b67883e8d87530"),),
    parse=parse_cifar,
)  # fmt: skip

TINY_IMAGENET = PoolSource(
    Source(
        "tiny_imagenet", "Tiny-ImageNet (CINIC-10's synsets)", "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
        "non-commercial research only", _TINY_CITATION,
        8250, _N_FEATURES, 8, "tinyimagenet_as_cinic.npz",
        "126a8315b601867d967d84ecb98c3a9ac7f0fc2c9a0f3230fa29345c6fbc2ceb",
    ),
    _read_arrays,
    stand_in_for="CINIC-10's images of ImageNet origin",
)  # fmt: skip
CINIC_SAMPLE = PoolSource(
    Source(
        "cinic10_sample", "CINIC-10 (ImageNet part, 1,479 images)", _CINIC_URL, "CC BY 4.0", _CINIC_CITATION,
        1479, _N_FEATURES, 10, "cinic10_sample_2000.npz",
        "5143510981330c8fcef07656446024310a89807dd1f307fb16fc14e74530e36a",
    ),
    _read_cinic_sample,
)  # fmt: skip
CINIC = PoolSource(
    Source(
        "cinic10", "CINIC-10 (ImageNet part, 10,000 images)", _CINIC_URL, "CC BY 4.0", _CINIC_CITATION,
        10_000, _N_FEATURES, 10, "cinic10_imagenet_10k.npz",
    ),
    published=(
        PublishedFile(
            "CINIC-10.tar.gz",
            (
                "https://datashare.ed.ac.uk/bitstream/handle/10283/3192/CINIC-10.tar.gz",
                "https://datashare.ed.ac.uk/bitstreams/e8e186cc-2688-48f1-aa5a-3fda1a43f8b6/download",
            ),
            "6ee4d0c996905fe93221de577967a372",
        ),
    ),
    parse=parse_cinic,
)  # fmt: skip
