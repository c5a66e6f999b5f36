"""scikit-learn's own checks, as far as tables of numbers can stand for images."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'accous[deep]'")

from accous.deep import BackboneFeatures  # noqa: E402


@parametrize_with_checks([BackboneFeatures(torch.nn.Identity(), n_jobs=1, random_state=0)])
def test_check(estimator, check):
    check(estimator)
