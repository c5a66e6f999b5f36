"""Other protocols: the Open Inference Protocol and MLflow's invocations."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from accous.service.bodies import (
    JSON,
    BatchReader,
    HttpError,
    Limits,
    RequestBatch,
    Value,
    decode_json,
    plain_predictions,
    require_columns,
    require_media_type,
    require_rows,
    require_table,
    respond_json,
)
from accous.table.columns import NumberColumn
from accous.table.kinds import ClassForm, LabelForm
from accous.text import count

if TYPE_CHECKING:
    from accous.service.app import Service

# --- The Open Inference Protocol, version 2, for predictions: what clients of KServe, MLServer and Triton speak


VERSION = "1"
_TYPES = {
    "BOOL": "?", "UINT8": "u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8", "INT8": "i1", "INT16": "<i2",
    "INT32": "<i4", "INT64": "<i8", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8",
}  # fmt: skip
_OUTPUTS = ("predict", "probabilities", "ratio")


class Tensor(msgspec.Struct):
    """A column of rows, or all of them."""

    name: str
    shape: list[int]
    datatype: str
    data: list[Any] | None = None
    parameters: dict[str, Any] = {}


class Output(msgspec.Struct):
    """A part of the response that is wanted."""

    name: str
    parameters: dict[str, Any] = {}


class InferBody(msgspec.Struct):
    """A request of the Open Inference Protocol."""

    inputs: list[Tensor]
    id: str | None = None
    parameters: dict[str, Any] = {}
    outputs: list[Output] = []


class Inference:
    """Answers clients of the protocol; nothing is learned.

    Parameters
    ----------
    service : Service
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    async def server(self, _request: Request) -> Response:
        """Describe the server."""
        return respond_json({"name": "accous", "version": VERSION, "extensions": ["binary_tensor_data"]})

    async def live(self, _request: Request) -> Response:
        """Whether the server is alive."""
        return respond_json({"live": True})

    async def ready(self, _request: Request) -> Response:
        """Whether the server is ready."""
        self._service.require_ready()
        return respond_json({"ready": True})

    async def model_ready(self, request: Request) -> Response:
        """Whether the model is ready."""
        self._require_name(request)
        self._service.require_ready()
        return respond_json({"name": self._service.name, "ready": True})

    async def model(self, request: Request) -> Response:
        """Describe the model's inputs and outputs."""
        self._require_name(request)
        reader = self._service.reader()
        encoder, form = reader.table_model.encoder, reader.table_model.form
        kinds = {plan.name: "FP64" if isinstance(plan, NumberColumn) else "BYTES" for plan in encoder.used}
        outputs: list[dict[str, Any]] = [{"name": "predict", "datatype": _type_of(form), "shape": [-1]}]
        if isinstance(form, ClassForm):
            outputs.append({"name": "probabilities", "datatype": "FP64", "shape": [-1, len(form.names)]})
        outputs.append({"name": "ratio", "datatype": "FP64", "shape": [-1]})
        inputs = [{"name": name, "datatype": kinds[name], "shape": [-1]} for name in reader.columns]
        content = {"name": self._service.name, "versions": [VERSION], "platform": "accous"}
        return respond_json(content | {"inputs": inputs, "outputs": outputs})

    async def infer(self, request: Request) -> Response:
        """Predict rows."""
        self._require_name(request)
        head = request.headers.get("inference-header-content-length", "")
        return await self._service.bodies.read(request, partial(self._infer, head))

    def _infer(self, head: str, body: bytes) -> Response:
        reader, limits = self._service.reader(), self._service.limits
        asked, rest = _split(body, head, limits)
        require_columns(len(asked.inputs), limits)
        columns = _columns(asked, rest, reader.columns)
        names, values = list(columns), list(columns.values())
        require_rows(len(values[0]) if values else 0, limits)
        rows = [dict(zip(names, each, strict=True)) for each in zip(*values, strict=True)]
        batch = reader.read_rows(rows)
        outputs = self._outputs(reader, batch, [output.name for output in asked.outputs])
        content: dict[str, Any] = {"model_name": self._service.name, "model_version": VERSION, "outputs": outputs}
        return respond_json(content if asked.id is None else content | {"id": asked.id})

    def _outputs(self, reader: BatchReader, batch: RequestBatch, wanted: list[str]) -> list[dict[str, Any]]:
        needs_ratio = not wanted or "ratio" in wanted
        result, form = self._service.predict(reader, batch, needs_ratio=needs_ratio), reader.table_model.form
        n_rows = len(batch.X)
        predictions = plain_predictions(reader.table_model.form, result)
        found: dict[str, tuple[str, list[int], list[Any]]] = {
            "predict": (_type_of(form), [n_rows], predictions),
            "ratio": ("FP64", [n_rows], result.ratios.tolist()),
        }
        if isinstance(form, ClassForm):
            shares = form.probabilities(result.scores)
            found["probabilities"] = "FP64", list(shares.shape), shares.ravel().tolist()
        unknown = next((name for name in wanted if name not in found), None)
        if unknown is not None:
            known = ", ".join(name for name in _OUTPUTS if name in found)
            raise HttpError(422, "invalid", f"There is no output {unknown[:40]!r}: use {known}.")
        return [
            {"name": name, "datatype": found[name][0], "shape": found[name][1], "data": found[name][2]}
            for name in wanted or [name for name in _OUTPUTS if name in found]
        ]

    async def invoke(self, request: Request) -> Response:
        """Predict rows for a client of MLflow."""
        content_type = request.headers.get("content-type", "")
        return await self._service.bodies.read(request, partial(self._invoke, content_type))

    def _invoke(self, content_type: str, body: bytes) -> Response:
        reader, limits = self._service.reader(), self._service.limits
        if require_media_type(content_type) == JSON:
            asked = decode_json(body, Invocation, limits)
            batch = reader.read_rows(_rows(asked, reader.columns, limits))
        else:
            batch = reader.read(body, content_type, {})
        result = self._service.predict(reader, batch, needs_ratio=False)
        return respond_json({"predictions": plain_predictions(reader.table_model.form, result)})

    def _require_name(self, request: Request) -> None:
        if request.path_params["name"] != self._service.name:
            raise HttpError(404, "no_such_model", f"There is one model here, {self._service.name!r}.")
        if request.path_params.get("version", VERSION) != VERSION:
            raise HttpError(404, "no_such_version", f"There is one version of this model, {VERSION!r}.")


