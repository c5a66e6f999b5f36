"""Examples of requests for one model: an ordinary row in each of the forms that the service takes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from accous.service.prediction_ids import make_ids
from accous.service.service import Service
from accous.tabular.columns.plans import CategoryColumn, DateColumn, NumberColumn

__all__ = ["Examples"]


class Examples:
    """Makes the examples.

    Parameters
    ----------
    service : Service
    """

    def __init__(self, service: Service) -> None:
        served = service.served()
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
        return {"inputs": inputs}

    @property
    def invocation(self) -> dict[str, Any]:
        """The same for MLflow."""
        return {"dataframe_records": [self.row]}


def _ordinary(plan: Any) -> Any:
    if isinstance(plan, NumberColumn):
        return float(f"{plan.median:.6g}")
    if isinstance(plan, DateColumn):
        return datetime(2026, 1, 31, 12, 30, 15, tzinfo=UTC).strftime(plan.form or "%Y-%m-%d %H:%M:%S")
    return plan.levels[0] if isinstance(plan, CategoryColumn) and plan.levels else ""


def _field(value: Any) -> str:
    text = str(value)
    return '"' + text.replace('"', '""') + '"' if any(each in text for each in ',"\n\r') else text
