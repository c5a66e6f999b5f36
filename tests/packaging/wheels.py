"""Building the wheel from the checkout, and what has to be in it."""

import subprocess
import sys
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def build(output: Path, *kinds: str) -> list[Path]:
    """Build what is asked for, `--wheel` or `--sdist` or both, with the backend of this environment: no network."""
    command = [sys.executable, "-m", "build", "--no-isolation", *kinds, "--outdir", str(output), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(output.glob("accous-*"))


def metadata_of(wheel: Path) -> Message:
    """The metadata that an index and pip read."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


def missing_files(wheel: Path) -> list[str]:
    """What the checkout has and the wheel lacks: all of `src`, the specs of benchmarks, the licence."""
    with zipfile.ZipFile(wheel) as archive:
        present = set(archive.namelist())
    packages = (ROOT / "src" / name for name in ("accous", "accous_bench"))
    files = (path for package in packages for path in package.rglob("*") if path.is_file())
    sources = (path for path in files if "__pycache__" not in path.parts)
    wanted = {path.relative_to(ROOT / "src").as_posix() for path in sources}
    wanted |= {f"accous_bench/specs/{path.name}" for path in (ROOT / "benchmarks" / "specs").glob("*.toml")}
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in present):
        wanted.add("licenses/LICENSE")
    return sorted(wanted - present)


def foreign_files(wheel: Path) -> list[str]:
    """What is in the wheel and is neither one of the two packages nor metadata."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    return [name for name in names if not name.startswith(("accous/", "accous_bench/")) and ".dist-info/" not in name]
