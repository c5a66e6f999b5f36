"""How a fitted model looks in a notebook: its state and verdict above scikit-learn's diagram of the parameters."""

from __future__ import annotations

import math
from copy import copy
from dataclasses import replace
from html import escape
from typing import Any

from accous.diagnostics.losses import LossScale
from accous.text import LOGGER, count

__all__ = ["NotebookDisplay", "state_html"]

# Up to these sizes, the answers took less than 0.1 s of processor time; a display must not keep you waiting.
_MOST_VALUES = 500_000
_MOST_PRODUCTS = 50_000_000
_QUESTIONS = {
    "inputs": "Does the reference cover the inputs?",
    "adaptation": "Is the adapted model better than the fixed one?",
    "predictions": "Can you believe the estimated error?",
}
_CELL = 'style="text-align: left; vertical-align: top"'
_UNREAD = "not shown, because it takes longer than a moment: print(model.trust_)"


class NotebookDisplay:
    """The HTML of an adaptive model; that of an unfitted one is scikit-learn's own."""

    def _repr_html_inner(self) -> str:
        return _state_or_nothing(self) + str(super()._repr_html_inner())  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        shown: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in shown:
            shown["text/html"] = _state_or_nothing(self) + shown["text/html"]
        return shown

    def _get_fitted_attr_html(self, doc_link: str = "") -> dict[str, Any]:
        """Return nothing for scikit-learn's list of attributes, which would read all of them: many are computed."""
        return {}


def _state_or_nothing(model: Any) -> str:
    """Return the state of a fitted model; a display never raises an error."""
    if "state_" not in vars(model):
        return ""
    try:
        return state_html(model)
    except Exception:
        LOGGER.debug("The state of a model could not be shown.", exc_info=True)
        return ""


def state_html(model: Any) -> str:
    """Return the state and the verdict of a fitted model as an HTML table.

    The answers are shown if they have been read since the last round, or if reading them takes less than about 0.1 s.

    Parameters
    ----------
    model : AdaptiveClassifier or AdaptiveRegressor
    """
    state = model.state_
    # Read from a copy, so that the display leaves no trace, such as an error in the history.
    model = copy(model)
    model.state_ = replace(state, cache=dict(state.cache))
    n_reference = len(state.weights)
    rows = [
        ("Rounds", f"{state.n_rounds:,} ({count(state.n_rows, 'row')}), {count(state.n_refits, 'refit')}"),
        ("Effective rows", f"{model.effective_sample_size_:,.0f} of {n_reference:,} reference rows carry the weight"),
        ("Predictions", _predictor(state)),
    ]
    rows += _answers(model) if "trust" in state.cache or _is_quick(model) else [("Verdict", _UNREAD)]
    lines = "".join(f"<tr><th {_CELL}>{escape(name)}</th><td {_CELL}>{escape(text)}</td></tr>" for name, text in rows)
    return f'<table class="accous-state">{lines}</table>'


def _answers(model: Any) -> list[tuple[str, str]]:
    trust, risk, measured = model.trust_, model.risk_, model.measured_
    scale = model.fixed_.scale
    estimate = _error(scale, risk.adapted, risk.adapted_low, risk.adapted_high) if risk.is_known else "not known"
    estimate += "" if risk.is_covered else f": {risk.why_not_covered}"
    rows = [(f"Estimated {scale.name}", estimate)]
    if measured is not None:
        of_labels = _error(scale, measured.error, measured.error_low, measured.error_high)
        rows.append((f"Measured {scale.name}", of_labels))
    rows.append(("Verdict", trust.verdict))
    for name, question in _QUESTIONS.items():
        found = getattr(trust, name)
        rows.append((question, f"{found.answer.capitalize()}. {found.sentence}"))
    return rows


def _predictor(state: Any) -> str:
    if not state.rounds.is_moved:
        return "by the fixed model: nothing to adapt to so far"
    if state.fallback.veto.is_held:
        return "by the fixed model: the adapted one is held back"
    return "by the adapted model"


def _error(scale: LossScale, error: float, low: float, high: float) -> str:
    if math.isnan(error):
        return "not known"
    return f"{scale.shown(error)} (90 % interval {scale.shown(low)} to {scale.shown(high)})"


def _is_quick(model: Any) -> bool:
    """Whether the answers are quick to compute: those about a user's estimator need several fits."""
    if model.estimator is not None:
        return False
    n_rows, n_columns = model.reference_.shape
    n_coefficients = n_columns * model.task_.n_outputs
    return n_rows * n_columns <= _MOST_VALUES and n_rows * n_coefficients**2 <= _MOST_PRODUCTS
