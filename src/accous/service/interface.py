"""The description of the interface: in OpenAPI for programs, and as a page for people."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import polars as pl

from accous.service.bodies import make_ids, prediction_content
from accous.table.columns import CategoryColumn, DateColumn, NumberColumn

if TYPE_CHECKING:
    from accous.service.app import Service

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
        return None if readings is None else self._service.up_to_date(readings.latest.state)

    @property
    def trust(self) -> dict[str, Any] | None:
        """The three answers as they were read last."""
        readings = self._service.readings
        return None if readings is None else self._service.up_to_date(readings.latest.trust())

    @property
    def history(self) -> dict[str, Any] | None:
        """The last round."""
        readings = self._service.readings
        return (
            None if readings is None else self._service.up_to_date(readings.latest.history(max(0, self._n_rounds - 1)))
        )

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
