"""The endpoints, what they answer, and the interface that describes them."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import re
import secrets
import threading
import time
from base64 import b64encode
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from html import escape
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs

import polars as pl

from accous.report.page import page_asset
from accous.service.auth import COOKIE, Gate, cookie_of
from accous.service.bodies import CHOICES, Batch, BatchReader, make_ids, prediction_content, prediction_sets
from accous.service.http import HTML, Answer, Arriving, Call, Limits, Metrics, Refusal, Send, json_answer, read_aside
from accous.service.learner import Learner, Parsed, Waiting
from accous.service.live import Events, ReadingTimer, read_event_id
from accous.service.log import Record
from accous.table.columns import CategoryColumn, DateColumn, NumberColumn
from accous.table.model import RoundResult, TableModel

# --- The parts of a service that its endpoints use: the model, and whoever learns, reads and counts


@dataclass(frozen=True)
class Served:
    """A model to predict with, and the reader of its rows."""

    table_model: TableModel
    reader: BatchReader


@dataclass(kw_only=True)
class Service:
    """What the endpoints use.

    Attributes
    ----------
    name : str
        Of the model, in addresses.
    served : callable
        Returns the model to predict with.
    limits : Limits
    gate : Gate
    metrics : Metrics
    events : Events
    learner : Learner, optional
        None in a worker, which only predicts.
    readings : ReadingTimer, optional
        None in a worker.
    learns_first : bool
        Whether rounds learn from their rows before they predict them.
    is_ready : bool
    n_predicted : int
        Rows predicted since the start.
    arriving : Arriving
        Counts the bytes of bodies that have come in part.
    """

    name: str
    served: Callable[[], Served]
    limits: Limits
    gate: Gate
    metrics: Metrics
    events: Events = field(default_factory=Events)
    learner: Learner | None = None
    readings: ReadingTimer | None = None
    learns_first: bool = False
    is_ready: bool = True
    n_predicted: int = 0
    arriving: Arriving = field(init=False)
    # Ids of predictions in different processes differ.
    _origin: str = field(default_factory=lambda: f"p{secrets.token_hex(6)}")
    _n_predictions: int = 0
    # Small requests are predicted in the event loop, others in threads.
    _counting: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        self.arriving = Arriving(self.limits.arriving_bytes)

    def require_learner(self) -> Learner:
        """Return who learns; refuse in a worker."""
        if self.learner is None:
            raise Refusal(
                404, "reads_only", "This process only predicts: send batches and labels to the service's own port."
            )
        return self.learner

    def require_readings(self) -> ReadingTimer:
        """Return who reads the model; refuse in a worker."""
        if self.readings is None:
            raise Refusal(404, "reads_only", "This process only predicts: ask the service's own port.")
        return self.readings

    def counts(self) -> dict[str, float]:
        """Return what was done so far."""
        return {"rounds": float(self.served().table_model.model.n_rounds_), "predicted_rows": float(self.n_predicted)}

    def predict(self, served: Served, batch: Batch, *, needs_ratio: bool, model: Any = None) -> RoundResult:
        """Predict rows, all from one round; of this copy of the model, if there is one."""
        played = served.table_model.predict_rows(batch.X, needs_ratio=needs_ratio, model=model)
        self.metrics.predicted_rows.inc(len(batch.X))
        with self._counting:
            self.n_predicted += len(batch.X)
        return played

    def predicted(self, served: Served, batch: Batch) -> dict[str, Any]:
        """Return the predictions of rows, ready for JSON."""
        # One copy for all parts: learning may go on between them.
        model = copy(served.table_model.model)
        played = self.predict(served, batch, needs_ratio="ratio" in batch.include, model=model)
        with self._counting:
            self._n_predictions += 1
            origin = f"{self._origin}-{self._n_predictions}"
        content = prediction_content(served.table_model, played, batch, origin=origin, salt=served.reader.salt)
        sets = prediction_sets(model, batch)
        return content if sets is None else content | {"sets": sets}


class Throughput:
    """What a service did in a second, between two questions.

    Parameters
    ----------
    counts : callable
        Returns named counts that only grow.
    """

    def __init__(self, counts: Callable[[], dict[str, float]]) -> None:
        self._counts, self._before, self._at = counts, counts(), time.monotonic()

    def __call__(self) -> dict[str, float]:
        """Return each count's growth in a second, since the last call."""
        counts, now = self._counts(), time.monotonic()
        seconds = max(now - self._at, 1e-3)
        found = {name: round((value - self._before[name]) / seconds, 1) for name, value in counts.items()}
        self._before, self._at = counts, now
        return found


