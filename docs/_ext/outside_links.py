"""Links to files outside of the documentation lead to the page that shows them.

The pages are also read as plain files, where `../ARCHITECTURE.md` is right; on the site that file has its own page.
"""

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

_PAGES = {
    "README.md": "/start.md",
    "ARCHITECTURE.md": "/development/architecture.md",
    "CONTRIBUTING.md": "/development/contributing.md",
    "CHANGELOG.md": "/development/changes.md",
    "examples": "/examples.md",
}
_FROM_DOCS = re.compile(rf"\]\((?:\.\./)+(?P<file>{'|'.join(map(re.escape, _PAGES))})(?=[)#])")
_FROM_ROOT = re.compile(r"\]\((?P<file>[\w./-]+)(?=[)#])")


def _to_page(match: re.Match[str]) -> str:
    return f"]({_PAGES[match['file']]}"


def _from_root_to_page(match: re.Match[str]) -> str:
    """Return the link of a file at the root of the project, as it must be inside of the site."""
    file = match["file"]
    if file in _PAGES:
        return _to_page(match)
    return f"](/{file.removeprefix('docs/')}" if file.startswith("docs/") else f"](/../{file}"


def _read_page(_app: Sphinx, _docname: str, source: list[str]) -> None:
    source[0] = _FROM_DOCS.sub(_to_page, source[0])


def _read_included(_app: Sphinx, path: Path, _parent: str, source: list[str]) -> None:
    """Rewrite the links of an included file; those that are included lie at the root of the project."""
    if path.name in _PAGES:
        source[0] = _FROM_ROOT.sub(_from_root_to_page, source[0])


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to the reading of files."""
    app.connect("source-read", _read_page)
    app.connect("include-read", _read_included)
    return {"parallel_read_safe": True}
