"""The notice while the inner loops are compiled: shown when the compiler runs, not when the cache is loaded."""

import io
import subprocess
import sys
from pathlib import Path

import pytest
from numba import float64
from rich.console import Console

from accous.cli.options import compile_with_notice
from accous.core import compiled
from accous.core.compiled import compile_all, kernel
from tests.needs import needs_compilation

NOTICE = "Compiling inner loops that this machine uses for the first time"


def shown(*, is_terminal: bool = False, is_quiet: bool = False) -> str:
    stream = io.StringIO()
    compile_with_notice(Console(file=stream, force_terminal=is_terminal, quiet=is_quiet, width=100))
    return stream.getvalue()


@pytest.fixture
def new_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """All kernels are compiled but one, which no cache can hold: numba keeps none of functions without a file."""
    compile_all()
    monkeypatch.setattr(compiled, "_kernels", list(compiled._kernels))
    namespace: dict[str, object] = {}
    exec("def plus_one(x):\n    return x + 1.0", namespace)
    kernel(float64, float64)(namespace["plus_one"])  # type: ignore[arg-type]


@needs_compilation
@pytest.mark.usefixtures("new_kernel")
@pytest.mark.parametrize("is_terminal", [True, False])
def test_the_notice_is_shown_once_where_something_is_compiled(is_terminal: bool) -> None:
    assert NOTICE in shown(is_terminal=is_terminal)
    assert NOTICE not in shown(is_terminal=is_terminal)


@pytest.mark.usefixtures("new_kernel")
def test_no_notice_where_quiet_is_asked_for() -> None:
    assert shown(is_quiet=True) == ""


@needs_compilation
@pytest.mark.slow
def test_the_demo_says_so_on_a_new_machine_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    command = [sys.executable, "-m", "accous", "demo", "--rounds", "5", "-o", str(tmp_path / "demo.png")]
    remarks = [subprocess.run(command, capture_output=True, text=True, check=True).stderr for _ in range(2)]
    assert [NOTICE in remark for remark in remarks] == [True, False]
