"""The directive `commands`: every command of `accous` with its arguments and options, from the program itself."""

import re
from collections.abc import Iterator
from typing import Any

import typer
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from accous.cli import app as accous_app


def all_commands() -> Iterator[tuple[str, Any]]:
    """Yield every command with its full name; those of a group follow each other."""
    root: Any = typer.main.get_command(accous_app)
    for name, command in root.commands.items():
        for sub, each in getattr(command, "commands", {"": command}).items():
            yield f"accous {name} {sub}".strip(), each


def describe(name: str, command: Any) -> Iterator[str]:
    """Yield the Markdown of a command: what it does, usage, parameters, examples."""
    context = typer.Context(command, info_name=name)
    yield from (f"## {name}", "")
    yield from (_in_code(line) for line in (command.help or "").splitlines())
    yield from ("", "```text", " ".join([name, *command.collect_usage_pieces(context)]), "```", "")
    rows = [_row(parameter.get_help_record(context)) for parameter in command.params if not parameter.hidden]
    if rows:
        yield from ("| argument or option | what it does |", "|---|---|", *rows, "")
    examples = [line for line in _examples(command.epilog or "") if line]
    if examples:
        yield from ("```console", *(f"$ {line}" for line in examples), "```", "")


def _row(record: tuple[str, str]) -> str:
    """Return a row of the table; words to choose from stand beside the text, where lines may break."""
    *names, values = record[0].rsplit(" ", 1)
    is_choice = "|" in values
    text = _in_code(" ".join(record[1].split()).replace("<", "&lt;").replace("|", "\\|"))
    said = f"One of {', '.join(f'`{each}`' for each in values.split('|'))}. {text}" if is_choice else text
    return f"| `{' '.join(names if is_choice else [*names, values])}` | {said} |"


def _in_code(text: str) -> str:
    """Mark options as code: two hyphens would become a dash."""
    return re.sub(r"(?<![\w`-])(--?[a-zA-Z][\w-]*)", r"`\1`", text)


def _examples(epilog: str) -> Iterator[str]:
    for line in epilog.splitlines():
        yield line.replace("Examples:", "").replace("Example:", "").strip().strip("`")


class Commands(SphinxDirective):
    """One section per command."""

    def run(self) -> list[nodes.Node]:
        """Make Markdown and let the page's own parser read it."""
        lines = [line for name, command in all_commands() for line in describe(name, command)]
        made = nodes.Element()
        self.state.nested_parse(StringList(lines, source="accous --help"), self.content_offset, made, match_titles=True)
        return list(made.children)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True}