# --- Sends the stream of events until the reader leaves or the service stops


EVENT_STREAM = b"text/event-stream; charset=utf-8"


async def stream_events(service: Service, call: Call, send: Send, headers: list[tuple[bytes, bytes]]) -> None:
    """Send events as they come.

    Parameters
    ----------
    service : Service
    call : Call
        With the last event that the reader saw, in the header ``Last-Event-ID``.
    send
        Of ASGI.
    headers : list of (name, value)
    """
    last = read_event_id(call.header(b"last-event-id"))
    kind = (b"content-type", EVENT_STREAM)
    # Proxies that collect an answer before they pass it on must not do so here.
    start = [kind, (b"x-accel-buffering", b"no"), *headers]
    await send({"type": "http.response.start", "status": 200, "headers": start})
    service.metrics.streams.inc()
    sending = asyncio.ensure_future(_send_all(service, last, send))
    leaving = asyncio.ensure_future(call.wait_for_leaving())
    try:
        await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        service.metrics.streams.dec()
        for task in (sending, leaving):
            task.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)


async def _send_all(service: Service, last: tuple[int, int] | None, send: Send) -> None:
    async for content in service.events.follow(last):
        await send({"type": "http.response.body", "body": content, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


# --- Examples for one model: an ordinary row in each of the forms that the service takes, and what it answers


ARROW_EXAMPLE = "/docs/example.arrow"


class Examples:
    """Makes the examples.

    Parameters
    ----------
    service : Service
    """

    def __init__(self, service: Service) -> None:
        served = service.served()
        self._service = service
        self._table_model, self._salt = served.table_model, served.reader.salt
        self.row = {plan.name: _ordinary(plan) for plan in self._table_model.encoder.used}

    @property
    def predict(self) -> dict[str, Any]:
        """Rows to predict."""
        return {"rows": [self.row], "include": ["ids", "probabilities", "ratio"]}

    @property
    def step(self) -> dict[str, Any]:
        """Rows to predict and to learn from."""
        return {"rows": [self.row, self.row]}

    @property
    def adapt(self) -> dict[str, Any]:
        """Rows to learn from."""
        return {"rows": [self.row]}

    @property
    def labels(self) -> dict[str, Any]:
        """A late label."""
        label = min(self._table_model.model.task_.truths.tolist())
        return {"labels": [{"id": make_ids("p0", 0, [label], self._salt)[0], "label": label}]}

    @property
    def csv(self) -> str:
        """The same as a table."""
        lines = (self.row.keys(), self.row.values())
        return "".join(",".join(_field(value) for value in line) + "\n" for line in lines)

    @property
    def infer(self) -> dict[str, Any]:
        """The same in the Open Inference Protocol."""
        inputs = [
            {"name": name, "shape": [1], "datatype": "FP64" if isinstance(value, float) else "BYTES", "data": [value]}
            for name, value in self.row.items()
        ]
        return {"inputs": inputs, "outputs": [{"name": "predict"}]}

    @property
    def invocation(self) -> dict[str, Any]:
        """The same for MLflow."""
        return {"dataframe_records": [self.row]}

    @property
    def arrow(self) -> bytes:
        """The same in Arrow IPC."""
        content = io.BytesIO()
        pl.DataFrame([self.row]).write_ipc_stream(content)
        return content.getvalue()

    # --- answers ---

    @cached_property
    def predicted(self) -> dict[str, Any]:
        """The answer to the rows of `predict`."""
        reader = self._service.served().reader
        batch = reader.read_rows([self.row], include=("ids", "probabilities", "ratio"))
        played = self._table_model.predict_rows(batch.X)
        return prediction_content(self._table_model, played, batch, origin="p1", salt=self._salt)

    @property
    def stepped(self) -> dict[str, Any]:
        """The answer to the rows of `step`."""
        number, prediction = self._n_rounds + 1, self._prediction
        ids = make_ids("s1", number, [prediction, prediction], self._salt)
        return {"round": number, "predictions": [prediction, prediction], "ids": ids}

    @property
    def adapted(self) -> dict[str, Any]:
        """The answer to the rows of `adapt`."""
        return {"round": self._n_rounds + 1, "rows": 1}

    @property
    def counted(self) -> dict[str, Any]:
        """The answer to `labels`."""
        names = ("labels", "counted", "counted_before", "before_joining", "without_label", "unmatched")
        counts = dict.fromkeys(names, 0) | {"labels": 1, "counted": 1}
        return {"round": self._n_rounds, **counts, "labelled_rows": 1, "unknown_labels": {}}

    @property
    def state(self) -> dict[str, Any] | None:
        """The state as it was read last; None in a worker."""
        readings = self._service.readings
        return None if readings is None else readings.latest.state

    @property
    def trust(self) -> dict[str, Any] | None:
        """The three answers as they were read last."""
        readings = self._service.readings
        return None if readings is None else readings.latest.trust()

    @property
    def history(self) -> dict[str, Any] | None:
        """The last round."""
        readings = self._service.readings
        return None if readings is None else readings.latest.history(max(0, self._n_rounds - 1))

    events = 'id: 12.0\nevent: drift\ndata: {"round":12,"kind":"inputs","columns":["x1"],"size":0.4}\n\n'
    page = "<!doctype html>..."
    metrics = "# HELP accous_rounds Rounds that the model has learned from.\naccous_rounds 12.0\n"

    @property
    def welcome(self) -> dict[str, Any]:
        """The answer of a service that is ready."""
        return {"status": "ready", "rounds": self._n_rounds}

    @property
    def inferred(self) -> dict[str, Any]:
        """The answer to `infer`."""
        kind = "BYTES" if isinstance(self._prediction, str) else "FP64"
        output = {"name": "predict", "datatype": kind, "shape": [1], "data": [self._prediction]}
        return {"model_name": self._service.name, "model_version": "1", "outputs": [output]}

    @property
    def server(self) -> dict[str, Any]:
        """What the Open Inference Protocol says of the server."""
        return {"name": "accous", "version": "1", "extensions": ["binary_tensor_data"]}

    @property
    def model(self) -> dict[str, Any]:
        """What the Open Inference Protocol says of the model."""
        inputs = [{"name": each["name"], "datatype": each["datatype"], "shape": [-1]} for each in self.infer["inputs"]]
        outputs = [{"name": "predict", "datatype": self.inferred["outputs"][0]["datatype"], "shape": [-1]}]
        content = {"name": self._service.name, "versions": ["1"], "platform": "accous"}
        return content | {"inputs": inputs, "outputs": outputs}

    @property
    def ready(self) -> dict[str, Any]:
        """What the Open Inference Protocol says of a model that is ready."""
        return {"name": self._service.name, "ready": True}

    @property
    def invoked(self) -> dict[str, Any]:
        """The answer to `invocation`."""
        return {"predictions": [self._prediction]}

    @property
    def _n_rounds(self) -> int:
        return int(self._table_model.model.n_rounds_)

    @property
    def _prediction(self) -> Any:
        return self.predicted["predictions"][0]


def _ordinary(plan: Any) -> Any:
    if isinstance(plan, NumberColumn):
        return float(f"{plan.median:.6g}")
    if isinstance(plan, DateColumn):
        return datetime(2026, 1, 31, 12, 30, 15, tzinfo=UTC).strftime(plan.form or "%Y-%m-%d %H:%M:%S")
    return plan.levels[0] if isinstance(plan, CategoryColumn) and plan.levels else ""


def _field(value: Any) -> str:
    text = str(value)
    return '"' + text.replace('"', '""') + '"' if any(each in text for each in ',"\n\r') else text


# --- The forms of requests and answers, as JSON Schema for the description of the interface


Schema = dict[str, Any]
COUNT: Schema = {"type": "integer", "minimum": 0}


def schemas_of(service: Service) -> Schema:
    """Return the forms that have a name, for this model."""
    return {
        "Row": _row(service),
        "Rows": _rows_schema(has_key=True),
        "RowsToPredict": _rows_schema(has_key=False),
        "Labels": _labels(),
        "Predictions": _predictions(),
        "Error": _error(),
        "ProtocolError": _protocol_error(),
    }


def _row(service: Service) -> Schema:
    properties: Schema = {}
    for plan in service.served().table_model.encoder.used:
        if isinstance(plan, NumberColumn):
            properties[plan.name] = {"type": ["number", "null"]}
        elif isinstance(plan, DateColumn):
            # The form is not a regular expression: one date stands for all.
            shown = datetime(2026, 1, 31, 12, 30, 15, tzinfo=UTC).strftime(plan.form or "%Y-%m-%d %H:%M:%S")
            properties[plan.name] = {"type": ["string", "null"], "enum": [shown, None], "examples": [shown]}
        elif isinstance(plan, CategoryColumn):
            properties[plan.name] = {"type": ["string", "null"], "examples": plan.levels[:5]}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": _value()}


def _value() -> Schema:
    return {"type": ["number", "string", "boolean", "null"]}


def _rows_schema(*, has_key: bool) -> Schema:
    key = {"type": ["string", "null"], "description": "A column that names the rows; labels may come by it."}
    words = {"type": "array", "items": {"enum": ["ids", "probabilities", "ratio", "sets"]}}
    return {
        "type": "object",
        "required": ["rows"],
        "additionalProperties": False,
        "properties": {
            "rows": {"type": "array", "items": {"$ref": "#/components/schemas/Row"}},
            **({"key": key} if has_key else {}),
            "include": words | {"description": "What the answer has besides the predictions.", "default": ["ids"]},
            "alpha": {
                "type": "number",
                "exclusiveMinimum": 0,
                "exclusiveMaximum": 1,
                "description": "Share of rows whose true class may be missing from the prediction set.",
                "default": 0.1,
            },
        },
    }


def _labels() -> Schema:
    label = {
        "type": "object",
        "required": ["label"],
        "additionalProperties": False,
        "properties": {
            "label": _value(),
            "id": {"type": ["string", "null"], "description": "Of the prediction."},
            "key": {"type": ["string", "number", "null"], "description": "Your own name of the row."},
            "row": {"type": ["object", "null"], "description": "The row itself, to test whether P(y | x) has changed."},
        },
    }
    return {
        "type": "object",
        "required": ["labels"],
        "additionalProperties": False,
        "properties": {"labels": {"type": "array", "minItems": 1, "items": label}},
    }


def _predictions() -> Schema:
    texts, numbers = {"type": "array", "items": {"type": "string"}}, {"type": "array", "items": {"type": "number"}}
    return {
        "type": "object",
        "required": ["round", "predictions"],
        "properties": {
            "round": COUNT | {"description": "Rounds that the model had learned from."},
            "predictions": {"type": "array", "items": _value()},
            "ids": texts | {"description": "Send these with late labels."},
            "classes": texts,
            "probabilities": {"type": "array", "items": numbers},
            "ratio": numbers | {"description": "How much more common such a row is now than in the reference."},
            "sets": {"type": "array", "items": {"type": "array", "items": _value()}},
            "intervals": {"type": "array", "items": {"type": "array", "items": {"type": ["number", "null"]}}},
        },
    }


def _error() -> Schema:
    texts = {"type": "string"}
    error = {"type": "object", "required": ["code", "message"], "properties": {"code": texts, "message": texts}}
    return {"type": "object", "required": ["error"], "properties": {"error": error}}


def _protocol_error() -> Schema:
    return {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}


def tensors() -> Schema:
    """What the Open Inference Protocol sends."""
    tensor = {
        "type": "object",
        "required": ["name", "shape", "datatype", "data"],
        "properties": {
            "name": {"type": "string"},
            "shape": {"type": "array", "items": COUNT},
            "datatype": {"type": "string"},
            "data": {"type": "array"},
        },
    }
    inputs, wanted = {"type": "array", "items": tensor}, {"enum": ["predict", "probabilities", "ratio"]}
    output = {"type": "object", "required": ["name"], "properties": {"name": wanted}}
    properties = {"inputs": inputs, "id": {"type": "string"}, "outputs": {"type": "array", "items": output}}
    return {"type": "object", "required": ["inputs"], "properties": properties}


def invocation() -> Schema:
    """What clients of MLflow send."""
    rows = {"type": "array", "items": {"$ref": "#/components/schemas/Row"}}
    return {"type": "object", "properties": {"dataframe_records": rows, "instances": rows}}


# --- The description of the interface in OpenAPI, with examples that work as they are


_ANY: Schema = {"type": "object"}
_KEY: Schema = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Your name for the batch: repeat the request with it, and the batch counts once.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}
_ARROW = "application/vnd.apache.arrow.stream"


def interface_of(service: Service) -> Schema:
    """Return the description for this model: its columns and classes are in it."""
    made = Examples(service)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"accous: {service.name}",
            "version": "1",
            "description": "A model that follows its inputs as they drift. Every error has the shape of Error.",
        },
        "paths": _learning(made) | _looking(made) | _inference(service, made) | _plain(made),
        "components": {
            "schemas": schemas_of(service),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}] if not service.gate.tokens.is_open else [{}],
    }


