"""What the commands share: their options, consoles, signals, and the lock of a model's folder."""

from __future__ import annotations

import inspect
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from accous.exceptions import CheckpointError, LockedError
from accous.text import count, import_extra, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from accous.model.backtest import Backtest

_Options = TypeVar("_Options")


def command(options: type[_Options], run: Callable[[_Options], int]) -> Callable[..., int]:
    """Return a command for typer whose parameters are the fields of a dataclass.

    Parameters
    ----------
    options : type
        A dataclass; its fields are annotated as the parameters of a function for typer.
    run : callable
        Takes the options and returns the exit code; the command has its name and its help.
    """

    def call(**given: Any) -> int:
        return run(options(**given))

    call.__name__, call.__doc__ = run.__name__, run.__doc__
    # Typer reads the parameters of a command from its signature.
    signature = inspect.signature(options, eval_str=True)
    # What a command has alone comes first in its help, and what it has in common with others last.
    declared = [inspect.get_annotations(cls) for cls in options.__mro__]
    place = {name: number for number, names in reversed(list(enumerate(declared))) for name in names}
    ordered = sorted(signature.parameters.values(), key=lambda each: place[each.name])
    call.__signature__ = signature.replace(parameters=ordered)  # type: ignore[attr-defined]
    return call


# --- What is printed


@cache
def _console_class() -> type[Console]:
    from rich.console import Console
    from rich.text import Text

    class PlainConsole(Console):
        """Shows each text on a line of its own as it is: nothing in it is markup, and no terminal obeys it."""

        def render_str(self, text: str, **shown: Any) -> Text:
            style, justify, overflow = shown.get("style") or "", shown.get("justify"), shown.get("overflow")
            return Text(printable(text), style, justify=justify, overflow=overflow)

    return PlainConsole


def remarks_console(*, quiet: bool) -> Console:
    """Console for remarks and progress, on stderr: results alone go to stdout."""
    return _console_class()(stderr=True, quiet=quiet)


def results_console() -> Console:
    """Console for results."""
    return _console_class()()


def say(console: Console, *texts: str) -> None:
    """Print texts as they are, each on a line of its own."""
    for text in texts:
        console.print(text, soft_wrap=True)


def columns_table(lines: Sequence[Sequence[str]]) -> Table:
    """Return the table of what is done with each column, from the lines of ``shown_lines``."""
    from rich.table import Table

    table = Table(title="What is done with each column")
    for heading in ("column", "read as", "features", "what is done"):
        table.add_column(heading, justify="right" if heading == "features" else "left")
    for column, kind, n_features, what in lines:
        table.add_row(column, kind, n_features, what)
    return table


def print_backtest(found: Backtest | None, *, is_ordered: bool) -> None:
    """Print what the replay of the reference showed, or why there is none.

    Parameters
    ----------
    found : Backtest, optional
    is_ordered : bool
        Whether the reference has an order in time.
    """
    if found is not None:
        how = found.how if found.later_classes else ""  # `accous backtest` says more
        sentences: tuple[str, ...] = (found.sentence, how)
    elif is_ordered:
        sentences = ("Nothing was replayed: the reference has too few rows.",)
    else:
        hint = "If its rows have one, use --time COL or --ordered."
        sentences = (f"Nothing was replayed: the reference has no order in time. {hint}",)
    say(results_console(), *filter(None, sentences))


@contextmanager
def announcing_compilation(console: Console) -> Iterator[None]:
    """Say when an inner loop is compiled, which takes seconds, once per machine, and afterwards how long it took."""
    from numba.core.event import Event, Listener, install_listener

    class Notice(Listener):
        """Loading a loop from the cache does not start the compiler; within a loop, it starts for each function."""

        depth = 0
        start = seconds = 0.0

        def on_start(self, _event: Event) -> None:
            if not self.depth:
                self.start = time.process_time()
                if not self.seconds:
                    say(console, "Compiling inner loops that this machine uses for the first time.")
            self.depth += 1

        def on_end(self, _event: Event) -> None:
            self.depth -= 1
            if not self.depth:
                self.seconds += time.process_time() - self.start

    notice = Notice()
    with install_listener("numba:compile", notice):
        yield
    if notice.seconds:
        say(console, f"Compiling took {notice.seconds:.1f} seconds.")


# --- Ctrl-C and SIGTERM: stop after the current round, with everything saved. A reader that left: stop quietly


class StopRequest:
    """Whether a signal has arrived.

    Attributes
    ----------
    signal : int or None
    """

    def __init__(self) -> None:
        self.signal: int | None = None

    def __call__(self) -> bool:
        """Whether to stop."""
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """128 plus the number of the signal, as in shells: 130 or 143."""
        return 128 + (self.signal or 0)


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Treat signals as requests; a second one ends the process at once."""
    request = StopRequest()
    before: dict[int, Any] = {}

    def take(number: int, _frame: FrameType | None) -> None:
        request.signal = number
        for each, handler in before.items():
            signal.signal(each, handler)

    for number in (signal.SIGINT, signal.SIGTERM):
        before[number] = signal.signal(number, take)
    try:
        yield request
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def give_up_stdout() -> int:
    """End quietly with the exit code of SIGPIPE: nobody reads the output any more."""
    # Python flushes stdout on its way out, and would complain.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141


# --- The model's folder while a command changes it: one command at a time, and plain words for what can go wrong


@contextmanager
def locked_model(folder: Path, name: str) -> Iterator[None]:
    """Hold the lock of a model's folder.

    Parameters
    ----------
    folder : Path
    name : str
        Who holds it, for the message that another command gives.
    """
    from accous.checkpoint.files import exclusive_lock

    require_folder(folder)
    with ExitStack() as stack:
        try:
            stack.enter_context(exclusive_lock(folder, name))
        except OSError as error:
            raise CheckpointError(f"Cannot write to {folder} ({error.strerror}): change its permissions") from None
        require_no_batches_left(folder)
        yield


def require_no_batches_left(folder: Path, *, may_be_served: bool = False) -> None:
    """Raise a CheckpointError if a service has acknowledged batches that the saved model does not contain.

    The service learns from them when it starts again: whatever a command did before would come in their place.

    Parameters
    ----------
    folder : Path
    may_be_served : bool
        Whether a service that is running may be about to save them.
    """
    log = folder / "service" / "batches.log"
    if not log.is_file():
        return
    counting = import_extra("accous.service.log", f"The log of accous serve in {folder}")
    from accous.table.model import read_log_position

    position, (name, n_records) = read_log_position(folder), counting.count_records(log)
    is_behind = position is not None and position.log == name and n_records > position.n_records
    if position is not None and is_behind and not (may_be_served and _is_in_use(folder)):
        batches = count(n_records - position.n_records, "batch", "batches")
        raise CheckpointError(
            f"accous serve has accepted {batches} that the model in {folder} does not contain yet: start accous serve "
            "once, which learns from them, and stop it, then run the command again"
        )


def _is_in_use(folder: Path) -> bool:
    from accous.checkpoint.files import exclusive_lock

    try:
        with exclusive_lock(folder, "accous"):
            return False
    except LockedError:
        return True
    except OSError:
        return False


def require_folder(model: Path) -> None:
    """Raise a CheckpointError if there is no such folder, or if it is a file, as when arguments are swapped."""
    if not model.is_dir():
        raise CheckpointError(f"{model} is not a folder: make a model with accous fit first")
