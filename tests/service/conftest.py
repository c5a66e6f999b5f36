"""What the tests of the service share: fitted models that are copied, and streams of rows for them."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from accous.cli import main
from accous.streams import GaussianStream, SquareShift
from tests.cli.tables import make_tables

pytest.importorskip("uvicorn", reason="needs uvicorn: pip install 'accous[serve]'")


@dataclass(frozen=True)
class Fitted:
    """A model's folder, which nobody writes to, and the rows of a stream for it."""

    folder: Path
    rows: list[dict[str, Any]]
    labels: list[str]

    def copy(self, folder: Path) -> Path:
        shutil.copytree(self.folder, folder)
        return folder


def fit(folder: Path, reference: pl.DataFrame, stream: pl.DataFrame, *options: str) -> Fitted:
    reference.write_csv(folder / "reference.csv")
    arguments = ["fit", str(folder / "reference.csv"), "--label", "label", "-o", str(folder / "model"), "--quiet"]
    assert main([*arguments, *options]) == 0
    labels = stream["label"].to_list()
    return Fitted(folder / "model", stream.drop("label").to_dicts(), labels)


@pytest.fixture(scope="session")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Fitted:
    """A model of numbers only, whose rows need no frame."""
    stream = GaussianStream(SquareShift(period=60), n_features=4, n_reference=200, n_rounds=400, batch_size=2)

    def table(X: np.ndarray, y: np.ndarray) -> pl.DataFrame:
        columns = {f"x{number}": X[:, number] for number in range(X.shape[1])}
        return pl.DataFrame(columns | {"label": np.where(y > 0, "yes", "no")})

    batches = list(stream)
    rows, labels = np.vstack([batch.X for batch in batches]), np.concatenate([batch.y for batch in batches])
    return fit(tmp_path_factory.mktemp("numbers"), table(*stream.reference()), table(rows, labels))


@pytest.fixture(scope="session")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Fitted:
    """A model of numbers with gaps, categories and dates, whose rows become frames."""
    reference, stream = make_tables()
    return fit(tmp_path_factory.mktemp("mixed"), reference, stream, "--drop", "id")


@pytest.fixture
def model(numbers: Fitted, tmp_path: Path) -> Path:
    """A copy of the model of numbers."""
    return numbers.copy(tmp_path / "model")