def _learning(made: Examples) -> Schema:
    predictions = _named("Predictions")
    learned = {"type": "object", "required": ["round", "rows"], "properties": {"round": COUNT, "rows": COUNT}}
    counted = {"type": "object", "required": list(made.counted), "properties": dict.fromkeys(made.counted, COUNT)}
    labels = {"application/json": {"schema": _named("Labels"), "example": made.labels}}
    include = _choice("include", "Parts of the answer besides the predictions, with commas between them.")
    alpha = _choice("alpha", "Share of rows whose true class may be missing from the prediction set.")
    key = _choice("key", "A column that names the rows; labels may come by it.")
    return {
        "/v1/predict": {
            "post": _operation(
                "Predict rows; nothing is learned.", predictions, made.predicted,
                body=_rows(made, made.predict, "RowsToPredict"), parameters=[include, alpha],
            )
        },
        "/v1/step": {
            "post": _operation(
                "Predict rows, then learn from them.", predictions, made.stepped,
                body=_rows(made, made.step), parameters=[_KEY, include, alpha, key],
            )
        },
        "/v1/adapt": {
            "post": _operation(
                "Learn from rows.", learned, made.adapted, body=_rows(made, made.adapt), parameters=[_KEY, key]
            )
        },
        "/v1/labels": {
            "post": _operation(
                "Count labels that arrived late, by the ids or keys of predictions. Nothing is learned from them.",
                counted, made.counted, body={"required": True, "content": labels}, parameters=[_KEY],
            )
        },
    }  # fmt: skip


