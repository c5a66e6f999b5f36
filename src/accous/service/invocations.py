"""MLflow's ``/invocations``: the forms that its scoring server takes, answered as it does."""

from __future__ import annotations

from typing import Any

import msgspec

from accous.service.answers import Answer, json_answer
from accous.service.batches import Batch
from accous.service.bodies import Value, decode_json, decode_rows, media_type, require_table
from accous.service.calls import Call
from accous.service.large_bodies import read_aside
from accous.service.limits import Limits
from accous.service.prediction_answers import plain_predictions
from accous.service.refusals import Refusal
from accous.service.service import Served, Service
from accous.service.sizes import require_columns, require_rows
from accous.text import count

__all__ = ["Invocations"]


class _Split(msgspec.Struct, forbid_unknown_fields=True):
    columns: list[str]
    data: list[list[Value]]
    index: list[Any] | None = None


class _Request(msgspec.Struct, forbid_unknown_fields=True):
    dataframe_split: _Split | None = None
    dataframe_records: list[dict[str, Value]] | None = None
    instances: list[dict[str, Value] | list[Value]] | None = None
    inputs: dict[str, list[Value]] | None = None
    params: dict[str, Any] | None = None


class Invocations:
    """Answers clients of MLflow; nothing is learned.

    Parameters
    ----------
    service : Service
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    async def invoke(self, call: Call) -> Answer:
        """Predict rows."""
        body = await call.body()
        return await read_aside(len(body), self._invoke, body, call.header(b"content-type"))

    def _invoke(self, body: bytes, content_type: str) -> Answer:
        served = self._service.served()
        batch = self._read(served, body, content_type)
        played = self._service.predict(served, batch, needs_ratio=False)
        return json_answer({"predictions": plain_predictions(served.table_model.kind, played)})

    def _read(self, served: Served, body: bytes, content_type: str) -> Batch:
        limits = self._service.limits
        if media_type(content_type) != "application/json":
            frame = decode_rows(body, content_type, limits)
            assert not isinstance(frame, msgspec.Struct)
            return served.reader.read_frame(frame)
        request = decode_json(body, _Request, limits)
        _require_size(request, limits)
        return served.reader.read_rows(_rows(request, served.reader.columns))


def _require_size(request: _Request, limits: Limits) -> None:
    require_table(request.dataframe_records or request.instances or (), limits)
    if request.dataframe_split is not None:
        require_columns(len(request.dataframe_split.columns), limits)
        require_table(request.dataframe_split.data, limits)
    if request.inputs is not None:
        require_columns(len(request.inputs), limits)
        require_rows(max(map(len, request.inputs.values()), default=0), limits)


def _rows(request: _Request, names: list[str]) -> list[dict[str, Any]]:
    forms = (request.dataframe_split, request.dataframe_records, request.instances, request.inputs)
    if sum(form is not None for form in forms) != 1:
        raise Refusal(422, "invalid", "Use one of dataframe_split, dataframe_records, instances and inputs.")
    if request.dataframe_records is not None:
        return request.dataframe_records
    if request.dataframe_split is not None:
        split = request.dataframe_split
        return [_named(split.columns, values, row) for row, values in enumerate(split.data)]
    if request.inputs is not None:
        if len({len(values) for values in request.inputs.values()}) > 1:
            raise Refusal(422, "invalid", "The columns of inputs have different numbers of rows.")
        columns = request.inputs
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    rows = request.instances or []
    return [each if isinstance(each, dict) else _named(names, each, row) for row, each in enumerate(rows)]


def _named(names: list[str], values: list[Any], row: int) -> dict[str, Any]:
    if len(values) != len(names):
        raise Refusal(
            422,
            "invalid",
            f"Row {row} (counted from 0) has {count(len(values), 'value')} for {count(len(names), 'column')}.",
        )
    return dict(zip(names, values, strict=True))
