"""Bodies to rows: JSON, CSV and Arrow with bounded sizes; predictions back."""

from __future__ import annotations

import csv
import io
import re
import struct
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Sized
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_args

import msgspec
import numpy as np
import polars as pl
import polars.selectors as cs
from numpy.typing import NDArray
from starlette.responses import Response

from accous.exceptions import AccousError, DataError
from accous.table.columns import ColumnEncoder, Features, Marks, NumberColumn, PlainRowEncoder, frame_of_rows
from accous.table.kinds import ClassForm, LabelForm, NumberForm, form_of
from accous.table.model import RoundResult, TableModel
from accous.table.readers import spread_vectors
from accous.table.rows import features_to_json
from accous.text import count

# --- Responses, and what is wrong with a request


_LONGEST_MESSAGE = 2_000


class HttpError(Exception):
    """A request that is not carried out.

    Parameters
    ----------
    status : int
    code : str
        A word for programs.
    message : str
        A sentence for people: what is wrong, and what to do. Its end is left out if it quotes much of a request.
    headers : dict, optional
    **details
        More fields of the error, such as the row.
    """

    def __init__(
        self, status: int, code: str, message: str, *, headers: dict[str, str] | None = None, **details: Any
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message[:_LONGEST_MESSAGE]
        self.headers, self.details = headers or {}, details

    def response(self, path: str = "") -> Response:
        """Return the error as JSON, in the shape of an address: below /v2 that of the Open Inference Protocol."""
        is_protocol = path == "/v2" or path.startswith("/v2/")
        error = self.message if is_protocol else {"code": self.code, "message": self.message, **self.details}
        return respond(msgspec.json.encode({"error": error}), status=self.status, headers=self.headers)


JSON = "application/json"
# Every response has headers that browsers obey.
HEADERS = {"x-content-type-options": "nosniff", "cache-control": "no-store"}
CLOSE = {"connection": "close"}


def respond(
    body: bytes, media_type: str = JSON, *, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """Return a response; its own headers replace those that every response has."""
    # Not as a media type, to which Starlette would add a charset.
    return Response(body, status, HEADERS | {"content-type": media_type} | (headers or {}))


def respond_json(content: Any) -> Response:
    """Return plain values as a response."""
    return respond(msgspec.json.encode(content))


# --- The limits of a service: what one request may cost, and when to save


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a request may cost.

    Attributes
    ----------
    body_bytes, rows, columns : int
    values : int
        Of all rows, with the items of lists.
    held_bytes : int
        Bytes of all bodies together that are arriving or being read.
    body_seconds : float
        Time that a body may take to arrive.
    head_bytes, head_seconds
        The same for the lines before the body.
    idle_seconds : int
        Time between requests of a connection that stays open.
    queue : int
        Batches that may wait for the learner; beyond, clients are asked to come back.
    queue_bytes : int
        Bytes that their bodies may have together.
    connections : int
        Beyond, only questions about health are answered.
    streams : int
        Streams of events.
    """

    body_bytes: int = 16 << 20
    rows: int = 10_000
    columns: int = 4_096
    values: int = 1_000_000
    held_bytes: int = 256 << 20
    body_seconds: float = 30.0
    head_bytes: int = 64 << 10
    head_seconds: float = 15.0
    idle_seconds: int = 75
    queue: int = 1_024
    queue_bytes: int = 256 << 20
    connections: int = 2_000
    streams: int = 500


NO_LIMITS = Limits(body_bytes=1 << 62, rows=1 << 31, columns=1 << 31, values=1 << 62)


# --- Bodies that come packed with gzip or deflate, unpacked no further than the limit


ENCODINGS = ("gzip", "deflate")
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS


def unpack(body: bytes, most_bytes: int) -> bytes:
    """Return what was packed; refuse it as soon as it is longer than allowed."""
    unpacker = zlib.decompressobj(_GZIP_OR_ZLIB)
    with suppress(zlib.error):
        found = unpacker.decompress(body, most_bytes + 1)
        if len(found) > most_bytes:
            raise too_large(most_bytes)
        if unpacker.eof and not unpacker.unused_data:
            return found
    text = "The body is not what Content-Encoding says: compress it once, and send all of it."
    raise HttpError(400, "malformed_encoding", text)


def too_large(most_bytes: int, headers: dict[str, str] | None = None) -> HttpError:
    """Return the error of a body that is too long."""
    text = f"A request may have {most_bytes:,} bytes: send the rows in several requests."
    return HttpError(413, "too_large", text, headers=headers)


# --- How large a body would become, counted in its bytes before it is decoded: a small one can stand for a
#     large table


def require_rows(n_rows: int, limits: Limits) -> None:
    """Refuse a request with too many rows."""
    if n_rows > limits.rows:
        raise HttpError(413, "too_many_rows", f"A request may have {limits.rows:,} rows, this one has {n_rows:,}.")


def require_columns(n_columns: int, limits: Limits) -> None:
    """Refuse rows that are too wide."""
    if n_columns > limits.columns:
        raise HttpError(413, "too_many_columns", f"A row may have {limits.columns:,} columns, not {n_columns:,}.")


def require_values(body: bytes, marks: bytes, limits: Limits) -> None:
    """Refuse a body that would become too many values: each but the first stands behind a mark. Texts count."""
    if len(body) > limits.values and sum(body.count(mark) for mark in marks) > limits.values:
        most = f"{limits.rows:,} rows, a row {limits.columns:,} columns, and all of them {limits.values:,} values"
        text = f"A request may have {most}, counted by their commas and brackets: send several requests."
        raise HttpError(413, "too_many_rows", text)


# --- How large a stream in Arrow IPC would become, read from the heads of its messages: a few bytes can declare much


_GOES_ON, _SCHEMA, _DICTIONARY, _RECORDS = 0xFFFFFFFF, 1, 2, 3


class _Table(NamedTuple):
    """A table of a flatbuffer: the bytes, and where it starts."""

    content: bytes
    start: int

    @classmethod
    def behind(cls, content: bytes, place: int) -> _Table:
        """Return the table to which a place points."""
        return cls(content, place + struct.unpack_from("<I", content, place)[0])

    def place(self, number: int) -> int | None:
        """Return where a field is; None if it is left out."""
        where = self.start - struct.unpack_from("<i", self.content, self.start)[0]
        if where < 0:
            raise struct.error
        offset = 4 + 2 * number
        size = struct.unpack_from("<H", self.content, where)[0]
        inside = struct.unpack_from("<H", self.content, where + offset)[0] if offset < size else 0
        return self.start + inside if inside else None

    def number(self, number: int, form: str) -> int:
        """Return a number; 0 if it is left out."""
        place = self.place(number)
        return 0 if place is None else int(struct.unpack_from(form, self.content, place)[0])

    def table(self, number: int) -> _Table | None:
        """Return a table inside of this one."""
        place = self.place(number)
        return None if place is None else _Table.behind(self.content, place)

    def pairs(self, number: int) -> list[tuple[int, int]]:
        """Return a vector of pairs of numbers; those that are not there any more are left out."""
        found = self.table(number)
        if found is None:
            return []
        n_pairs = struct.unpack_from("<I", *found)[0]
        return list(struct.iter_unpack("<qq", self.content[found.start + 4 :][: 16 * n_pairs]))


def require_arrow_size(body: bytes, limits: Limits) -> None:
    """Refuse a stream that has too many rows or columns, or would take more memory than the largest body."""
    n_rows = n_values = 0
    try:
        for n_before, message in enumerate(_messages(body)):
            require_rows(n_before - 1, limits)  # a table of many empty pieces
            kind, header = message.number(1, "<B"), message.table(2)
            if header is not None and kind == _SCHEMA:
                fields = header.table(1)
                require_columns(0 if fields is None else struct.unpack_from("<I", *fields)[0], limits)
            records = header.table(1) if header is not None and kind == _DICTIONARY else header
            if records is None or kind not in (_DICTIONARY, _RECORDS):
                continue
            if records.table(3) is not None:
                text = (
                    "Compressed Arrow buffers are not supported: compress the whole body, with Content-Encoding: gzip."
                )
                raise HttpError(415, "unsupported_encoding", text)
            n_rows += records.number(0, "<q") if kind == _RECORDS else 0
            # Each buffer takes as many bytes as it says, also if several are in the same place.
            n_values += sum(abs(n) for n, _ in records.pairs(1)) + sum(abs(n) for _, n in records.pairs(2))
            require_rows(n_rows, limits)
            if n_values > limits.body_bytes:
                raise too_large(limits.body_bytes)
    except struct.error:
        raise HttpError(400, "malformed_arrow", "The body is not an Arrow IPC stream: a header is wrong.") from None


def _messages(body: bytes) -> Iterator[_Table]:
    """Yield the head of each message."""
    place = 0
    while place < len(body):
        mark, size = struct.unpack_from("<II", body, place)
        if mark != _GOES_ON:
            raise struct.error
        if size == 0:
            return
        message = _Table.behind(body, place + 8)
        yield message
        place += 8 + size + max(0, message.number(3, "<q"))


# --- Bodies of requests, decoded: JSON, CSV and Arrow to rows or frames, and late labels; a bad one is refused


Value = None | bool | int | float | str | list[float]
Include = Literal["ids", "probabilities", "ratio", "sets"]
ARROW = "application/vnd.apache.arrow.stream"
CONTENT_TYPES = (JSON, "text/csv", ARROW)
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # of the years 1 to 9999, from 1970-01-01
_UNITS_OF_DAY = {None: 1, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_ALL_LABELS = 100_000
# What msgspec says.
_WRONG_WORD, _WRONG_FIELD = (
    re.compile(r"Invalid enum value '(.*)' - at `\$\.include", re.DOTALL),
    "Object contains unknown field",
)
T = TypeVar("T", bound=msgspec.Struct)


class ResponseOptions(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """What to answer.

    Attributes
    ----------
    include : tuple of str
        What the answer has besides the predictions.
    alpha : float
        Share of rows whose true class may be missing from the prediction set.
    key : str, optional
        A column that names the rows; labels may come by it later.
    """

    include: tuple[Include, ...] = ("ids",)
    alpha: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.1
    key: str | None = None


class RowsBody(ResponseOptions, kw_only=True):
    """Rows in JSON, and what to answer."""

    rows: list[dict[str, Value]]


class Label(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A label that arrived late: of the prediction with this id, or of the row with this key.

    With the row itself, P(y | x) is tested too.
    """

    label: str | int | float | bool | None
    id: str | None = None
    key: str | int | float | None = None
    row: dict[str, Value] | None = None


class LabelsBody(msgspec.Struct, forbid_unknown_fields=True):
    """Late labels, oldest first, and whether to learn from them after they were counted."""

    labels: list[Label]
    learn: bool = True


class AskBody(msgspec.Struct, forbid_unknown_fields=True):
    """How many rows to label."""

    n: Annotated[int, msgspec.Meta(ge=1, le=_ALL_LABELS)]


_decoder = cache(msgspec.json.Decoder)


def decode_json(body: bytes, kind: type[T], limits: Limits) -> T:
    """Return a body as a structure; say what is wrong with it if it is none."""
    require_values(body, b"{[,", limits)
    try:
        found: T = _decoder(kind).decode(body)
        return found
    except msgspec.ValidationError as error:
        raise _wrong_form(str(error), kind) from None
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise HttpError(400, "malformed_json", f"The body is not valid JSON: {reason}.") from None


def choices_of(options: dict[str, str]) -> ResponseOptions:
    """Return what the address of a request says, whose body has no place for it."""
    include = list(filter(None, options.get("include", "ids").split(",")))
    try:
        return msgspec.convert(options | {"include": include}, ResponseOptions, strict=False)
    except msgspec.ValidationError as error:
        raise _wrong_form(str(error), ResponseOptions) from None


def _wrong_form(error: str, kind: type[msgspec.Struct]) -> HttpError:
    """Return what is wrong with a request, and what is allowed where msgspec does not say it."""
    text = f"The request does not have the right form: {error}"
    if issubclass(kind, ResponseOptions) and (unknown := _WRONG_WORD.match(error)):
        text = f"include has {unknown[1][:40]!r}: use words of {', '.join(get_args(Include))}"
    where = kind if " - at " not in error else Label if kind is LabelsBody else None
    if error.startswith(_WRONG_FIELD) and where is not None:
        text += f"; use {', '.join(where.__struct_fields__)}"
    return HttpError(422, "invalid", f"{text}.")


def require_media_type(content_type: str, known: Sequence[str] = CONTENT_TYPES) -> str:
    """Return the kind of a body without its parameters; refuse one that is not known."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in known:
        what = f"is {kind[:80]!r}" if kind else "is missing"
        text = f"The header Content-Type {what}: use {' or '.join(known)}."
        raise HttpError(415, "unsupported_content_type", text)
    return kind


def decode_rows(body: bytes, content_type: str, limits: Limits) -> RowsBody | pl.DataFrame:
    """Return the rows of a request: as plain values from JSON, as a frame from CSV or Arrow."""
    kind = require_media_type(content_type)
    if kind == JSON:
        decoded = decode_json(body, RowsBody, limits)
        require_table(decoded.rows, limits)
        return decoded
    if kind == "text/csv":
        require_csv(body, limits)
        return _parse(partial(pl.read_csv, infer_schema=False), body, "malformed_csv", "a table in CSV")
    require_arrow_size(body, limits)
    frame = _parse(pl.read_ipc_stream, body, "malformed_arrow", "a stream in Arrow IPC")
    # Rows may share one long text, and would not when each is taken out.
    if frame.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String)).estimated_size() > 2 * limits.body_bytes:
        raise too_large(limits.body_bytes)
    _require_dates(frame)
    return frame


def require_table(rows: Sequence[Sized], limits: Limits) -> None:
    """Refuse rows that are too many or too wide."""
    require_rows(len(rows), limits)
    require_columns(max(map(len, rows), default=0), limits)


def _parse(reader: Callable[[io.BytesIO], pl.DataFrame], body: bytes, code: str, form: str) -> pl.DataFrame:
    try:
        return reader(io.BytesIO(body))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, OSError) as error:
        raise HttpError(400, code, f"The body is not {form}: {_reason(error)}.") from None


def require_csv(body: bytes, limits: Limits) -> None:
    """Refuse a table that is too large, or whose values would move: a column twice, too few or too many fields."""
    require_values(body, b",", limits)
    try:
        lines = csv.reader(io.StringIO(body.decode("utf-8-sig"), newline=""), strict=True)
        head = next(lines, [])
        require_columns(len(head), limits)
        twice = next((name for name, number in Counter(head).items() if number > 1), None)
        if twice is not None:
            lost = "" if b"\n" in body else " It is one line: with curl, --data-binary keeps the ends of lines."
            raise HttpError(422, "wrong_columns", f"The table has the column {twice[:80]!r} twice.{lost}")
        for number, fields in enumerate(lines, start=1):
            require_rows(number, limits)
            if len(fields) != len(head) and (fields or len(head) > 1):
                found = f"{count(len(fields), 'field')}, and the header has {len(head):,}"
                raise HttpError(400, "malformed_csv", f"Line {lines.line_num:,} of the table has {found}.")
    except (csv.Error, UnicodeDecodeError) as error:
        raise HttpError(400, "malformed_csv", f"The body is not a table in CSV: {_reason(error)}.") from None


def _require_dates(frame: pl.DataFrame) -> None:
    """Refuse dates and times that neither Python nor polars can show."""
    for column in frame.select(cs.temporal()).iter_columns():
        day = _UNITS_OF_DAY[getattr(column.dtype, "time_unit", None)]
        is_zoned = getattr(column.dtype, "time_zone", None) is not None  # what is shown may be the day before or after
        low, high = (_FIRST_DAY + is_zoned) * day, (_LAST_DAY + 1 - is_zoned) * day - 1
        if column.dtype == pl.Time:
            low, high = 0, _UNITS_OF_DAY["ns"] - 1
        # Nanoseconds reach from 1677 to 2262 only: their bounds are no 64-bit numbers.
        numbers = column.to_physical().cast(pl.Int64).drop_nulls()
        if not numbers.is_between(max(low, -(2**63)), min(high, 2**63 - 1)).all():
            text = f"Column {column.name[:80]!r} has dates or times beyond the years 1 to 9999."
            raise HttpError(422, "bad_value", text, column=column.name)


def _reason(error: BaseException) -> str:
    first = str(error).strip().split("\n", 1)[0]
    return first.rstrip(".")[:200] or "it cannot be read"


# --- Rows of a request, encoded and checked: what is learned or predicted from them cannot fail for their sake


_UNREADABLE = "The columns of the request cannot be read: check their types."
_PLAIN = ResponseOptions(include=())


@dataclass(frozen=True, slots=True)
class RequestBatch:
    """Encoded rows.

    Attributes
    ----------
    rows : sequence of dict, or polars.DataFrame
        As they came.
    encoder : ColumnEncoder
        By which they were encoded; the model may learn new categories later.
    X : array of shape (n_rows, n_features)
    marks : Marks
    times : array of shape (n_rows,), optional
    keys : list of str, optional
        What the client calls the rows.
    choices : ResponseOptions
    """

    rows: Sequence[dict[str, Any]] | pl.DataFrame
    encoder: ColumnEncoder
    X: NDArray[np.float64]
    marks: Marks
    times: NDArray[np.float64] | None
    keys: list[str] | None
    choices: ResponseOptions


class BatchReader:
    """Reads requests for one model.

    Parameters
    ----------
    table_model : TableModel
    limits : Limits

    Attributes
    ----------
    table_model : TableModel
    columns : list of str
        Those that the model uses.
    salt : int
        Of ids.
    """

    def __init__(self, table_model: TableModel, limits: Limits) -> None:
        self.table_model, self._limits = table_model, limits
        encoder, time = table_model.encoder, table_model.time_column
        self._plain = PlainRowEncoder(encoder)
        self._time = time
        self.columns = encoder.used_columns
        self._widths = table_model.settings.get("widths", {})
        self._numbers = [plan.name for plan in encoder.used if isinstance(plan, NumberColumn)] + list(self._widths)
        others = [*encoder.used_columns, *encoder.constants, *((time.name,) if time is not None else ())]
        self._others = [name for name in dict.fromkeys(others) if name not in self._numbers]
        # Ids of another model are not ids of this one.
        self.salt = zlib.crc32("\n".join([table_model.label, *self.columns]).encode("utf-8", "replace"))

    def read(self, body: bytes, content_type: str, options: dict[str, str]) -> RequestBatch:
        """Return the rows of a request; refuse those that the model cannot use."""
        decoded = decode_rows(body, content_type, self._limits)
        if isinstance(decoded, RowsBody):
            return self.read_rows(decoded.rows, decoded)
        try:
            return self.read_frame(decoded, choices_of(options))
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OverflowError):
            raise HttpError(422, "wrong_columns", _UNREADABLE) from None

    def read_rows(self, rows: Sequence[dict[str, Any]], choices: ResponseOptions = _PLAIN) -> RequestBatch:
        """Return rows of plain values, encoded."""
        _require_some(rows)
        key, encoder = choices.key, self.table_model.encoder
        keys = None if key is None else _keys([row.get(key) for row in rows], key)
        features = self._plain.encode(rows) if self._time is None else None
        if features is not None:
            return RequestBatch(rows, encoder, features.X, features.marks, None, keys, choices)
        return self._batch(self._frame_of(rows), keys, choices)

    def read_frame(self, frame: pl.DataFrame, choices: ResponseOptions) -> RequestBatch:
        """Return the rows of a frame, encoded."""
        _require_some(frame)
        keys, key = None, choices.key
        if key is not None:
            is_there = key in frame.columns and not frame[key].dtype.is_nested()
            keys = _keys(frame[key].to_list() if is_there else [None], key)
        return self._batch(frame, keys, choices)

    def read_ask(self, body: bytes, content_type: str) -> AskBody:
        """Return how many rows to label."""
        require_media_type(content_type, (JSON,))
        return decode_json(body, AskBody, self._limits)

    def read_labels(self, body: bytes, content_type: str) -> LabelsBody:
        """Return late labels, each place once; refuse those that contradict each other or cannot be used."""
        require_media_type(content_type, (JSON,))
        asked = decode_json(body, LabelsBody, self._limits)
        labels = asked.labels
        if not labels:
            raise HttpError(422, "no_labels", "The request has no labels.")
        if len(labels) > _ALL_LABELS:
            raise HttpError(413, "too_many_rows", f"A request may have {_ALL_LABELS:,} labels.")
        seen: dict[tuple[bool, str], Label] = {}
        form = self.table_model.form
        for number, each in enumerate(labels):
            if (each.id is None) == (each.key is None):
                raise HttpError(422, "invalid", f"Label {number} (counted from 0) needs an id or a key, one of them.")
            if each.row is not None:
                self._require_row(each.row, number)
            place = (each.id is None, each.id if each.id is not None else key_text(each.key))
            before = seen.setdefault(place, each)
            if label_text(before.label, form) != label_text(each.label, form):
                raise HttpError(
                    422, "contradiction", f"Label {number} (counted from 0) contradicts another label of its row."
                )
        return LabelsBody(list(seen.values()), asked.learn)

    def remembered(self, rows: Sequence[dict[str, Any]] | pl.DataFrame) -> list[str]:
        """Return rows as the model's folder remembers them, so that it can learn from their labels."""
        frame = rows if isinstance(rows, pl.DataFrame) else self._frame_of(rows)
        return features_to_json(spread_vectors(frame, self._widths)[0], self.table_model.encoder).to_list()

    def _frame_of(self, rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
        return frame_of_rows(rows, self._numbers, self._others)

    def _require_row(self, row: dict[str, Any], number: int) -> None:
        if any(name in row for name in self.columns):
            self._usable(self._prepared(self._frame_of([row])), number)
        else:
            raise HttpError(422, "invalid", f"The row of label {number} (counted from 0) has no column of the model.")

    def _batch(self, frame: pl.DataFrame, keys: list[str] | None, choices: ResponseOptions) -> RequestBatch:
        encoder = self.table_model.encoder
        features = self._usable(self._prepared(frame))
        times = None if self._time is None else self._time.seconds(frame)
        return RequestBatch(frame, encoder, features.X, features.marks, times, keys, choices)

    def _prepared(self, frame: pl.DataFrame) -> Features:
        try:
            return self.table_model.prepare(frame)
        except DataError as error:
            message = str(error).replace("The frame", "The request").replace("of the frame", "of the request")
            raise HttpError(422, "wrong_columns", message) from None
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
            raise HttpError(422, "wrong_columns", _UNREADABLE) from None

    def _usable(self, features: Features, label: int | None = None) -> Features:
        if features.bad_values:
            bad = features.bad_values[0]
            where = f"Row {bad.row}" if label is None else f"The row of label {label}"
            raise HttpError(
                422,
                "bad_value",
                f"{where} (counted from 0), column {bad.column!r}: {bad.reason}; fix or remove the row.",
                row=bad.row if label is None else label,
                column=bad.column,
            )
        return features


def key_text(value: Any) -> str:
    """Return a key or a label as text: 7 and 7.0 are the same.

    Examples
    --------
    >>> key_text(7.0), key_text("a"), key_text(True)
    ('7', 'a', 'true')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)


def label_text(label: Any, form: LabelForm) -> str | None:
    """Return a label as text; JSON's true and false are the classes True and False, however those are written."""
    if label is None:
        return None
    text = key_text(label)
    if isinstance(label, bool) and isinstance(form, ClassForm):
        return next((name for name in form.names if name.lower() == text), text)
    return text


def _require_some(rows: Sized) -> None:
    if not len(rows):
        raise HttpError(422, "no_rows", "The request has no rows.")


def _keys(values: list[Any], key: str) -> list[str]:
    for row, value in enumerate(values):
        if value is None or isinstance(value, (list, dict, bytes)):
            raise HttpError(
                422, "no_key", f"Row {row} (counted from 0) has no value in the key column {key!r}.", row=row
            )
    return [key_text(value) for value in values]


# --- The ids that predictions carry: a label that arrives late brings back what was predicted, and when


_ROW_BITS = 20


class MadePrediction(NamedTuple):
    """What was predicted, as text, after how many rounds, and its line in the store; None if it is not kept there."""

    prediction: str
    round: int
    line: int | None


def line_of(record: int, row: int) -> int:
    """Return the line in the store of a row of a record of the log."""
    return record << _ROW_BITS | row


def id_of_line(line: int, number: int, prediction: str, salt: int) -> str:
    """Return the id of a prediction in the store, as `make_id` made it."""
    return make_id(f"s{line >> _ROW_BITS}", line & (1 << _ROW_BITS) - 1, number, prediction, salt)


def make_id(origin: str, row: int, number: int, prediction: Any, salt: int) -> str:
    """Return the id of a prediction.

    Parameters
    ----------
    origin : str
        What no other request has: s and the number of its record in the log, or p and what is drawn at random.
    row : int
        Of the request.
    number : int
        The round.
    prediction : object
    salt : int
        Of the model.

    Examples
    --------
    >>> made = make_id("s1", 2, 7, "no", 0)
    >>> read_id(made, 0)
    MadePrediction(prediction='no', round=7, line=1048578)
    >>> id_of_line(1048578, 7, "no", 0) == made, read_id(made, 1) is None
    (True, True)
    """
    content = f"{origin}.{row}.{number}.{_encoded(str(prediction))}"
    return f"{content}.{zlib.crc32(content.encode(), salt):08x}"


@lru_cache(maxsize=1024)
def _encoded(text: str) -> str:
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_id(text: str, salt: int) -> MadePrediction | None:
    """Return what an id says; None if it is not an id of this model."""
    content, _, check = text.rpartition(".")
    if f"{zlib.crc32(content.encode('utf-8', 'replace'), salt):08x}" != check:
        return None
    try:
        origin, row, number, encoded = content.split(".")
        prediction = urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
        line = line_of(int(origin[1:]), int(row)) if origin.startswith("s") else None
        return MadePrediction(prediction, int(number), line)
    except (ValueError, msgspec.DecodeError):
        return None


# --- Predictions as answers: the values that accous adapt writes, in JSON


_DECIMALS = 6


def plain_predictions(form: LabelForm, result: RoundResult) -> list[Any]:
    """Return the prediction of each row."""
    return list(form.predictions(form.answers(result.scores)).tolist())


def prediction_content(
    form: LabelForm, result: RoundResult, batch: RequestBatch, *, origin: str, salt: int
) -> dict[str, Any]:
    """Return the answer to a request but for prediction sets, ready for JSON.

    Parameters
    ----------
    form : LabelForm
        Of the model that predicted.
    result : RoundResult
    batch : RequestBatch
        With the parts of the answer that the client wants.
    origin : str
        What the ids of this request begin with.
    salt : int
        Of the ids.
    """
    predictions = plain_predictions(form, result)
    content: dict[str, Any] = {"round": result.number, "predictions": predictions}
    if "ids" in batch.choices.include:
        content["ids"] = [make_id(origin, row, result.number, each, salt) for row, each in enumerate(predictions)]
    if "probabilities" in batch.choices.include and isinstance(form, ClassForm):
        shares = np.round(form.probabilities(result.scores), _DECIMALS)
        content["classes"], content["probabilities"] = form.names, shares.tolist()
    if isinstance(form, NumberForm):
        shown = form.shown(result.scores)
        content["intervals"] = [list(ends) for ends in zip(shown["low"], shown["high"], strict=True)]
    if "ratio" in batch.choices.include:
        content["ratio"] = np.round(result.ratios, _DECIMALS).tolist()
    return content


def prediction_sets(model: Any, batch: RequestBatch) -> dict[str, list[list[Any]]]:
    """Return the classes of each row's prediction set, if the client wants them.

    Parameters
    ----------
    model : AdaptiveClassifier or AdaptiveRegressor
        One that stays in its round meanwhile.
    batch : RequestBatch
    """
    if "sets" not in batch.choices.include:
        return {}
    if not isinstance(form_of(model.task_), ClassForm):
        raise HttpError(422, "no_sets", "The model predicts numbers, which have no prediction sets.")
    try:
        found = model.predict_set(batch.X, alpha=batch.choices.alpha)
    except AccousError as error:
        raise HttpError(422, "no_sets", str(error)) from None
    classes = model.classes_.tolist()
    return {"sets": [[classes[number] for number in np.flatnonzero(row)] for row in found]}
