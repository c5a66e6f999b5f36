"""Tables and pictures stand in boxes that scroll if they are too wide, and that the keyboard reaches."""

import re
from typing import Any

from sphinx.application import Sphinx

_BOX = 'class="{}pst-scrollable-table-container" role="region" aria-label="{}" tabindex="0"'
# The theme's own box for tables: its script takes those that do not scroll out of the keyboard's way.
_TABLE = '<div class="pst-scrollable-table-container">'
_PICTURE = re.compile(r"<p>((?:<img [^>]*>\s*)+)</p>")


def with_boxes(body: str) -> str:
    """Return the HTML of a page with a name and a place in the order of the keyboard for everything that may scroll."""
    body = body.replace(_TABLE, f"<div {_BOX.format('', 'table')}>")
    return _PICTURE.sub(rf"<div {_BOX.format('picture ', 'picture')}>\1</div>", body)


def _change(_app: Sphinx, _page: str, _template: str, context: dict[str, Any], _doctree: Any) -> None:
    if context.get("body"):
        context["body"] = with_boxes(context["body"])


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to the writing of pages."""
    app.connect("html-page-context", _change)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
