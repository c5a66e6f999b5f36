"""A saved model for every test that asks for it, and what saved folders are made of."""

import hashlib
import json

import pytest

import accous
from accous import OnlineDensityRatio
from tests.checkpoint.cases import numbers

REFERENCE = numbers(0, 60)
BATCH = numbers(1, 3)


@pytest.fixture
def saved(tmp_path):
    """A folder with a saved model."""
    accous.save(OnlineDensityRatio().fit(REFERENCE).partial_fit(BATCH), tmp_path / "model")
    return tmp_path / "model"


def file_of(folder, kind):
    (found,) = folder.glob(f"{kind}-*.npz")
    return found


def edit_manifest(folder, edit, *, forge=False):
    """Change the manifest; a forged one has the right checksum."""
    content = json.loads((folder / "manifest.json").read_text())
    edit(content)
    if forge:
        del content["checksum"]
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        content["checksum"] = hashlib.sha256(text.encode()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(content))
