"""What saved folders are made of."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.checkpoint.cases import numbers

REFERENCE = numbers(0, 60)
BATCH = numbers(1, 3)


def file_of(folder: Path, kind: str) -> Path:
    (found,) = folder.glob(f"{kind}-*.npz")
    return found


def edit_manifest(folder: Path, edit: Callable[[dict[str, Any]], object], *, forge: bool = False) -> None:
    """Change the manifest; a forged one has the right checksum."""
    content = json.loads((folder / "manifest.json").read_text())
    edit(content)
    if forge:
        del content["checksum"]
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        content["checksum"] = hashlib.sha256(text.encode()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(content))
