"""How large a body would become, counted in its bytes before it is decoded: a small one can stand for a large table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from accous.service.limits import Limits
from accous.service.refusals import Refusal

__all__ = ["require_columns", "require_csv_size", "require_json_size", "require_rows"]

_JSON_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_CSV_TEXT = re.compile(rb'"[^"]*+"')
_BLOCK = 1 << 20
# Objects and lists of a request that are not rows: the request itself, its parts and parameters.
_OTHERS = 64
# Lists in a row, for columns of vectors.
_LISTS_IN_ROW = 16
_MISSING_VALUES = 1_000_000


def require_rows(n_rows: int, limits: Limits) -> None:
    """Refuse a request with too many rows."""
    if n_rows > limits.rows:
        raise Refusal(413, "too_many_rows", f"A request may have {limits.rows:,} rows, this one has {n_rows:,}.")


def require_columns(n_columns: int, limits: Limits) -> None:
    """Refuse rows that are too wide."""
    if n_columns > limits.columns:
        raise Refusal(413, "too_many_columns", f"A row may have {limits.columns:,} columns, not {n_columns:,}.")


def require_json_size(body: bytes, limits: Limits, *, most_objects: int) -> None:
    """Refuse JSON with too many objects, lists or names, which would take long to decode.

    Parameters
    ----------
    body : bytes
    limits : Limits
    most_objects : int
        Rows, or what stands for them.
    """
    if len(body) <= min(most_objects, limits.rows, limits.columns):
        return  # each of them takes a byte at least
    if _is_large(_counts([body]), limits, most_objects) and _is_large(
        _counts(_outside_texts(body, _JSON_TEXT)), limits, most_objects
    ):
        rows, columns = f"{limits.rows:,} rows", f"{limits.columns:,} columns"
        text = f"A request may have {rows} and a row {columns}, this one has more: send several requests."
        raise Refusal(413, "too_many_rows", text)


def _counts(pieces: Iterable[bytes]) -> tuple[int, int, int]:
    """Return how many objects, lists and names begin in pieces of JSON."""
    counts = [(piece.count(b"{"), piece.count(b"["), piece.count(b":")) for piece in pieces]
    n_objects, n_lists, n_names = (sum(column) for column in zip(*counts, strict=True))
    return n_objects, n_lists, n_names


def _is_large(counts: tuple[int, int, int], limits: Limits, most_objects: int) -> bool:
    n_objects, n_lists, n_names = counts
    return (
        n_objects > most_objects + _OTHERS
        or n_lists > _LISTS_IN_ROW * limits.rows + limits.columns + _OTHERS
        # If there are more names than this, one object has too many.
        or n_names > (limits.columns + 1) * max(1, n_objects)
    )


def require_csv_size(body: bytes, limits: Limits) -> None:
    """Refuse a table in CSV with too many columns or rows, or whose rows lack most of their values."""
    n_columns, n_rows, is_in_head = 1, -1 if body.endswith(b"\n") else 0, True
    for piece in _outside_texts(body, _CSV_TEXT) if b'"' in body else [body]:
        head, line_end, _ = piece.partition(b"\n")
        n_columns += head.count(b",") if is_in_head else 0
        is_in_head &= not line_end
        n_rows += piece.count(b"\n")
    require_columns(n_columns, limits)
    require_rows(n_rows, limits)
    # A value takes at least the comma behind it, unless lines end early: what they lack would become missing values.
    if n_columns * n_rows > len(body) + _MISSING_VALUES:
        raise Refusal(413, "too_large", f"Most of the {n_rows:,} rows are shorter than the head.")


def _outside_texts(body: bytes, texts: re.Pattern[bytes]) -> Iterator[bytes]:
    """Yield what is not between quotes; in blocks, because taking out many texts at once takes much memory."""
    rest = b""
    for start in range(0, len(body), _BLOCK):
        bare = texts.sub(b"", rest + body[start : start + _BLOCK])
        outside, quote, inside = bare.partition(b'"')
        # A text that goes on in the next block; all that matters of it is whether its end escapes what follows.
        n_escapes = len(inside) - len(inside.rstrip(b"\\"))
        rest = quote + b"\\" * (n_escapes % 2)
        yield outside
