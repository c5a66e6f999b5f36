"""Runs a page of the documentation as a reader would: block by block, in an empty folder, comparing what is printed."""

import contextlib
import io
import math
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import textwrap
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from tests.docs_pages import FENCE
from tests.forks import ForkServer
from tests.waiting import PATIENCE

PORT = "8321"  # that of `accous serve` on the pages; sessions take a free one
FILE_NAME = re.compile(r"# ([\w-]+\.\w+)\n")
LINKED_FILE = re.compile(r"\]\(([\w-]+\.py)\)")
PROGRESS = re.compile(r"^.*: \d+% done, about \d+ s left\.\n", re.MULTILINE)  # only a busy machine shows it
SHELL_SIGNS = re.compile(r"[|<>;&*]")
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
PIECE = re.compile(rf"(?P<gap>\s*\.\.\.\s*)|(?P<number>{NUMBER.pattern})|(?P<space>\s+)|(?P<text>.)", re.DOTALL)


class Session:
    """A folder, a Python namespace and a shell that the blocks of a page share."""

    def __init__(self, page: Path, folder: Path, forks: ForkServer, left_out: Collection[str] = ()) -> None:
        self._page, self._folder, self._forks, self._left_out = page, folder, forks, left_out
        self._namespace: dict[str, Any] = {"__name__": "__main__"}
        self._printed = ""
        self.n_blocks = 0
        self._background: list[subprocess.Popen[bytes]] = []
        self._port = str(free_port())
        for name in LINKED_FILE.findall(page.read_text(encoding="utf-8")):
            shutil.copy(page.with_name(name), folder)

    def run(self, languages: Collection[str] = ("python", "console")) -> None:
        """Run every block of the page that is in these languages and not marked `no-test`; assert what it prints."""
        try:
            self._run_blocks(self._page.read_text(encoding="utf-8").replace(PORT, self._port), languages)
        finally:
            for process in self._background:
                process.terminate()
                process.wait(PATIENCE)

    def _run_blocks(self, text: str, languages: Collection[str]) -> None:
        for fence in FENCE.finditer(text):
            code = textwrap.dedent(fence["code"])
            word = fence["word"] or ""
            if word == "no-test":
                continue
            if name := FILE_NAME.match(code):
                (self._folder / name[1]).write_text(code, encoding="utf-8")
            elif word == "output" and "python" in languages:
                assert_prints(self._printed, code)
            elif fence["language"] not in languages:
                continue
            elif fence["language"] == "python":
                self._run_python(code, text[: fence.start("code")].count("\n"))
            else:
                self._run_console(code, int(fence["code_expected"] or 0), is_silent=word == "prints nothing")
            self.n_blocks += 1

    def _run_python(self, code: str, n_lines_above: int) -> None:
        printed = io.StringIO()
        compiled = compile("\n" * n_lines_above + code, str(self._page), "exec")
        with contextlib.chdir(self._folder), contextlib.redirect_stdout(printed):
            exec(compiled, self._namespace)
        self._printed = printed.getvalue()

    def _run_console(self, code: str, exit_code: int, *, is_silent: bool) -> None:
        for command, expected in steps_of(code):
            if bare(command) in self._left_out:
                continue
            printed, code_found = self._run_command(command)
            assert code_found == exit_code, f"{command}\n{printed}"
            if expected.strip() or is_silent:
                assert_prints(printed, expected)

    def _run_command(self, command: str) -> tuple[str, int]:
        """Return what a terminal would show, and the exit code."""
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        environment = {**os.environ, "PATH": path, "COLUMNS": "100", "MPLBACKEND": "Agg"}
        words = shlex.split(command, comments=True)
        if words[-1] == "&":  # it ends with the session
            with (self._folder / ".background").open("wb") as file:
                process = subprocess.Popen(
                    words[:-1], cwd=self._folder, env=environment, stdout=file, stderr=subprocess.STDOUT
                )
            self._background.append(process)
            return "", 0
        if words[0] == "accous" and not SHELL_SIGNS.search(re.sub(r"'[^']*'|\"[^\"]*\"|#.*", "", command)):
            with (
                (self._folder / ".printed").open("wb") as file,
                self._forks.start(
                    "accous", *words[1:], cwd=self._folder, env=environment, stdout=file, stderr=file
                ) as process,
            ):
                process.stdin.close()
                code = process.wait()
            return PROGRESS.sub("", (self._folder / ".printed").read_text(encoding="utf-8")), code
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self._folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return done.stdout, done.returncode


def steps_of(code: str) -> Iterator[tuple[str, str]]:
    """Each command of a console block, on one line, with what it prints."""
    for step in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
        command, _, expected = step.replace("\\\n", " ").partition("\n")
        yield command, expected


def bare(command: str) -> str:
    """A command without its remark."""
    return re.sub(r"\s+# .*", "", command).strip()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def assert_prints(printed: str, expected: str) -> None:
    """Compare words and whole numbers exactly, other numbers closely; `...` stands for anything, space for space."""
    pattern, shown = "", []
    for piece in PIECE.finditer(expected.strip()):
        if piece["gap"]:
            pattern += r".*?"
        elif piece["number"]:
            pattern += rf"({NUMBER.pattern})"
            shown.append(piece["number"])
        else:
            pattern += r"\s+" if piece["space"] else re.escape(piece["text"])
    found = re.fullmatch(pattern, printed.strip(), re.DOTALL)
    assert found, f"expected:\n{expected}\nprinted:\n{printed}"
    for one, other in zip(shown, found.groups(), strict=True):
        assert is_close(one, other), f"{one} is expected, and {other} is printed:\n{printed}"


def is_close(shown: str, printed: str) -> bool:
    """Whether two numbers are the same but for rounding on another processor."""
    if "." not in shown:
        return shown == printed
    last_digit = 10.0 ** -len(shown.partition(".")[2])
    one, other = (float(text.replace(",", "")) for text in (shown, printed))
    return math.isclose(one, other, rel_tol=0.01, abs_tol=1.01 * last_digit)
