"""How docstrings become pages: without what scikit-learn and river give to everything, and with plain words."""

import re
from typing import Any

from numpydoc import docscrape_sphinx
from sphinx.application import Sphinx

# `coef_` in a sentence is a name, not a reference to a footnote; literals and roles stay as they are.
_LITERAL = re.compile(r"(``.*?``|`[^`]*`_?|\|[^|`\s]+\|)")
_TRAILING_UNDERSCORE = re.compile(r"(?<![\w\\])(\w*\w)_(?=[\s,.;:)*\]]|$)")


def escape_names(line: str) -> str:
    """Escape what reStructuredText would take for a reference or a substitution."""
    parts = _LITERAL.split(line)
    for number, part in enumerate(parts):
        if part.startswith("|"):
            parts[number] = part.replace("|", r"\|")
        elif not part.startswith("`"):
            parts[number] = _TRAILING_UNDERSCORE.sub(r"\1\\_", part)
    return "".join(parts)


def _escape(_app: Sphinx, _what: str, _name: str, _thing: Any, _options: Any, lines: list[str]) -> None:
    is_equation = False
    for number, line in enumerate(lines):
        if line.strip():
            indent = len(line) - len(line.lstrip())
            if line.lstrip().startswith(".. math::"):
                is_equation, least = True, indent
            elif is_equation and indent <= least:
                is_equation = False
        if not is_equation and not line.lstrip().startswith((".. ", ">>>", "...")):
            lines[number] = escape_names(line)


# What the other packages of accous call, and nobody else.
_INNER = {
    "backwards_in_words",
    "can_learn",
    "current",
    "lock",
    "note",
    "restore_task",
    "state_from_plain",
    "state_to_plain",
    "verification_from_plain",
    "verification_to_plain",
}


def _is_left_out(_app: Sphinx, _what: str, name: str, thing: Any, skip: bool, _options: Any) -> bool:
    home = str(getattr(thing, "__module__", None) or getattr(getattr(thing, "fget", None), "__module__", None) or "")
    is_inner = name in _INNER and home.startswith(("accous.model.", "accous.table", "accous.threads"))
    return skip or is_inner or home.startswith(("sklearn.", "river."))


def share_templates() -> None:
    """Let numpydoc compile its template once: it does so for every docstring, a sixth of the time of a build."""
    make, made = docscrape_sphinx.SandboxedEnvironment, []

    def first_one(**options: Any) -> Any:
        if not made:
            made.append(make(**options))
        return made[0]

    docscrape_sphinx.SandboxedEnvironment = first_one


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to autodoc, after numpydoc."""
    share_templates()
    app.connect("autodoc-skip-member", _is_left_out)
    app.connect("autodoc-process-docstring", _escape, priority=900)
    return {"parallel_read_safe": True}
