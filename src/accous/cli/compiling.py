"""Tells the user when inner loops are compiled, which takes seconds, once per machine and kind of loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba.core.event import Event, Listener, install_listener

from accous.core.compiled import compile_all

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["compile_with_notice"]

# Classes, numbers and wide tables have loops of their own, so the notice may come once for each.
_NOTICE = "Compiling inner loops that this machine uses for the first time: about fifteen seconds"


class _Notice(Listener):
    """Shows the notice when the compiler starts for the first time; loading from the cache does not start it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = console.status(_NOTICE)
        self._is_shown = False

    def on_start(self, event: Event) -> None:
        if self._is_shown:
            return
        self._is_shown = True
        if self._console.is_terminal and not self._console.quiet:
            self._status.start()
        else:
            self._console.print(f"{_NOTICE}.")

    def on_end(self, event: Event) -> None:
        """Leave the notice: the next kernel follows."""

    def stop(self) -> None:
        """Take the notice away."""
        self._status.stop()


def compile_with_notice(console: Console) -> None:
    """Compile all kernels; the console says so unless they come from the cache."""
    notice = _Notice(console)
    try:
        with install_listener("numba:compile", notice):
            compile_all()
    finally:
        notice.stop()