def _looking(made: Examples) -> Schema:
    since = {
        "name": "since",
        "in": "query",
        "description": "Leave out the rounds up to this one.",
        "schema": {"type": "integer", "minimum": 0, "maximum": 10**15},
    }
    last = {
        "name": "Last-Event-ID",
        "in": "header",
        "description": "The id of the last event that you saw: you get what came after it.",
        "schema": {"type": "string"},
    }
    history = "The rounds so far, in at most 512 points."
    return {
        "/v1/state": {"get": _operation("What accous inspect --json prints.", _ANY, made.state)},
        "/v1/trust": {"get": _operation("Three answers and the verdict.", _ANY, made.trust)},
        "/v1/history": {"get": _operation(history, _ANY, made.history, parameters=[since])},
        "/v1/events": {
            "get": _operation(
                "Server-sent events: reading, drift, verdict, activity.", _text("text/event-stream", made.events),
                parameters=[last],
            )
        },
        "/report": {"get": _operation("The report, as a page.", _text("text/html", made.page))},
        "/metrics": {"get": _operation("Metrics for Prometheus.", _text("text/plain", made.metrics))},
    }  # fmt: skip


def _inference(service: Service, made: Examples) -> Schema:
    infer = {"required": True, "content": {"application/json": {"schema": tensors(), "example": made.infer}}}
    forms = {"application/json": {"schema": invocation(), "example": made.invocation}}
    place = f"/v2/models/{service.name}"
    return {
        "/v2": {"get": _protocol("the server", made.server, is_open=True)},
        place: {"get": _protocol("inputs and outputs of the model", made.model)},
        f"{place}/ready": {"get": _protocol("whether the model is ready", made.ready, is_open=True)},
        f"{place}/infer": {"post": _protocol("predict", made.inferred, body=infer)},
        "/invocations": {
            "post": _operation(
                "Predict, as MLflow's scoring server does.", _ANY, made.invoked,
                body={"required": True, "content": forms},
            )
        },
    }  # fmt: skip


