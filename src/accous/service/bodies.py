"""Bodies of requests, decoded: JSON, CSV and Arrow to rows or frames, and late labels; a bad one is refused."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence, Sized
from typing import Any, Literal, TypeVar

import msgspec
import polars as pl

from accous.service.arrow_sizes import require_arrow_size
from accous.service.limits import Limits
from accous.service.refusals import Refusal
from accous.service.sizes import require_columns, require_csv_size, require_json_size, require_rows

__all__ = [
    "CHOICES",
    "CONTENT_TYPES",
    "Label",
    "LabelsBody",
    "RowsBody",
    "Value",
    "choices_of",
    "decode_json",
    "decode_rows",
    "media_type",
    "require_table",
]

Value = None | bool | int | float | str | list[float]
Include = Literal["ids", "probabilities", "ratio", "sets"]
CONTENT_TYPES = (
    "application/json",
    "text/csv",
    "application/vnd.apache.arrow.stream",
    "application/vnd.apache.arrow.file",
)
CHOICES = ("include", "alpha", "key")
_INCLUDED: tuple[Include, ...] = ("ids",)
_WORDS = ("ids", "probabilities", "ratio", "sets")
# What msgspec says.
_WRONG_WORD, _WRONG_FIELD = (
    re.compile(r"Invalid enum value '(.*)' - at `\$\.include", re.DOTALL),
    "Object contains unknown field",
)
T = TypeVar("T")


class RowsBody(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """Rows in JSON, and what to answer.

    Attributes
    ----------
    rows : list of dict
    key : str, optional
        A column that names the rows; labels may come by it later.
    include : list
        What the answer has besides the predictions.
    alpha : float
        Share of rows whose true class may be missing from the prediction set.
    """

    rows: list[dict[str, Value]]
    key: str | None = None
    include: tuple[Include, ...] = _INCLUDED
    alpha: float = 0.1


class Label(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A label that arrived late: of the prediction with this id, or of the row with this key.

    With the row itself, P(y | x) is tested too.
    """

    label: str | int | float | bool | None
    id: str | None = None
    key: str | int | float | None = None
    row: dict[str, Value] | None = None


class LabelsBody(msgspec.Struct, forbid_unknown_fields=True):
    """Late labels, oldest first."""

    labels: list[Label]


_DECODERS: dict[type, msgspec.json.Decoder[Any]] = {}


def decode_json(body: bytes, kind: type[T], limits: Limits, *, most_objects: int | None = None) -> T:
    """Return a body as a structure; say what is wrong with it if it is none.

    Parameters
    ----------
    body : bytes
    kind : type
    limits : Limits
    most_objects : int, optional
        Objects that it may have, refused before they are made; as many as rows if not given.
    """
    require_json_size(body, limits, most_objects=limits.rows if most_objects is None else most_objects)
    decoder = _DECODERS.get(kind) or _DECODERS.setdefault(kind, msgspec.json.Decoder(kind))
    try:
        found: T = decoder.decode(body)
        return found
    except msgspec.ValidationError as error:
        raise Refusal(422, "invalid", _wrong_form(str(error), kind)) from None
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise Refusal(400, "malformed_json", f"The body is not valid JSON: {reason}.") from None


def _wrong_form(error: str, kind: type) -> str:
    """Say what is wrong with a body, and what is allowed where msgspec does not."""
    if kind is RowsBody and (unknown := _WRONG_WORD.match(error)):
        return _wrong_word(unknown[1])
    inner = Label if kind is LabelsBody else None
    where = inner if " - at " in error else kind
    fields = getattr(where, "__struct_fields__", ()) if error.startswith(_WRONG_FIELD) else ()
    allowed = f"; use {', '.join(fields)}" if fields else ""
    return f"The request does not have the right form: {error}{allowed}."


def _wrong_word(word: str) -> str:
    return f"include has {word[:40]!r}: use words of {', '.join(_WORDS)}."


def media_type(content_type: str) -> str:
    """Return the kind of a body without its parameters; refuse one that is not known."""
    if content_type in CONTENT_TYPES:
        return content_type
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in CONTENT_TYPES:
        known = ", ".join(CONTENT_TYPES)
        what = f"is {kind[:80]!r}" if kind else "is missing"
        raise Refusal(415, "unsupported_content_type", f"The header Content-Type {what}: use one of {known}.")
    return kind


def decode_rows(body: bytes, content_type: str, limits: Limits) -> RowsBody | pl.DataFrame:
    """Return the rows of a request: as plain values from JSON, as a frame from CSV or Arrow."""
    kind = media_type(content_type)
    if kind == "application/json":
        decoded = decode_json(body, RowsBody, limits)
        require_table(decoded.rows, limits)
        return decoded
    if kind == "text/csv":
        require_csv_size(body, limits)
        return _read_csv(body)
    require_arrow_size(body, limits)
    return _read_arrow(body)


def require_table(rows: Sequence[Sized], limits: Limits) -> None:
    """Refuse rows that are too many or too wide."""
    require_rows(len(rows), limits)
    require_columns(max(map(len, rows), default=0), limits)


def choices_of(options: dict[str, str]) -> tuple[str | None, tuple[str, ...], float]:
    """Return key, parts of the answer and alpha from the address of a request whose body has no place for them."""
    include = tuple(filter(None, options.get("include", "ids").split(",")))
    unknown = next((word for word in include if word not in _WORDS), None)
    if unknown is not None:
        raise Refusal(422, "invalid", _wrong_word(unknown))
    try:
        alpha = float(options.get("alpha", "0.1"))
    except ValueError:
        raise Refusal(422, "invalid", "alpha must be a number above 0 and below 1.") from None
    return options.get("key"), include, alpha


def _read_csv(body: bytes) -> pl.DataFrame:
    try:
        return pl.read_csv(io.BytesIO(body), infer_schema=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, OSError) as error:
        raise Refusal(400, "malformed_csv", f"The body is not a table in CSV: {_reason(error)}.") from None


def _read_arrow(body: bytes) -> pl.DataFrame:
    try:
        if body.startswith(b"ARROW1"):
            return pl.read_ipc(io.BytesIO(body))
        return pl.read_ipc_stream(io.BytesIO(body))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, OSError) as error:
        raise Refusal(400, "malformed_arrow", f"The body is not a table in Arrow IPC: {_reason(error)}.") from None


def _reason(error: BaseException) -> str:
    first = str(error).strip().split("\n", 1)[0]
    return first.rstrip(".")[:200] or "it cannot be read"
