"""`make wheel`: build the wheels into `dist/`, check them, and use them in empty environments, away from the checkout.

    python -m tests.packaging.try_wheel [--python python3.12]

First the library alone with its five dependencies, then the command line and the demo with their extras, then the
benchmark.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.packaging.wheels import ROOT, build, foreign_files, missing_files

EXAMPLES = ("one_row_at_a_time.py", "save_and_resume.py")
COMMANDS = (
    "accous --version",
    "accous demo --simulated --rounds 60 -o demo.png --report demo.html",
    "accous demo --simulated --rounds 60 --tables tables",
    "accous fit tables/reference.csv --label label -o model",
    "accous adapt model tables/stream.csv -o predictions.csv",
    "accous adapt model tables/stream.csv -o predictions.parquet",
    "accous predict model tables/stream.csv -o again.csv",
    "accous status model",
    "accous report model -o report.html",
)


class Environment:
    """An empty environment in a folder of its own, in which nothing of the checkout can be found."""

    def __init__(self, python: str, folder: Path) -> None:
        self.folder = folder
        self._bin = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
        self._variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        self._variables["PATH"] = f"{self._bin}{os.pathsep}{os.environ['PATH']}"
        subprocess.run([python, "-m", "venv", folder / "env"], check=True, env=self._variables)

    def install(self, requirement: str) -> None:
        """Install a requirement, and say how much that has become."""
        self.run("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement)
        packages = next((self.folder / "env").rglob("site-packages"))
        n_bytes = sum(path.stat().st_size for path in packages.rglob("*") if path.is_file())
        n_packages = sum(1 for path in packages.glob("*.dist-info") if not path.name.startswith("pip-"))
        print(f"{requirement.rpartition('/')[2]}: {n_packages} packages, {n_bytes / 1e6:,.0f} MB", flush=True)

    def run(self, *command: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, which must be this exit code."""
        program = shutil.which(command[0], path=self._variables["PATH"])
        assert program is not None, command[0]
        done = subprocess.run(
            [program, *command[1:]], cwd=self.folder, env=self._variables, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, f"{' '.join(command)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done


def main() -> None:
    """Build, check, try; an AssertionError says what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable, help="The interpreter to try the wheel with.")
    python = parser.parse_args().python
    output = ROOT / "dist"
    shutil.rmtree(output, ignore_errors=True)
    files = build(output, "--sdist", "--wheel")
    bench_files = build(output, "--sdist", "--wheel", package="accous_bench")
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *files, *bench_files], check=True)
    wheel, bench = (next(file for file in some if file.suffix == ".whl") for some in (files, bench_files))
    for package, built in (("accous", wheel), ("accous_bench", bench)):
        assert not missing_files(built, package), missing_files(built, package)
        assert not foreign_files(built, package), foreign_files(built, package)
    with tempfile.TemporaryDirectory(prefix="accous-wheel-") as folder:
        environment = Environment(python, Path(folder))
        environment.install(str(wheel))
        try_library(environment)
        environment.install(f"{wheel}[cli,plot]")
        try_commands(environment)
        assert "pip install accous-bench" in environment.run("accous", "bench", "list", code=1).stderr
        environment.install(str(bench))
        assert "table3" in environment.run("accous", "bench", "list").stdout
    print(f"{wheel.relative_to(ROOT)} works.")


def try_library(environment: Environment) -> None:
    """The library works without any extra, and the command says what it lacks."""
    for name in EXAMPLES:
        shutil.copy(ROOT / "examples" / name, environment.folder)
        environment.run("python", name)
    where = environment.run("python", "-c", "import accous; print(accous.__file__)").stdout
    assert str(environment.folder) in where, where
    for command in (("accous",), ("python", "-m", "accous")):
        refused = environment.run(*command, code=1)
        assert refused.stderr.count("\n") == 1, refused.stderr
        assert "pip install 'accous[cli]'" in refused.stderr, refused.stderr


def try_commands(environment: Environment) -> None:
    """Every command runs and leaves what it promises."""
    for command in COMMANDS:
        environment.run(*command.split())
        print(f"  {command}", flush=True)
    for name in ("demo.png", "demo.html", "report.html", "predictions.csv", "predictions.parquet"):
        assert (environment.folder / name).stat().st_size > 1000, name


if __name__ == "__main__":
    main()
