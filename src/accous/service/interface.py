"""The description of the interface: in OpenAPI for programs, and as a page for people."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl

from accous.service.bodies import LabelsBody, RowsBody, Value, make_ids, prediction_content
from accous.table.columns import CategoryColumn, DateColumn, NumberColumn

if TYPE_CHECKING:
    from accous.service.app import Service

# --- The forms of responses; those of requests are the types by which bodies are decoded


class Predictions(msgspec.Struct):
    """Predictions, and what was asked for besides them."""

    round: int
    predictions: list[Value]
    ids: list[str] = []
    classes: list[str] = []
    probabilities: list[list[float]] = []
    ratio: list[float] = []
    sets: list[list[Value]] = []
    intervals: list[list[float | None]] = []


class Learned(msgspec.Struct):
    """The round that was played, and its rows."""

    round: int
    rows: int


class Counted(msgspec.Struct):
    """What became of late labels."""

    round: int
    labels: int
    counted: int
    counted_before: int
    corrected: int
    before_joining: int
    without_label: int
    unmatched: int
    labelled_rows: int
    unknown_labels: dict[str, int]


class ErrorDetails(msgspec.Struct):
    """A word for programs, and a sentence for people."""

    code: str
    message: str


class Error(msgspec.Struct):
    """What is wrong with a request."""

    error: ErrorDetails


class ProtocolError(msgspec.Struct):
    """What is wrong with a request, in the Open Inference Protocol."""

    error: str


class Tensor(msgspec.Struct):
    """A column of rows, or all of them."""

    name: str
    shape: list[int]
    datatype: str
    data: list[Any]


class Tensors(msgspec.Struct):
    """A request of the Open Inference Protocol."""

    inputs: list[Tensor]


class Invocation(msgspec.Struct):
    """A request of MLflow's clients."""

    dataframe_records: list[dict[str, Value]] | None = None
    instances: list[dict[str, Value]] | None = None


Schema = dict[str, Any]
_TYPES = (RowsBody, LabelsBody, Predictions, Learned, Counted, Error, ProtocolError, Tensors, Invocation)


def _schemas(service: Service) -> Schema:
    """Return the forms that have a name; rows have the columns of this model."""
    _, found = msgspec.json.schema_components(_TYPES, ref_template="#/components/schemas/{name}")
    columns: Schema = {}
    for plan in service.served().table_model.encoder.used:
        if isinstance(plan, NumberColumn):
            columns[plan.name] = {"type": ["number", "null"]}
        elif isinstance(plan, DateColumn):
            # The form is not a regular expression: one date stands for all.
            columns[plan.name] = {"type": ["string", "null"], "enum": [_ordinary(plan), None]}
        elif isinstance(plan, CategoryColumn):
            columns[plan.name] = {"type": ["string", "null"], "examples": plan.levels[:5]}
    found["Row"] = {"type": "object", "properties": columns, "required": list(columns)}
    found["RowsBody"]["properties"]["rows"]["items"] = _named("Row")
    without_key = {name: each for name, each in found["RowsBody"]["properties"].items() if name != "key"}
    found["RowsToPredict"] = found["RowsBody"] | {"properties": without_key}
    return found


