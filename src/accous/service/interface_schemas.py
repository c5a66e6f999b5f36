"""The forms of requests and answers, as JSON Schema for the description of the interface."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from accous.service.service import Service
from accous.table.columns import CategoryColumn, DateColumn, NumberColumn

__all__ = ["COUNT", "Schema", "invocation", "schemas_of", "tensors"]

Schema = dict[str, Any]
COUNT: Schema = {"type": "integer", "minimum": 0}


def schemas_of(service: Service) -> Schema:
    """Return the forms that have a name, for this model."""
    return {
        "Row": _row(service),
        "Rows": _rows(has_key=True),
        "RowsToPredict": _rows(has_key=False),
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


def _rows(*, has_key: bool) -> Schema:
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
