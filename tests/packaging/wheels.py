"""Building the wheels from the checkout, and what has to be in them."""

import subprocess
import sys
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {"accous": ROOT, "accous_bench": ROOT / "bench"}
"""Where the distribution of each package is built from."""


def build(output: Path, *kinds: str, package: str = "accous") -> list[Path]:
    """Build what is asked for, `--wheel` or `--sdist` or both, with the backend of this environment: no network."""
    folder = str(FOLDERS[package])
    command = [sys.executable, "-m", "build", "--no-isolation", *kinds, "--outdir", str(output), folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(output.glob(f"{package}-*"))


def metadata_of(wheel: Path) -> Message:
    """The metadata that an index and pip read."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


def missing_files(wheel: Path, package: str = "accous") -> list[str]:
    """What the checkout has and the wheel lacks: all of the package, the licence."""
    with zipfile.ZipFile(wheel) as archive:
        present = set(archive.namelist())
    sources = FOLDERS[package] / "src"
    files = (path for path in (sources / package).rglob("*") if path.is_file())
    wanted = {path.relative_to(sources).as_posix() for path in files if "__pycache__" not in path.parts}
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in present):
        wanted.add("licenses/LICENSE")
    return sorted(wanted - present)


def foreign_files(wheel: Path, package: str = "accous") -> list[str]:
    """What is in the wheel and is neither the package nor metadata."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    return [name for name in names if not name.startswith(f"{package}/") and ".dist-info/" not in name]
