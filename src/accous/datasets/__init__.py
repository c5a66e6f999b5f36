"""Data sets by name: found in ``ACCOUS_DATA``, in the cache, or downloaded from their public source.

>>> from accous import datasets
>>> datasets.load_wine()
Dataset(wine: 178 rows, 13 features, 3 classes)
"""

from accous.datasets.dataset import Dataset
from accous.datasets.image_pools import ImagePair, ImagePool, ImageYears
from accous.datasets.images import has_cifar_cinic, load_cifar_cinic, load_mnist_svhn
from accous.datasets.loaders import (
    list_datasets,
    load,
    load_acs_employment,
    load_breast,
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_gas_sensor,
    load_powersupply,
    load_wine,
)
from accous.datasets.splits import split_in_two
from accous.datasets.yearbook import load_yearbook

list = list_datasets

__all__ = [
    "Dataset",
    "ImagePair",
    "ImagePool",
    "ImageYears",
    "has_cifar_cinic",
    "list",
    "load",
    "load_acs_employment",
    "load_breast",
    "load_breast_cancer",
    "load_cifar_cinic",
    "load_diabetes",
    "load_digits",
    "load_gas_sensor",
    "load_mnist_svhn",
    "load_powersupply",
    "load_wine",
    "load_yearbook",
    "split_in_two",
]
