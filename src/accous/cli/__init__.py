"""The command line, ``accous``: one file per command, `options` that they share, and a `simulated` stream.

Each parses, calls and prints. Commands import what they need when they run, so that ``accous --help`` answers at
once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points
from typing import Annotated, Any

import typer
import typer.main

from accous.cli import adapt, demo, fit, labels, serve, spark, status
from accous.cli.options import command
from accous.exceptions import AccousError, MissingExtraError, ParameterError
from accous.table.options import (
    AdaptOptions,
    AskOptions,
    BacktestOptions,
    FitOptions,
    LabelsOptions,
    PredictOptions,
    ServeOptions,
)
from accous.text import printable

__all__ = ["COMMANDS", "app", "main", "make_app"]

COMMANDS: dict[Callable[..., int], str] = {
    command(demo.DemoOptions, demo.demo): demo.EXAMPLES,
    command(BacktestOptions, fit.backtest): fit.BACKTEST_EXAMPLES,
    command(FitOptions, fit.fit): fit.EXAMPLES,
    command(AdaptOptions, adapt.adapt): adapt.EXAMPLES,
    command(PredictOptions, adapt.predict): adapt.PREDICT_EXAMPLES,
    status.status: status.EXAMPLES,
    command(AskOptions, labels.ask): labels.ASK_EXAMPLES,
    command(LabelsOptions, labels.labels): labels.EXAMPLES,
    status.report: status.REPORT_EXAMPLES,
    command(ServeOptions, serve.serve): serve.EXAMPLES,
    command(spark.SparkOptions, spark.spark): spark.EXAMPLES,
}
"""The commands, in the order of the help, and what is shown below the help of each."""

_ANY_OPTIONS = {"ignore_unknown_options": True}
# The error for what was typed wrongly; typer exports only this child of it.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]


def _print_version(is_asked: bool) -> None:
    if is_asked:
        import accous

        typer.echo(f"accous {accous.__version__}")
        raise typer.Exit


def _root(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def make_app() -> typer.Typer:
    """Put the commands together: those of this package, and those that other distributions add.

    Such a distribution names a `typer.Typer` as an entry point of the group ``accous.commands``.
    """
    made = typer.Typer(
        name="accous",
        help="Keep a deployed model alive while its inputs drift: measure it, ask for labels, recover.",
        epilog="Start with: accous demo",
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
    )
    made.callback(invoke_without_command=True)(_root)
    for each, examples in COMMANDS.items():
        made.command(epilog=examples)(each)
    added = {entry.name: entry for entry in entry_points(group="accous.commands")}
    for name, entry in added.items():
        try:
            made.add_typer(entry.load(), name=name)
        except Exception as error:  # a package that is broken takes no other command with it
            made.command(name, context_settings=_ANY_OPTIONS)(_broken_command(name, error))
    if "bench" not in added:
        made.command("bench", context_settings=_ANY_OPTIONS)(_missing_bench)
    return made


def _broken_command(name: str, error: Exception) -> Callable[..., int]:
    def fail(_words: Annotated[list[str] | None, typer.Argument(metavar="...")] = None) -> int:
        raise AccousError(f"accous {name} cannot be loaded ({error}): install its package again.")

    return fail


def _missing_bench(_words: Annotated[list[str] | None, typer.Argument(metavar="...")] = None) -> int:
    """Reproduce the paper's tables and figures (needs the package accous-bench)."""
    raise MissingExtraError(
        "accous bench needs the package accous-bench, which is not installed: pip install accous-bench adds it."
    )


app = make_app()


@cache
def _parser(of: typer.Typer) -> Any:
    """Return the parser of all commands; typer would make it again for every call."""
    return typer.main.get_command(of)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    arguments : list of str, optional
        The arguments after ``accous``; None: those of the command line.

    Returns
    -------
    int
        0, or 2 for a wrong argument and 1 for any other failure, each with one sentence on stderr; 3 if a condition of
        ``accous status --fail-if`` holds; 130 when interrupted, 143 when terminated, 141 when the reader of the output
        has closed it.
    """
    try:
        # Without typer's own handling, which prints a box and the usage for every wrong argument.
        return _parser(app)(arguments, prog_name="accous", standalone_mode=False) or 0
    except _UsageError as error:
        return _fail(error.format_message(), 2)  # type: ignore[attr-defined]
    except ParameterError as error:
        return _fail(str(error), 2)
    except (AccousError, OSError) as error:
        return _fail(str(error), 1)
    except (KeyboardInterrupt, typer.Abort):
        return 130


def _fail(message: str, exit_code: int) -> int:
    # One line, without characters that a terminal obeys: messages of libraries and names in files have both.
    message = printable(" ".join(message.split())).rstrip(".")
    typer.echo(f"accous: {message}" + ("" if message.endswith("?") else "."), err=True)
    return exit_code
