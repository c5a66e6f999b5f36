"""The paper's numbers, checked by hand against its tables."""

import pytest

from accous_bench.contenders import PAPER_CONTENDERS
from accous_bench.paper import PAPER_RESULTS, paper_result


def test_every_table_is_there() -> None:
    # Synthetic: 4 shifts x 2 batch sizes; four data sets x 4 shifts; eight contenders each.
    assert len(PAPER_RESULTS) == (4 * 2 + 4 * 4) * 8
    assert {key[3] for key in PAPER_RESULTS} == set(PAPER_CONTENDERS)
    assert {key[0] for key in PAPER_RESULTS} == {"gaussian", "diabetes", "breast", "mnist_svhn", "cifar_cinic"}
    assert {key[2] for key in PAPER_RESULTS if key[0] != "gaussian"} == {5}


@pytest.mark.parametrize(
    ("key", "mean", "std"),
    [
        (("gaussian", "Lin", 1, "FIX"), 32.85, 0.43),
        (("gaussian", "Lin", 1, "OLRE"), 27.13, 0.74),
        (("gaussian", "Squ", 1, "Accous (paper)"), 29.30, 0.82),
        (("gaussian", "Sin", 1, "DANN"), 42.65, 4.49),
        (("gaussian", "Ber", 5, "Accous (paper)"), 28.60, 0.36),
        (("gaussian", "Lin", 5, "KLIEP"), 34.13, 0.30),
        (("diabetes", "Lin", 5, "FIX"), 39.55, 6.58),
        (("diabetes", "Ber", 5, "Accous (paper)"), 39.14, 4.51),
        (("diabetes", "Squ", 5, "LR"), 37.83, 5.87),
        (("diabetes", "Sin", 5, "OLRE"), 38.58, 7.45),
        (("breast", "Lin", 5, "OLRE"), 3.59, 0.25),
        (("breast", "Ber", 5, "DANN"), 15.34, 5.23),
        (("breast", "Squ", 5, "Accous (paper)"), 3.68, 0.58),
        (("breast", "Sin", 5, "KMM"), 7.18, 0.39),
        (("mnist_svhn", "Ber", 5, "uLSIF"), 12.19, 1.20),
        (("mnist_svhn", "Sin", 5, "Accous (paper)"), 7.74, 0.74),
        (("cifar_cinic", "Lin", 5, "Accous (paper)"), 27.80, 0.83),
        (("cifar_cinic", "Squ", 5, "FIX"), 34.75, 0.29),
    ],
)
def test_numbers_are_those_printed(key: tuple[str, str, int, str], mean: float, std: float) -> None:
    assert PAPER_RESULTS[key] == (mean, std)
    assert paper_result(*key) == (mean, std)


def test_numbers_missing_from_the_paper_are_none() -> None:
    assert paper_result("gaussian", "Squ", 1, "oracle") is None
    assert paper_result("gaussian", "Squ", 7, "accous") is None
    assert paper_result("gas_sensor", "natural", 10, "accous") is None
    assert paper_result("gaussian", "Squ", 1, "LR (window)") is None


def test_other_names_for_the_same_thing() -> None:
    published = paper_result("gaussian", "Squ", 1, "accous")
    assert paper_result("gaussian", "Squ", 1, "Accous (paper)") == published
    assert paper_result("gaussian_published", "Squ", 1, "accous") == published
    for name in ("cifar_cinic_full", "cifar_cinic_tuned", "cifar_cinic_full_tuned"):
        assert paper_result(name, "Squ", 5, "FIX") == (34.75, 0.29)