def _type_of(form: LabelForm) -> str:
    predictions = form.classes if isinstance(form, ClassForm) else np.empty(0)
    return {"i": "INT64", "u": "UINT64", "f": "FP64", "b": "BOOL"}.get(predictions.dtype.kind, "BYTES")


def _split(body: bytes, head: str, limits: Limits) -> tuple[InferBody, bytes]:
    """Return the request in JSON, and the binary data behind it."""
    if not head:
        return decode_json(body, InferBody, limits), b""
    if not (head.isascii() and head.isdigit() and len(head) < 12) or int(head) > len(body):
        raise HttpError(400, "malformed_tensor", "Inference-Header-Content-Length is longer than the body.")
    return decode_json(body[: int(head)], InferBody, limits), body[int(head) :]


def _columns(request: InferBody, rest: bytes, names: list[str]) -> dict[str, list[Any]]:
    """Return the values of each column."""
    columns: dict[str, list[Any]] = {}
    for tensor in request.inputs:
        size = tensor.parameters.get("binary_data_size")
        if size is not None:
            if not isinstance(size, int) or not 0 <= size <= len(rest):
                raise _wrong(tensor, "its binary data is incomplete")
            values, rest = _from_binary(tensor, rest[:size]), rest[size:]
        else:
            values = _from_json(tensor)
        n_rows, width = _shape(tensor, len(values), len(names))
        if width == 1:
            columns[tensor.name] = values
        else:
            columns |= {name: values[place::width] for place, name in enumerate(names)}
        if len(next(iter(columns.values()))) != n_rows:
            raise _wrong(tensor, "it has a different number of rows from the first")
    return columns


