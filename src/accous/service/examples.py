"""Examples for one model: an ordinary row in each of the forms that the service takes, and what it answers."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import polars as pl

from accous.service.prediction_answers import prediction_content
from accous.service.prediction_ids import make_ids
from accous.service.service import Service
from accous.table.columns import CategoryColumn, DateColumn, NumberColumn

__all__ = ["ARROW_EXAMPLE", "Examples"]

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
