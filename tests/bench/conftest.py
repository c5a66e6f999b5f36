from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from accous_bench import contenders, problems

SMALL = """
title = "Small"
datasets = ["gaussian"]
shifts = ["Lin", "Squ"]
batch_sizes = [5]
rounds = [24]
contenders = ["FIX", "uLSIF", "accous", "oracle"]
seeds = 2

[options.gaussian]
n_reference = 60
n_features = 3
"""


@pytest.fixture
def write_spec(tmp_path: Path) -> Callable[..., Path]:
    """Write a small spec with some of its lines changed."""

    def write(*changes: tuple[str, str], name: str = "small") -> Path:
        text = SMALL.lstrip()
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / f"{name}.toml"
        path.write_text(text)
        return path

    return write


@pytest.fixture
def own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave no contender, problem or shift of a test behind."""
    monkeypatch.setattr(contenders, "_CONTENDERS", dict(contenders._CONTENDERS))
    monkeypatch.setattr(problems, "_PROBLEMS", dict(problems._PROBLEMS))
    known = set(problems.SHIFTS)
    yield
    for name in set(problems.SHIFTS) - known:
        del problems.SHIFTS[name]
