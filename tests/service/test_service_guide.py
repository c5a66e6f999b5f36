"""Every command of docs/service.md runs, in order, and prints what the page says; ... stands for anything."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs_pages import DOCS
from tests.service.servers import Server
from tests.waiting import PATIENCE

PAGE = DOCS / "service.md"
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands_of(text: str) -> Iterator[tuple[str, str]]:
    """Each command with what it prints."""
    for block in BLOCK.findall(text):
        command, output = "", ""
        for line in block.splitlines():
            if command and not is_whole(command):
                command += f"\n{line}"
            elif line.startswith("$ "):
                if command:
                    yield command, output
                command, output = line.removeprefix("$ "), ""
            else:
                output += f"{line}\n"
        yield command, output


def is_whole(command: str) -> bool:
    try:
        shlex.split(command.replace('\\"', ""))
    except ValueError:
        return False
    return True


def is_like(printed: str, wanted: str) -> bool:
    pattern = ".*".join(re.escape(part) for part in wanted.strip().split("..."))
    return re.fullmatch(pattern, printed.strip(), flags=re.DOTALL) is not None


def test_the_page_has_commands():
    found = list(commands_of(PAGE.read_text()))
    assert len(found) > 14
    assert sum(command.startswith(("curl", "ID=")) for command, _ in found) > 10


@pytest.mark.slow
@pytest.mark.skipif(
    subprocess.run(["which", "curl"], capture_output=True, check=False).returncode != 0, reason="needs curl: install it"
)
def test_every_command_prints_what_the_page_says(forks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    server, remembered = None, ""
    try:
        for command, wanted in commands_of(PAGE.read_text()):
            words = command.split()
            if words[:2] == ["accous", "serve"]:
                server = Server(forks, Path("model").absolute(), *words[3:])
            elif words[0] == "accous":
                forks.run("accous", *words[1:], cwd=tmp_path)
            else:
                assert server is not None or words[0] == "head"
                port = "8321" if server is None else str(server.port)
                script = f"{remembered}\n{command}".replace("localhost:8321", f"localhost:{port}")
                done = subprocess.run(
                    ["bash", "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=False
                )
                assert done.returncode == 0, (command, done.stderr)
                assert is_like(done.stdout, wanted), f"{command}\nprinted {done.stdout}\nthe page says {wanted}"
                if words[0].startswith("ID="):
                    remembered = command
    finally:
        if server is not None:
            assert server.stop() == 0
