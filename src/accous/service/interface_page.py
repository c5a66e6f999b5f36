"""The description of the interface as a page: every endpoint with a request that you can paste."""

from __future__ import annotations

import json
from html import escape
from typing import Any

__all__ = ["interface_page"]


def interface_page(interface: dict[str, Any], assets: str, host: str) -> str:
    """Return the page.

    Parameters
    ----------
    interface : dict
        In OpenAPI.
    assets : str
        Where the style sheets are.
    host : str
        Where the reader reaches the service.
    """
    needs_token = {} not in interface["security"]
    sections = [
        _section(f"{host}{path}", path, method.upper(), operation, needs_token=needs_token)
        for path, methods in interface["paths"].items()
        for method, operation in methods.items()
    ]
    title = escape(interface["info"]["title"])
    styles = "".join(f'<link rel="stylesheet" href="{assets}/{name}.css">' for name in ("page", "live"))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{title}</title>{styles}'
        f'<link rel="icon" href="{assets}/icon.svg" type="image/svg+xml"></head>'
        f'<body><main class="docs"><header><h1>{title}</h1><p>{escape(interface["info"]["description"])} The same for '
        f'programs: <a href="/openapi.json">openapi.json</a>.</p></header>{"".join(sections)}</main></body></html>'
    )


def _section(address: str, path: str, method: str, operation: dict[str, Any], *, needs_token: bool) -> str:
    token = ' -H "Authorization: Bearer $TOKEN"' if needs_token and operation.get("security") != [] else ""
    head = f'<section><h2><span class="method">{method}</span> <code>{escape(path)}</code></h2>'
    return f"{head}<p>{escape(operation['summary'])}</p>{_example(address + token, method, operation)}</section>"


def _example(address: str, method: str, operation: dict[str, Any]) -> str:
    if method == "GET":
        return f"<pre>{escape(f'curl {address}')}</pre>"
    found = operation["requestBody"]["content"]["application/json"]["example"]
    body = json.dumps(found, ensure_ascii=False).replace("'", "'\\''")
    command = f"curl {address} -H 'Content-Type: application/json' \\\n  -d '{body}'"
    return f"<pre>{escape(command)}</pre>"
