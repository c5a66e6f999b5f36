"""The description of the interface in OpenAPI, with examples that work as they are."""

from __future__ import annotations

from typing import Any

from accous.service.examples import ARROW_EXAMPLE, Examples
from accous.service.interface_schemas import COUNT, Schema, invocation, schemas_of, tensors
from accous.service.service import Service

__all__ = ["interface_of"]

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
