"""``accous serve``: a model behind HTTP, with a page that people keep open."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import typer

from accous.cli.options import announcing_compilation, remarks_console, require_folder
from accous.table.options import ServeOptions
from accous.text import count, import_extra, printable

if TYPE_CHECKING:
    from accous.service.learner import OwnedModel

EXAMPLES = """
Examples:

`accous serve model/`

`accous serve model/ --host 0.0.0.0 --token-file tokens.txt`

`accous serve model/ --workers 4 --read-port 8322`
"""


def serve(options: ServeOptions) -> int:
    """Serve a model over HTTP: predict, learn, accept late labels, and watch it on a live page.

    An acknowledged batch survives a crash: it is on disk before the model learns from it. Stop the service with Ctrl-C
    or SIGTERM; it first answers the requests that it has accepted, and saves the model.
    """
    require_folder(options.model)
    from accous.core.compiled import compile_all

    serving = import_extra("accous.service.server", "accous serve")
    remarks = remarks_console(quiet=options.quiet)
    log = logging.StreamHandler()
    log.setFormatter(PlainFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[log])
    with announcing_compilation(remarks):
        compile_all()  # before the first request, not in it

    def announce(owned: OwnedModel, addresses: list[str]) -> None:
        if owned.log.n_cut:
            remarks.print(
                f"Cut off {count(owned.log.n_cut, 'byte')} at the end of the log: the last batches were not complete."
            )
        if owned.n_replayed:
            remarks.print(f"Replayed {count(owned.n_replayed, 'batch', 'batches')} of the log.")
        typer.echo(f"Serving {options.model} on {addresses[0]}")
        if options.workers:
            processes = count(options.workers, "more process", "more processes")
            typer.echo(f"Predicting in {processes} on {addresses[1]}")

    serving.serve(options, announce)
    return 0


class PlainFormatter(logging.Formatter):
    """Log lines without characters that a terminal obeys: clients choose what some of them quote."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        return printable(super().formatMessage(record))