def _named(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


# --- Examples that work on this model as they are


ARROW_EXAMPLE = "/docs/example.arrow"
_ARROW = "application/vnd.apache.arrow.stream"


def ordinary_row(service: Service) -> dict[str, Any]:
    """Return a row of ordinary values."""
    return {plan.name: _ordinary(plan) for plan in service.served().table_model.encoder.used}


def arrow_example(service: Service) -> bytes:
    """Return the row in Arrow IPC, which JSON cannot hold."""
    content = io.BytesIO()
    pl.DataFrame([ordinary_row(service)]).write_ipc_stream(content)
    return content.getvalue()


def _ordinary(plan: Any) -> Any:
    if isinstance(plan, NumberColumn):
        return float(f"{plan.median:.6g}")
    if isinstance(plan, DateColumn):
        return datetime(2026, 1, 31, 12, 30, 15, tzinfo=UTC).strftime(plan.form or "%Y-%m-%d %H:%M:%S")
    return plan.levels[0] if isinstance(plan, CategoryColumn) and plan.levels else ""


def _requests(service: Service, row: dict[str, Any]) -> dict[str, Any]:
    """Return the body of a request to each address."""
    served = service.served()
    label = min(served.table_model.model.task_.truths.tolist())
    tensors = [
        {"name": name, "shape": [1], "datatype": "FP64" if isinstance(value, float) else "BYTES", "data": [value]}
        for name, value in row.items()
    ]
    return {
        "/v1/predict": {"rows": [row], "include": ["ids", "probabilities", "ratio"]},
        "/v1/step": {"rows": [row, row]},
        "/v1/adapt": {"rows": [row]},
        "/v1/labels": {"labels": [{"id": make_ids("p0", 0, [label], served.reader.salt)[0], "label": label}]},
        "infer": {"inputs": tensors, "outputs": [{"name": "predict"}]},
        "/invocations": {"dataframe_records": [row]},
    }


def _responses(service: Service, row: dict[str, Any]) -> dict[str, Any]:
    """Return the response of each address in JSON."""
    served, readings, number = service.served(), service.readings, service.n_rounds
    batch = served.reader.read_rows([row], include=("ids", "probabilities", "ratio"))
    played = served.table_model.predict_rows(batch.X)
    predicted = prediction_content(served.table_model, played, batch, origin="p1", salt=served.reader.salt)
    (made,) = predicted["predictions"]
    kind = "BYTES" if isinstance(made, str) else "FP64"
    output = {"name": "predict", "datatype": kind, "shape": [1]}
    counts = dict.fromkeys(Counted.__struct_fields__, 0) | {"round": number, "labels": 1, "counted": 1}
    found: dict[str, Any] = {
        "/v1/predict": predicted,
        "/v1/step": {"round": number + 1, "predictions": [made, made], "ids": ["s1.0.1.eWVz.0", "s1.1.1.eWVz.0"]},
        "/v1/adapt": {"round": number + 1, "rows": 1},
        "/v1/labels": counts | {"labelled_rows": 1, "unknown_labels": {}},
        "infer": {"model_name": service.name, "model_version": "1", "outputs": [output | {"data": [made]}]},
        "/invocations": {"predictions": [made]},
        "/v2": {"name": "accous", "version": "1", "extensions": ["binary_tensor_data"]},
        "model": {"name": service.name, "versions": ["1"], "platform": "accous", "inputs": [], "outputs": [output]},
        "ready": {"name": service.name, "ready": True},
        "/healthz": {"status": "alive"},
        "/readyz": {"status": "ready", "rounds": number},
    }
    if readings is not None:
        latest = readings.latest
        looks = {"state": latest.state, "trust": latest.trust(), "history": latest.history(max(0, number - 1))}
        found |= {f"/v1/{name}": service.up_to_date(each) for name, each in looks.items()}
    return found


# --- The description in OpenAPI


def _parameter(name: str, where: str, text: str, **schema: Any) -> Schema:
    return {"name": name, "in": where, "description": text, "schema": {"type": "string"} | schema}


_KEY = _parameter(
    "Idempotency-Key", "header", "Your name for the batch: repeat the request with it, and the batch counts once.",
    minLength=1, maxLength=255, pattern="^[!-~]+$",
)  # fmt: skip
_INCLUDE = _parameter("include", "query", "Parts of the response, with commas between them. For CSV and Arrow.")
_ALPHA = _parameter("alpha", "query", "Share of rows whose true class may be missing from its set. For CSV and Arrow.")
_NAMES = _parameter("key", "query", "A column that names the rows; labels may come by it. For CSV and Arrow.")
_SINCE = _parameter("since", "query", "Leave out the rounds up to this one.", type="integer", minimum=0, maximum=10**15)
_LAST = _parameter("Last-Event-ID", "header", "The id of the last event that you saw: you get what came after it.")
_EVENT = 'id: 12.0\nevent: drift\ndata: {"round":12,"kind":"inputs","columns":["x1"],"size":0.4}\n\n'
_METRIC = "# HELP accous_rounds Rounds that the model has learned from.\naccous_rounds 12.0\n"


def interface_of(service: Service) -> Schema:
    """Return the description for this model: its columns and classes are in it."""
    row = ordinary_row(service)
    requests, responses = _requests(service, row), _responses(service, row)

    def rows(path: str, form: str) -> Schema:
        table = pl.DataFrame([row]).write_csv()
        binary = {"type": "string", "format": "binary"}
        return {
            "application/json": {"schema": _named(form), "example": requests[path]},
            "text/csv": {"schema": {"type": "string"}, "example": table},
            _ARROW: {"schema": binary, "examples": {"a row": {"externalValue": ARROW_EXAMPLE}}},
        }

    def body(path: str, form: str) -> Schema:
        return {"application/json": {"schema": _named(form), "example": requests[path]}}

    def response(path: str, form: str = "") -> Schema:
        schema = _named(form) if form else {"type": "object"}
        return {"application/json": {"schema": schema, "example": responses.get(path)}}

    def text(kind: str, example: str) -> Schema:
        return {kind: {"schema": {"type": "string"}, "example": example}}

    model, protocol = f"/v2/models/{service.name}", "Open Inference Protocol: "
    posts = {
        "/v1/predict": _operation(
            "Predict rows; nothing is learned.", response("/v1/predict", "Predictions"),
            body=rows("/v1/predict", "RowsToPredict"), parameters=[_INCLUDE, _ALPHA],
        ),
        "/v1/step": _operation(
            "Predict rows, then learn from them.", response("/v1/step", "Predictions"),
            body=rows("/v1/step", "RowsBody"), parameters=[_KEY, _INCLUDE, _ALPHA, _NAMES],
        ),
        "/v1/adapt": _operation(
            "Learn from rows.", response("/v1/adapt", "Learned"),
            body=rows("/v1/adapt", "RowsBody"), parameters=[_KEY, _NAMES],
        ),
        "/v1/labels": _operation(
            "Count labels that arrived late, by the ids or keys of predictions. Nothing is learned from them.",
            response("/v1/labels", "Counted"), body=body("/v1/labels", "LabelsBody"), parameters=[_KEY],
        ),
        f"{model}/infer": _operation(
            f"{protocol}predict.", response("infer"), body=body("infer", "Tensors"), error="ProtocolError"
        ),
        "/invocations": _operation(
            "Predict, as MLflow's scoring server does.", response("/invocations"),
            body=body("/invocations", "Invocation"),
        ),
    }  # fmt: skip
    events, page = text("text/event-stream", _EVENT), text("text/html", "<!doctype html>...")
    gets = {
        "/v1/state": _operation("What accous inspect --json prints.", response("/v1/state")),
        "/v1/trust": _operation("Three answers and the verdict.", response("/v1/trust")),
        "/v1/history": _operation(
            "The rounds so far, in at most 512 points.", response("/v1/history"), parameters=[_SINCE]
        ),
        "/v1/events": _operation("Events: reading, drift, verdict, activity.", events, parameters=[_LAST]),
        "/report": _operation("The report, as a page.", page),
        "/metrics": _operation("Metrics for Prometheus.", text("text/plain", _METRIC)),
        "/v2": _operation(f"{protocol}the server.", response("/v2"), is_open=True, error="ProtocolError"),
        model: _operation(f"{protocol}inputs and outputs.", response("model"), error="ProtocolError"),
        f"{model}/ready": _operation(
            f"{protocol}whether the model is ready.", response("ready"), is_open=True, error="ProtocolError"
        ),
        "/healthz": _operation("Whether the process is alive.", response("/healthz"), is_open=True),
        "/readyz": _operation("Whether requests are welcome.", response("/readyz"), is_open=True),
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"accous: {service.name}",
            "version": "1",
            "description": "A model that follows its inputs as they drift. Every error has the shape of Error.",
        },
        "paths": {path: {"post": each} for path, each in posts.items()}
        | {path: {"get": each} for path, each in gets.items()},
        "components": {
            "schemas": _schemas(service),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}] if not service.gate.tokens.is_open else [{}],
    }


