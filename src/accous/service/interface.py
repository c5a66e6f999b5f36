"""The description of the interface in OpenAPI, with examples that work as they are."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from accous.service.examples import Examples
from accous.service.service import Service
from accous.tabular.columns.plans import CategoryColumn, DateColumn, NumberColumn

__all__ = ["interface_of"]

Schema = dict[str, Any]
_COUNT: Schema = {"type": "integer", "minimum": 0}
_ERROR = {"$ref": "#/components/schemas/Error"}
_ANY: Schema = {"type": "object"}


def interface_of(service: Service) -> Schema:
    """Return the description for this model: its columns and classes are in it."""
    made = Examples(service)
    paths = _learning(made) | _looking() | _inference(service, made) | _plain()
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"accous: {service.name}",
            "version": "1",
            "description": "A model that follows its inputs as they drift. Every error has the shape of Error.",
        },
        "paths": paths,
        "components": {
            "schemas": {"Row": _row(service), "Rows": _rows(), "Labels": _labels(), "Predictions": _predictions()}
            | {"Error": _error()},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}] if not service.gate.tokens.is_open else [{}],
    }


# --- paths ---


def _learning(made: Examples) -> Schema:
    rows, frames = {"$ref": "#/components/schemas/Rows"}, {"type": "string", "format": "binary"}

    def content(example: Any, *, is_rows: bool = True) -> Schema:
        body: Schema = {"application/json": {"schema": rows, "example": example}}
        if is_rows:
            body["text/csv"] = {"schema": {"type": "string"}, "example": made.csv}
            body["application/vnd.apache.arrow.stream"] = {"schema": frames}
        return {"required": True, "content": body}

    labels = {"application/json": {"schema": {"$ref": "#/components/schemas/Labels"}, "example": made.labels}}
    key = {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "Your name for the batch: repeat the request with it, and the batch counts once.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    }
    predictions = {"$ref": "#/components/schemas/Predictions"}
    learned = {"type": "object", "required": ["round", "rows"], "properties": {"round": _COUNT, "rows": _COUNT}}
    names = ("labels", "counted", "counted_before", "without_label", "unmatched", "labelled_rows")
    counted = {"type": "object", "required": list(names), "properties": dict.fromkeys(names, _COUNT)}
    choices = [_choice("include", "Parts of the answer besides the predictions."), _choice("key", "A column of names.")]
    return {
        "/v1/predict": {
            "post": _operation("Predict rows; nothing is learned.", predictions, content(made.predict), choices)
        },
        "/v1/step": {"post": _operation("Predict rows, then learn from them.", predictions, content(made.step), [key])},
        "/v1/adapt": {"post": _operation("Learn from rows.", learned, content(made.adapt), [key])},
        "/v1/labels": {
            "post": _operation(
                "Count labels that arrived late, by the ids or keys of predictions. Nothing is learned from them.",
                counted, {"required": True, "content": labels}, [key],
            )
        },
    }  # fmt: skip


def _looking() -> Schema:
    since = {
        "name": "since",
        "in": "query",
        "description": "Leave out the rounds up to this one.",
        "schema": {"type": "integer", "minimum": 0, "maximum": 10**15},
    }
    stream = {"text/event-stream": {"schema": {"type": "string"}}}
    text, page = {"text/plain": {"schema": {"type": "string"}}}, {"text/html": {"schema": {"type": "string"}}}
    return {
        "/v1/state": {"get": _operation("What accous inspect --json prints.", _ANY)},
        "/v1/trust": {"get": _operation("Three answers and the verdict.", _ANY)},
        "/v1/history": {"get": _operation("The rounds so far, in at most 512 points.", _ANY, None, [since])},
        "/v1/events": {"get": _operation("Server-sent events: reading, drift, verdict, activity.", stream)},
        "/report": {"get": _operation("The report, as a page.", page)},
        "/metrics": {"get": _operation("Metrics for Prometheus.", text)},
    }


def _inference(service: Service, made: Examples) -> Schema:
    infer = {"required": True, "content": {"application/json": {"schema": _tensors(), "example": made.infer}}}
    forms = {"application/json": {"schema": _invocation(), "example": made.invocation}}
    place = f"/v2/models/{service.name}"
    return {
        "/v2": {"get": _operation("Open Inference Protocol: the server.", _ANY)},
        place: {"get": _operation("Open Inference Protocol: inputs and outputs of the model.", _ANY)},
        f"{place}/ready": {"get": _operation("Open Inference Protocol: whether the model is ready.", _ANY)},
        f"{place}/infer": {"post": _operation("Open Inference Protocol: predict.", _ANY, infer)},
        "/invocations": {
            "post": _operation("Predict, as MLflow's scoring server does.", _ANY, {"required": True, "content": forms})
        },
    }


def _plain() -> Schema:
    return {
        "/healthz": {"get": _operation("Whether the process is alive.", _ANY)},
        "/readyz": {"get": _operation("Whether requests are welcome.", _ANY)},
    }


def _operation(
    summary: str, schema: Schema, body: Schema | None = None, parameters: list[Schema] | None = None
) -> Schema:
    content = schema if any("/" in name for name in schema) else {"application/json": {"schema": schema}}
    error = {"description": "Refused.", "content": {"application/json": {"schema": _ERROR}}}
    made: Schema = {"summary": summary, "responses": {"200": {"description": "Done.", "content": content}}}
    made["responses"] |= {"4XX": error, "503": error}
    if body is not None:
        made["requestBody"] = body
        made["responses"]["507"] = error
    return made if not parameters else made | {"parameters": parameters}


def _choice(name: str, text: str) -> Schema:
    return {"name": name, "in": "query", "description": f"{text} For CSV and Arrow.", "schema": {"type": "string"}}


# --- schemas ---


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


def _rows() -> Schema:
    words = {"type": "array", "items": {"enum": ["ids", "probabilities", "ratio", "sets"]}}
    return {
        "type": "object",
        "required": ["rows"],
        "additionalProperties": False,
        "properties": {
            "rows": {"type": "array", "items": {"$ref": "#/components/schemas/Row"}},
            "key": {"type": ["string", "null"], "description": "A column that names the rows; labels may come by it."},
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
            "round": _COUNT | {"description": "Rounds that the model had learned from."},
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


def _tensors() -> Schema:
    tensor = {
        "type": "object",
        "required": ["name", "shape", "datatype", "data"],
        "properties": {
            "name": {"type": "string"},
            "shape": {"type": "array", "items": _COUNT},
            "datatype": {"type": "string"},
            "data": {"type": "array"},
        },
    }
    inputs = {"type": "array", "items": tensor}
    return {"type": "object", "required": ["inputs"], "properties": {"inputs": inputs, "id": {"type": "string"}}}


def _invocation() -> Schema:
    rows = {"type": "array", "items": {"$ref": "#/components/schemas/Row"}}
    return {"type": "object", "properties": {"dataframe_records": rows, "instances": rows}}
