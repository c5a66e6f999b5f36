"""``accous serve``: a model behind HTTP, with a page that people keep open."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from accous.cli.locked_model import require_folder
from accous.cli.options import ModelFolder, NamedEstimator, Quiet, remarks_console, require_between
from accous.exceptions import CheckpointError
from accous.text import count, import_extra

if TYPE_CHECKING:
    from accous.service.learner import OwnedModel

__all__ = ["EXAMPLES", "serve"]

EXAMPLES = """
Examples:

`accous serve model/`

`accous serve model/ --host 0.0.0.0 --token-file tokens.txt`

`accous serve model/ --workers 4 --read-port 8322`
"""
_SAVING, _LIMITS = "Saving", "Limits"
_Host = Annotated[str, typer.Option("--host", help="Address to listen on; any but the loopback needs --token-file.")]
_Port = Annotated[int, typer.Option("--port", help="Port to listen on; 0 takes a free one.")]
_TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", metavar="FILE", help="Who may do what: lines 'read: TOKEN' and 'write: TOKEN'."),
]
_Workers = Annotated[
    int, typer.Option("--workers", help="Further processes that only predict.", rich_help_panel="Workers")
]
_ReadPort = Annotated[
    int, typer.Option("--read-port", help="Port of the workers; 0 takes a free one.", rich_help_panel="Workers")
]
_LearnFirst = Annotated[bool, typer.Option("--learn-first", help="Learn from a batch before predicting it, not after.")]
_SaveBatches = Annotated[
    int, typer.Option("--save-batches", help="Save the model after so many batches.", rich_help_panel=_SAVING)
]
_SaveSeconds = Annotated[
    float | None,
    typer.Option(
        "--save-seconds", help="Or after so many seconds; default 60, with workers 2.", rich_help_panel=_SAVING
    ),
]
_MaxBody = Annotated[float, typer.Option("--max-body", help="Largest request, in megabytes.", rich_help_panel=_LIMITS)]
_MaxRows = Annotated[int, typer.Option("--max-rows", help="Most rows of a request.", rich_help_panel=_LIMITS)]
_Queue = Annotated[int, typer.Option("--queue", help="Batches that may wait for the learner.", rich_help_panel=_LIMITS)]


def serve(
    model: ModelFolder,
    host: _Host = "127.0.0.1",
    port: _Port = 8321,
    token_file: _TokenFile = None,
    workers: _Workers = 0,
    read_port: _ReadPort = 8322,
    learn_first: _LearnFirst = False,
    estimator: NamedEstimator = None,
    save_batches: _SaveBatches = 5_000,
    save_seconds: _SaveSeconds = None,
    max_body: _MaxBody = 16.0,
    max_rows: _MaxRows = 10_000,
    queue: _Queue = 1_024,
    quiet: Quiet = False,
) -> int:
    """Serve a model over HTTP: predict, learn, count late labels, and watch it all on a live page.

    A batch that was acknowledged survives a crash: it is on the disk before the model learns from it. Stop the service
    with Ctrl-C or SIGTERM: it answers what it has accepted, saves the model and ends.
    """
    require_folder(model)
    seconds = (2.0 if workers else 60.0) if save_seconds is None else save_seconds
    for name, value, low, high in (
        ("--port", port, 0, 65_535),
        ("--read-port", read_port, 0, 65_535),
        ("--workers", workers, 0, 256),
        ("--save-batches", save_batches, 1, 10_000_000),
        ("--save-seconds", seconds, 0.1, 1e9),
        ("--max-body", max_body, 0.001, 1_024),
        ("--max-rows", max_rows, 1, 1_000_000),
        ("--queue", queue, 1, 1_000_000),
    ):
        require_between(name, value, low, high)
    serving = import_extra("accous.service.server", "accous serve")
    from accous.cli.compiling import compile_with_notice
    from accous.service.auth import Tokens, read_token_file
    from accous.service.http import Limits, SaveEvery

    settings = serving.Settings(
        model=model,
        host=host,
        port=port,
        tokens=Tokens() if token_file is None else read_token_file(token_file),
        limits=Limits(body_bytes=int(max_body * (1 << 20)), rows=max_rows, queue=queue),
        save_every=SaveEvery(batches=save_batches, seconds=seconds),
        learns_first=learn_first,
        estimator=estimator,
        workers=workers,
        read_port=read_port,
    )
    remarks = remarks_console(quiet=quiet)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    compile_with_notice(remarks)

    def say(owned: OwnedModel, addresses: list[str]) -> None:
        if owned.n_cut:
            remarks.print(
                f"Cut off {count(owned.n_cut, 'byte')} at the end of the log: the last batches were not complete."
            )
        if owned.n_replayed:
            remarks.print(f"Learned again from {count(owned.n_replayed, 'batch', 'batches')} of the log.")
        typer.echo(f"Serving {model} on {addresses[0]}")
        if workers:
            typer.echo(f"Predicting in {count(workers, 'more process', 'more processes')} on {addresses[1]}")

    try:
        serving.serve(settings, say)
    except PermissionError as error:
        raise CheckpointError(f"Cannot write to {model} ({error.strerror}): change its permissions") from None
    return 0