def _operation(
    summary: str, content: Schema, *, body: Schema | None = None, parameters: list[Schema] | None = None,
    is_open: bool = False, error: str = "Error",
) -> Schema:  # fmt: skip
    """Describe an endpoint: what it returns, what is sent, whether it needs no token, and the form of its errors."""
    refused = {"description": "Refused.", "content": {"application/json": {"schema": _named(error)}}}
    done = {"description": "Done.", "content": content}
    found: Schema = {"summary": summary, "responses": {"200": done, "4XX": refused, "503": refused}}
    if body is not None:
        found["requestBody"] = {"required": True, "content": body}
        found["responses"]["507"] = refused
    if is_open:
        found["security"] = []
    return found | ({"parameters": parameters} if parameters else {})


# --- The description as a page: every endpoint with a request that you can paste


def interface_page(interface: Schema, assets: str, host: str) -> str:
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


def _section(address: str, path: str, method: str, operation: Schema, *, needs_token: bool) -> str:
    command = f"curl {address}"
    if needs_token and operation.get("security") != []:
        command += ' -H "Authorization: Bearer $TOKEN"'
    if method == "POST":
        found = operation["requestBody"]["content"]["application/json"]["example"]
        body = json.dumps(found, ensure_ascii=False).replace("'", "'\\''")
        command += f" -H 'Content-Type: application/json' \\\n  -d '{body}'"
    head = f'<section><h2><span class="method">{method}</span> <code>{escape(path)}</code></h2>'
    return f"{head}<p>{escape(operation['summary'])}</p><pre>{escape(command)}</pre></section>"