def _shape(tensor: Tensor, n_values: int, n_columns: int) -> tuple[int, int]:
    shape = tensor.shape
    if len(shape) not in (1, 2) or any(not 0 <= each < 2**31 for each in shape):
        raise _wrong(tensor, "its shape must be [rows], [rows, 1] or [rows, columns]")
    width = shape[1] if len(shape) == 2 else 1
    if shape[0] * width != n_values:
        raise _wrong(tensor, f"its shape says {count(shape[0] * width, 'value')}, and it has {n_values:,}")
    if width not in (1, n_columns):
        raise _wrong(tensor, f"it has {count(width, 'column')}, and the model has {n_columns:,}")
    return shape[0], width


def _from_json(tensor: Tensor) -> list[Any]:
    if tensor.data is None:
        raise _wrong(tensor, "it has no data")
    if tensor.datatype not in _TYPES and tensor.datatype != "BYTES":
        raise _wrong(tensor, f"its datatype {tensor.datatype[:20]!r} is not known")
    values = tensor.data
    if values and all(isinstance(each, list) for each in values):
        values = [value for each in values for value in each]
    if not all(value is None or isinstance(value, (bool, int, float, str)) for value in values):
        raise _wrong(tensor, "its data must be numbers or texts")
    return values


def _from_binary(tensor: Tensor, content: bytes) -> list[Any]:
    if tensor.datatype == "BYTES":
        return _texts(tensor, content)
    kind = _TYPES.get(tensor.datatype)
    if kind is None or len(content) % np.dtype(kind).itemsize:
        raise _wrong(tensor, f"its binary data is not of the datatype {tensor.datatype[:20]!r}")
    found: list[Any] = np.frombuffer(content, dtype=kind).tolist()
    # What is missing is NaN in an array.
    return [None if isinstance(value, float) and value != value else value for value in found]  # noqa: PLR0124


def _texts(tensor: Tensor, content: bytes) -> list[Any]:
    texts, place = [], 0
    try:
        while place < len(content):
            (length,) = struct.unpack_from("<I", content, place)
            text = content[place + 4 : place + 4 + length]
            if len(text) != length:
                raise _wrong(tensor, "its last text is incomplete")
            texts.append(text.decode())
            place += 4 + length
    except (struct.error, UnicodeDecodeError):
        raise _wrong(tensor, "its binary data is not a list of texts in UTF-8") from None
    return texts


def _wrong(tensor: Tensor, what: str) -> HttpError:
    return HttpError(422, "malformed_tensor", f"The tensor {tensor.name[:80]!r} cannot be used: {what}.")


# --- MLflow's /invocations: the forms that its scoring server takes, answered as it does


class Split(msgspec.Struct, forbid_unknown_fields=True):
    """A table with its columns apart, as pandas writes one."""

    columns: list[str]
    data: list[list[Value]]
    index: list[Any] | None = None


class Invocation(msgspec.Struct, forbid_unknown_fields=True):
    """A request of MLflow's clients."""

    dataframe_split: Split | None = None
    dataframe_records: list[dict[str, Value]] | None = None
    instances: list[dict[str, Value] | list[Value]] | None = None
    inputs: dict[str, list[Value]] | None = None
    params: dict[str, Any] | None = None


def _rows(asked: Invocation, names: list[str], limits: Limits) -> list[dict[str, Any]]:
    forms = (asked.dataframe_split, asked.dataframe_records, asked.instances, asked.inputs)
    if sum(form is not None for form in forms) != 1:
        raise HttpError(422, "invalid", "Use one of dataframe_split, dataframe_records, instances and inputs.")
    rows: Sequence[Any] = asked.dataframe_records or asked.instances or ()
    try:
        if asked.dataframe_split is not None:
            names, rows = asked.dataframe_split.columns, asked.dataframe_split.data
        if asked.inputs is not None:
            names, rows = list(asked.inputs), list(zip(*asked.inputs.values(), strict=True))
        require_table(rows, limits)
        return [row if isinstance(row, dict) else dict(zip(names, row, strict=True)) for row in rows]
    except ValueError:
        text = "Every row must have one value for each column, and every column one for each row."
        raise HttpError(422, "invalid", text) from None
