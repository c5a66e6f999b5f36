"""Data sets by name: found in ``ACCOUS_DATA``, in the cache, or downloaded from their public source (`loaders`).

>>> from accous import datasets
>>> datasets.load_wine()
Dataset(wine: 178 rows, 13 features, 3 classes)
"""

from accous.datasets.loaders import (
    Dataset,
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

list = list_datasets

__all__ = [
    "Dataset",
    "list",
    "load",
    "load_acs_employment",
    "load_breast",
    "load_breast_cancer",
    "load_diabetes",
    "load_digits",
    "load_gas_sensor",
    "load_powersupply",
    "load_wine",
]
