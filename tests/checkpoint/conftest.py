"""A saved model for every test that asks for it."""

from pathlib import Path

import pytest

import accous
from accous import OnlineDensityRatio
from tests.checkpoint.folders import BATCH, REFERENCE


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A folder with a saved model."""
    accous.save(OnlineDensityRatio().fit(REFERENCE).partial_fit(BATCH), tmp_path / "model")
    return tmp_path / "model"
