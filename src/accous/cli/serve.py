"""``accous serve``: a model behind HTTP, with a page that people keep open."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from accous.cli.options import compile_with_notice, plain_permissions, remarks_console, require_folder
from accous.table.options import ModelFolder, NamedEstimator, Quiet, between
from accous.text import count, import_extra

if TYPE_CHECKING:
    from accous.service.learner import OwnedModel

__all__ = ["EXAMPLES", "ServeOptions", "serve"]

EXAMPLES = """
Examples:

`accous serve model/`

`accous serve model/ --host 0.0.0.0 --token-file tokens.txt`

`accous serve model/ --workers 4 --read-port 8322`
"""
_WORKERS, _SAVING, _LIMITS = "Workers", "Saving", "Limits"
_LARGEST_PORT = 65_535


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """A model to serve, and how."""

    model: ModelFolder
    host: Annotated[str, typer.Option(help="Address to listen on; any but the loopback needs --token-file.")] = (
        "127.0.0.1"
    )
    port: Annotated[int, between("--port", 0, _LARGEST_PORT, help="Port to listen on; 0 takes a free one.")] = 8321
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Who may do what: lines 'read: TOKEN' and 'write: TOKEN'.")
    ] = None
    workers: Annotated[
        int, between("--workers", 0, 256, help="Further processes that only predict.", rich_help_panel=_WORKERS)
    ] = 0
    read_port: Annotated[
        int,
        between(
            "--read-port", 0, _LARGEST_PORT, help="Port of the workers; 0 takes a free one.", rich_help_panel=_WORKERS
        ),
    ] = 8322
    learn_first: Annotated[
        bool, typer.Option("--learn-first", help="Learn from a batch before predicting it, not after.")
    ] = False
    estimator: NamedEstimator = None
    save_batches: Annotated[
        int,
        between("--save-batches", 1, 10_000_000, help="Save the model after so many batches.", rich_help_panel=_SAVING),
    ] = 5_000
    save_seconds: Annotated[
        float | None,
        between(
            "--save-seconds",
            0.1,
            1e9,
            help="Or after so many seconds; default 60, with workers 2.",
            rich_help_panel=_SAVING,
        ),
    ] = None
    max_body: Annotated[
        float, between("--max-body", 0.001, 1_024, help="Largest request, in megabytes.", rich_help_panel=_LIMITS)
    ] = 16.0
    max_rows: Annotated[
        int, between("--max-rows", 1, 1_000_000, help="Most rows of a request.", rich_help_panel=_LIMITS)
    ] = 10_000
    queue: Annotated[
        int, between("--queue", 1, 1_000_000, help="Batches that may wait for the learner.", rich_help_panel=_LIMITS)
    ] = 1_024
    quiet: Quiet = False


def serve(options: ServeOptions) -> int:
    """Serve a model over HTTP: predict, learn, count late labels, and watch it all on a live page.

    A batch that was acknowledged survives a crash: it is on the disk before the model learns from it. Stop the service
    with Ctrl-C or SIGTERM: it answers what it has accepted, saves the model and ends.
    """
    require_folder(options.model)
    serving = import_extra("accous.service.server", "accous serve")
    from accous.service.auth import Tokens, read_token_file
    from accous.service.bodies import Limits
    from accous.service.learner import SaveEvery

    seconds = (2.0 if options.workers else 60.0) if options.save_seconds is None else options.save_seconds
    settings = serving.Settings(
        model=options.model,
        host=options.host,
        port=options.port,
        tokens=Tokens() if options.token_file is None else read_token_file(options.token_file),
        limits=Limits(body_bytes=int(options.max_body * (1 << 20)), rows=options.max_rows, queue=options.queue),
        save_every=SaveEvery(batches=options.save_batches, seconds=seconds),
        learns_first=options.learn_first,
        estimator=options.estimator,
        workers=options.workers,
        read_port=options.read_port,
    )
    remarks = remarks_console(quiet=options.quiet)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    compile_with_notice(remarks)

    def announce(owned: OwnedModel, addresses: list[str]) -> None:
        if owned.n_cut:
            remarks.print(
                f"Cut off {count(owned.n_cut, 'byte')} at the end of the log: the last batches were not complete."
            )
        if owned.n_replayed:
            remarks.print(f"Learned again from {count(owned.n_replayed, 'batch', 'batches')} of the log.")
        typer.echo(f"Serving {options.model} on {addresses[0]}")
        if options.workers:
            processes = count(options.workers, "more process", "more processes")
            typer.echo(f"Predicting in {processes} on {addresses[1]}")

    with plain_permissions(options.model):
        serving.serve(settings, announce)
    return 0
