"""``accous report``: one page that says how good the model is now, what moved, and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from accous.cli.options import remarks_console, say
from accous.exceptions import DataError, ParameterError
from accous.table.options import Force, ModelFolder, NamedEstimator, Quiet

__all__ = ["EXAMPLES", "report", "require_html", "write_page"]

EXAMPLES = """
Examples:

`accous report model/ -o report.html`

`accous report model/ -o report.html --by country --force --quiet && xdg-open report.html`
"""
_By = Annotated[str | None, typer.Option(metavar="COL", help="Show segments by this column, the worst first.")]
_Output = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="An .html file.")]


def report(
    model: ModelFolder,
    output: _Output = Path("report.html"),
    by: _By = None,
    estimator: NamedEstimator = None,
    force: Force = False,
    quiet: Quiet = False,
) -> int:
    """Write a report that starts with metric and state and opens offline in any browser."""
    require_html(output)
    if output.exists() and not force:
        raise DataError(f"{output} already exists: give another name, or use --force to replace it.")
    from accous.report.figures import headline, report_source
    from accous.report.page import render_page
    from accous.table.model import load_table_model
    from accous.table.runs import require_separate_files

    require_separate_files({}, {"--output": str(output)}, model)
    remarks = remarks_console(quiet=quiet)
    with remarks.status("Writing the report"):
        source = report_source(load_table_model(model, estimator).snapshot(), str(model), by=by)
        write_page(output, render_page(source))
    say(remarks, f"{headline(source)}. Report: {output}")
    return 0


def require_html(output: Path) -> None:
    """Raise a ParameterError unless the name of the report ends in .html."""
    if output.suffix.lower() not in (".html", ".htm"):
        raise ParameterError(f"The name of the report must end in .html, got {str(output)!r}.")


def write_page(output: Path, page: str) -> None:
    """Write a page; if that fails, an older one stays intact."""
    from accous.checkpoint.files import write_atomically

    try:
        # Braces in a name would be taken for a place to fill in.
        name = output.name.replace("{", "{{").replace("}", "}}")
        write_atomically(output.parent, lambda stream: stream.write(page.encode()), name=name)
    except OSError as error:
        raise DataError(f"The report could not be written to {output}: {error.strerror or error}.") from None