def _plain(made: Examples) -> Schema:
    return {
        "/healthz": {"get": _operation("Whether the process is alive.", _ANY, {"status": "alive"}, is_open=True)},
        "/readyz": {"get": _operation("Whether requests are welcome.", _ANY, made.welcome, is_open=True)},
    }


# --- parts ---


def _rows(made: Examples, example: Any, name: str = "Rows") -> Schema:
    arrow = {"schema": {"type": "string", "format": "binary"}, "examples": {"a row": {"externalValue": ARROW_EXAMPLE}}}
    content = {
        "application/json": {"schema": _named(name), "example": example},
        "text/csv": {"schema": {"type": "string"}, "example": made.csv},
        _ARROW: arrow,
    }
    return {"required": True, "content": content}


def _protocol(what: str, example: Any, *, body: Schema | None = None, is_open: bool = False) -> Schema:
    text = f"Open Inference Protocol: {what}."
    return _operation(text, _ANY, example, body=body, is_open=is_open, error="ProtocolError")


def _operation(
    summary: str,
    schema: Schema,
    example: Any = None,
    *,
    body: Schema | None = None,
    parameters: list[Schema] | None = None,
    is_open: bool = False,
    error: str = "Error",
) -> Schema:
    """Describe an endpoint.

    Parameters
    ----------
    summary : str
    schema : dict
        Of the answer; or its content, by kinds.
    example : optional
        Of the answer.
    body : dict, optional
        What is sent.
    parameters : list of dict, optional
    is_open : bool
        Whether it needs no token.
    error : str
        The form of errors.
    """
    content = schema if any("/" in name for name in schema) else {"application/json": {"schema": schema}}
    if example is not None:
        content["application/json"]["example"] = example
    refused = {"description": "Refused.", "content": {"application/json": {"schema": _named(error)}}}
    made: Schema = {"summary": summary, "responses": {"200": {"description": "Done.", "content": content}}}
    made["responses"] |= {"4XX": refused, "503": refused}
    if body is not None:
        made["requestBody"] = body
        made["responses"]["507"] = refused
    if is_open:
        made["security"] = []
    return made if not parameters else made | {"parameters": parameters}


def _named(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _text(kind: str, example: str) -> Schema:
    return {kind: {"schema": {"type": "string"}, "example": example}}


def _choice(name: str, text: str) -> Schema:
    return {"name": name, "in": "query", "description": f"{text} For CSV and Arrow.", "schema": {"type": "string"}}


# --- The description of the interface as a page: every endpoint with a request that you can paste


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


# --- The pages for people: live, login, report and interface; made from assets that are read once


_KINDS = {"js": b"text/javascript; charset=utf-8", "css": b"text/css; charset=utf-8", "svg": b"image/svg+xml"}
_OWN = ("live.js", "live.css", "icon.svg")
_FROM_REPORT = ("charts.js", "page.css")
_POLICY = (
    "default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_OWN_POLICY = (b"content-security-policy", _POLICY.format(script="'self'", style="'self'").encode())
_FOREVER = ((b"cache-control", b"public, max-age=31536000, immutable"),)
_WRONG = '<p class="wrong" role="alert">This token is not known.</p>'
_LOGOUT = ' · <form class="plain" method="post" action="/logout"><button>Leave</button></form>'
_COOKIE_DAYS = 30


class Pages:
    """Answers people who use a browser.

    Parameters
    ----------
    service : Service
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        contents = {name: page_asset(name) for name in _FROM_REPORT} | {name: _asset(name) for name in _OWN}
        digest = hashlib.sha256("".join(contents[name] for name in sorted(contents)).encode()).hexdigest()[:12]
        self._place = f"/assets/{digest}"
        self.assets = {
            f"{self._place}/{name}": Answer(text.encode(), _KINDS[name.rpartition(".")[2]], headers=_FOREVER)
            for name, text in contents.items()
        }
        has_tokens = not service.gate.tokens.is_open
        self._live = _page("live.html", self._place, name=service.name, logout=_LOGOUT if has_tokens else "")
        self._interface: Answer | None = None

    async def asset(self, call: Call) -> Answer:
        """Return a script or a style sheet, by its exact address."""
        return self.assets[call.path]

    async def icon(self, _call: Call) -> Answer:
        """Return the picture that browsers ask for by themselves."""
        return Answer(_asset("icon.svg").encode(), _KINDS["svg"])

    async def live(self, call: Call) -> Answer:
        """Return the live page, or the one that asks for a token."""
        self._service.require_readings()
        gate = self._service.gate
        if gate.tokens.is_open or gate.has_cookie(call):
            return self._live
        return self._login()

    async def view(self, _call: Call) -> Answer:
        """Return what the live page shows."""
        return Answer(self._service.require_readings().latest.view)

    async def login(self, call: Call) -> Answer:
        """Give a cookie for a token."""
        body = await call.body()
        try:
            token = parse_qs(body.decode("ascii"), max_num_fields=5).get("token", [""])[0].strip()
        except ValueError:
            raise Refusal(400, "malformed_form", "The form cannot be read.") from None
        if not self._service.gate.tokens.allows(token, "read"):
            return self._login(_WRONG, 401)
        secure = "; Secure" if call.scope.get("scheme") == "https" or _is_forwarded_https(call) else ""
        age = f"Max-Age={_COOKIE_DAYS * 86_400}"
        cookie = f"{COOKIE}={cookie_of(token)}; Path=/; {age}; HttpOnly; SameSite=Strict{secure}"
        return Answer(b"", HTML, 303, ((b"location", b"/"), (b"set-cookie", cookie.encode())))

    async def logout(self, _call: Call) -> Answer:
        """Take the cookie back."""
        cookie = f"{COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"
        return Answer(b"", HTML, 303, ((b"location", b"/"), (b"set-cookie", cookie.encode())))

    async def report(self, _call: Call) -> Answer:
        """Return the report of the last reading."""
        page = await asyncio.to_thread(self._service.require_readings().latest.report)
        return Answer(page.encode(), HTML, headers=((b"content-security-policy", _policy_of(page)),))

    async def openapi(self, _call: Call) -> Answer:
        """Return the description of the interface."""
        return Answer(self._described().body)

    async def arrow_example(self, _call: Call) -> Answer:
        """Return a row in Arrow IPC, which JSON cannot hold."""
        return Answer(Examples(self._service).arrow, b"application/vnd.apache.arrow.stream")

    async def interface(self, call: Call) -> Answer:
        """Return the same as a page."""
        page = interface_page(interface_of(self._service), self._place, call.header(b"host") or "localhost:8321")
        return Answer(page.encode(), HTML, headers=(_OWN_POLICY,))

    def _described(self) -> Answer:
        if self._interface is None:
            import msgspec

            self._interface = Answer(msgspec.json.encode(interface_of(self._service)))
        return self._interface

    def _login(self, wrong: str = "", status: int = 200) -> Answer:
        page = _page("login.html", self._place, wrong=wrong)
        return Answer(page.body, HTML, status, page.headers)


def _asset(name: str) -> str:
    return files("accous.service").joinpath("assets", name).read_text(encoding="utf-8")


def _page(template: str, assets: str, *, name: str = "", **parts: str) -> Answer:
    """Fill a template in one pass; ``parts`` are HTML already."""
    parts |= {"assets": assets, "name": escape(name)}
    page = re.sub(r"\[\[(\w+)\]\]", lambda place: parts[place[1]], _asset(template))
    return Answer(page.encode(), HTML, headers=(_OWN_POLICY,))


def _policy_of(page: str) -> bytes:
    """Return a policy that allows exactly the script and the style that are in a page of ours."""
    found = {}
    for tag in ("script", "style"):
        inside = re.findall(rf"<{tag}>(.*?)</{tag}>", page, flags=re.DOTALL)
        hashes = [b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in inside]
        found[tag] = " ".join(f"'sha256-{each}'" for each in hashes) or "'none'"
    return _POLICY.format(**found).encode()


def _is_forwarded_https(call: Call) -> bool:
    """Whether a proxy says that the browser speaks HTTPS with it; at worst, the cookie is kept for HTTPS only."""
    return call.header(b"x-forwarded-proto").partition(",")[0].strip().lower() == "https"


# --- The endpoints of our own interface: predict, learn, count labels, and look


Reply = Callable[[Answer], None]
_LONGEST_KEY = 255


class Endpoints:
    """Answers requests.

    Parameters
    ----------
    service : Service
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    async def predict(self, call: Call) -> Answer:
        """Predict rows; nothing is learned."""
        body, content_type, options = await call.body(), call.header(b"content-type"), _choices(call)
        return await read_aside(len(body), self._predict, body, content_type, options)

    def predict_at_once(self, call: Call, body: bytes, _reply: Reply) -> Answer:
        """Predict the rows of a small request."""
        return self._predict(body, call.header(b"content-type"), {})

    def _predict(self, body: bytes, content_type: str, options: dict[str, str]) -> Answer:
        service = self._service
        served = service.served()
        batch = served.reader.read(body, content_type, options)
        if batch.keys is not None:
            text = "Predictions are not kept, so key cannot be used here: send labels by the ids of the answer."
            raise Refusal(422, "key_not_kept", text)
        return json_answer(service.predicted(served, batch))

    async def adapt(self, call: Call) -> Answer:
        """Learn from a batch."""
        return await self._learn(call, "adapt")

    async def step(self, call: Call) -> Answer:
        """Predict a batch, then learn from it."""
        return await self._learn(call, "step")

    async def labels(self, call: Call) -> Answer:
        """Count labels that arrived late."""
        return await self._learn(call, "labels")

    def adapt_at_once(self, call: Call, body: bytes, reply: Reply) -> None:
        """Learn from a small request without a key; reply when that is done."""
        self._learn_at_once("adapt", call, body, reply)

    def step_at_once(self, call: Call, body: bytes, reply: Reply) -> None:
        """Predict a small request without a key and learn from it; reply when that is done."""
        self._learn_at_once("step", call, body, reply)

    def _learn_at_once(self, kind: str, call: Call, body: bytes, reply: Reply) -> None:
        learner = self._service.require_learner()
        learner.require_room()
        record = Record(kind, call.header(b"content-type"), body, {}, self._service.learns_first)
        parsed = learner.parse(record)

        def finish(found: Answer | Refusal) -> None:
            answer = found.answer if isinstance(found, Refusal) else found
            self._count_learned(answer, parsed)
            reply(answer)

        learner.submit(Waiting(record, parsed, asyncio.get_running_loop(), finish))

    async def _learn(self, call: Call, kind: str) -> Answer:
        learner = self._service.require_learner()
        learner.require_room()
        record = self._record(kind, await call.body(), call)
        if record.key is not None:
            known = await learner.known_answer(record.key, record.digest)
            if known is not None:
                return known
        parsed = await read_aside(len(record.body), learner.parse, record)
        answer = await learner.learn(record, parsed)
        self._count_learned(answer, parsed)
        return answer

    def _count_learned(self, answer: Answer, parsed: Parsed) -> None:
        if answer.status == 200 and isinstance(parsed, Batch):
            self._service.metrics.learned_rows.inc(len(parsed.X))

    def _record(self, kind: str, body: bytes, call: Call) -> Record:
        content_type, options = call.header(b"content-type"), call.options() if kind == "labels" else _choices(call)
        key = call.header(b"idempotency-key") or None
        if key is None:
            return Record(kind, content_type, body, options, self._service.learns_first)
        if len(key) > _LONGEST_KEY or not key.isascii() or not key.isprintable():
            raise Refusal(400, "bad_key", f"An Idempotency-Key has 1 to {_LONGEST_KEY} printable characters.")
        digest = hashlib.blake2b(body, digest_size=16)
        digest.update(f"\n{kind}\n{content_type}\n{sorted(options.items())}".encode("utf-8", "replace"))
        return Record(kind, content_type, body, options, self._service.learns_first, key, digest.digest())

    # --- looking ---

    async def state(self, call: Call) -> Answer:
        """What ``accous inspect --json`` prints."""
        call.options()
        return json_answer(self._service.require_readings().latest.state)

    async def trust(self, call: Call) -> Answer:
        """The three answers and the verdict."""
        call.options()
        return json_answer(self._service.require_readings().latest.trust())

    async def history(self, call: Call) -> Answer:
        """The rounds so far, in a bounded number of points."""
        since = call.options("since").get("since", "0")
        if not (since.isascii() and since.isdigit() and len(since) < 19):
            raise Refusal(422, "invalid", "since must be the number of a round, such as 0 or 1200.")
        return json_answer(self._service.require_readings().latest.history(int(since)))

    async def events_head(self, _call: Call) -> Answer:
        """What precedes the stream of events, for those who only ask for that."""
        return Answer(b"", EVENT_STREAM)

    async def metrics(self, _call: Call) -> Answer:
        """What Prometheus reads."""
        service = self._service
        if service.learner is not None:
            service.metrics.queue.set(service.learner.n_waiting)
        service.metrics.rounds.set(service.served().table_model.model.n_rounds_)
        return Answer(service.metrics.exposition(), b"text/plain; version=0.0.4; charset=utf-8")

    async def healthz(self, _call: Call) -> Answer:
        """Whether the process is alive."""
        return json_answer({"status": "alive"})

    async def readyz(self, _call: Call) -> Answer:
        """Whether requests are welcome."""
        service = self._service
        if service.is_ready and (service.learner is None or service.learner.is_alive):
            return json_answer({"status": "ready", "rounds": int(service.served().table_model.model.n_rounds_)})
        raise Refusal(503, "not_ready", "The service is starting or stopping.", headers=((b"retry-after", b"1"),))


def _choices(call: Call) -> dict[str, str]:
    """Return what the address says about the answer; a body of JSON has a place of its own for it."""
    if call.header(b"content-type").partition(";")[0].strip().lower() == "application/json":
        return call.options(otherwise=f"with JSON, put {', '.join(CHOICES[:-1])} and {CHOICES[-1]} beside the rows")
    return call.options(*CHOICES)
