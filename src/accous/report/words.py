"""What the report says, in sentences."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.diagnostics.drift import LONGEST_SHIFT, SMALLEST_CHANGE, DriftEvent, Regime
from accous.diagnostics.labels import MeasuredError, doubt_about_intervals
from accous.diagnostics.messages import LossScale, interval_in_words, verdict_in_words
from accous.diagnostics.trust import COVERED, FEWEST_RECENT_ROWS, Trust
from accous.model.snapshot import Snapshot
from accous.parameters import listed
from accous.table.columns import CATEGORIES, MISSING, NEW_VALUES, summarize
from accous.table.history import History
from accous.table.kinds import kind_of
from accous.table.model import TableSnapshot
from accous.table.summary import (
    TOO_FEW_ROWS,
    held_out_in_words,
    no_better_in_words,
    predictors_in_words,
    reference_error,
    scale_of,
)
from accous.text import count

# --- The source of a report: a model and its history, read once


@dataclass(frozen=True)
class ReportSource:
    """What a report is about: a snapshot, the history, and the names of the columns.

    Attributes
    ----------
    name : str
        Name of the model.
    snapshot : Snapshot
        That of a table model speaks of the table's own columns.
    history : History
    columns : list of str
        The column that each feature was made from; a column may appear several times.
    settings : dict of str to str
        Rows of the settings table.
    preparation : list of (column, kind, what is done)
        Rows of the table of columns.
    """

    name: str
    snapshot: Snapshot
    history: History
    columns: list[str]
    settings: dict[str, str] = field(default_factory=dict)
    preparation: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def table(self) -> TableSnapshot | None:
        """The snapshot if it is that of a table."""
        return self.snapshot if isinstance(self.snapshot, TableSnapshot) else None

    @property
    def scale(self) -> LossScale:
        """How errors are written."""
        return self.snapshot.scale

    def in_unit(self, losses: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return mean losses as they are shown: those of squares as their roots."""
        return np.sqrt(losses) if self.scale.loss == "squared" else losses

    @property
    def moved_rows(self) -> int | None:
        """Over how many of the last rows the inputs have moved by more than chance; 0 if not, None if not known."""
        coverage = self.snapshot.coverage
        if coverage.has_moved is None:
            return None
        latest = coverage if coverage.has_moved else self.snapshot.latest_coverage
        return int(latest.n_rows) if latest.has_moved else 0

    @property
    def events(self) -> list[DriftEvent]:
        """The changes of the inputs, without seasonal ones, with the columns that carry them."""
        events = self.snapshot.drift_events
        return [replace(event, features=self._columns_of(event.features)) for event in events]

    @property
    def regimes(self) -> tuple[Regime, ...]:
        """The regimes that the model remembers, with the columns that tell them apart."""
        return tuple(replace(each, features=self._columns_of(each.features)) for each in self.snapshot.regimes)

    @property
    def n_seasonal(self) -> int:
        """How many changes were seasonal."""
        return 0 if self.table is None else len(self.table.seasonal_events)

    @property
    def knows_seasons(self) -> bool:
        """Whether a part of what moved is explained by the time of the day."""
        seasons = None if self.table is None else self.table.seasons
        return seasons is not None and seasons.explained is not None and bool(seasons.explained.any())

    @property
    def has_hours(self) -> bool:
        """Whether the rows have a time of the day, and not a date alone."""
        seasons = None if self.table is None else self.table.seasons
        return seasons is not None and seasons.slots.has_hours

    @property
    def moved_share(self) -> float:
        """How far the inputs have moved: total variation between the current weights and equal weights, in [0, 1]."""
        weights = self.snapshot.state.weights / self.snapshot.state.weights.mean()
        return float(0.5 * np.abs(weights - 1.0).mean())

    def share_missing_before(self, column: str) -> float | None:
        """Share of the reference in which a column is missing; None if the table does not say."""
        marks = [] if self.table is None else self.table.encoder.marks
        found = (mark for mark in marks if (mark.kind, mark.column) == (MISSING, column))
        return next((mark.n_hits / mark.n_reference for mark in found), None)

    def column_shares(self) -> list[tuple[str, float]]:
        """Share of the drift that each column carries, largest first; without what the time of the day explains."""
        if self.table is not None:
            shares = self.table.drift_attribution
            return sorted(shares.items(), key=lambda item: (-item[1], item[0]))
        shares = {}
        for column, share in zip(self.columns, self.snapshot.drift_attribution.tolist(), strict=True):
            shares[column] = shares.get(column, 0.0) + share
        return sorted(shares.items(), key=lambda item: (-item[1], item[0]))

    def _columns_of(self, features: tuple[str, ...]) -> tuple[str, ...]:
        """Return the columns of features, by the names that the report has for them."""
        if self.table is not None:
            return features
        names = dict(zip(self.snapshot.rules.names, self.columns, strict=True))
        return tuple(dict.fromkeys(names[feature] for feature in features))


def _scores(settings: dict[str, Any]) -> dict[str, str]:
    """Return how well the reference was predicted, in words."""
    error, scale = reference_error(settings), scale_of(settings)
    how = held_out_in_words(is_ordered=bool(settings.get("order", {"by": None})["by"]))
    scores = {f"{scale.name} on the reference": TOO_FEW_ROWS if error is None else f"{scale.shown(error)}, {how}"}
    if "error_of_constant" in settings:  # models of earlier versions have none
        always = f"always the {'most frequent class' if scale.is_of_classes else 'median'}"
        scores["error of a constant there"] = f"{scale.shown(settings['error_of_constant'])}, {always}"
    if scale.is_of_classes:
        scores["largest class"] = f"{settings['largest_class']:.1%} of the reference"
    return scores


def report_source(snapshot: TableSnapshot, name: str) -> ReportSource:
    """Return what a report on a table model is about."""
    settings = {key: str(value) for key, value in snapshot.settings.items() if value is not None}
    settings.pop("reference_file", None)  # says nothing to a reader
    order = snapshot.settings.get("order", {"by": None})  # models of earlier versions have none
    settings["order"] = {None: "not known", "rows": "as in the file", "time": f"by {order.get('column')}"}[order["by"]]
    for name_of_score in ("accuracy", "largest_class", "error", "error_of_median", "error_of_constant"):
        settings.pop(name_of_score, None)
    settings |= _scores(snapshot.settings)
    if "widths" in settings:
        settings["widths"] = ", ".join(f"{name} {width}" for name, width in snapshot.settings["widths"].items())
    if "predictors" in settings:
        settings["predictors"] = predictors_in_words(snapshot.settings["predictors"], scale_of(snapshot.settings))
    settings["label"] = snapshot.label
    classes = kind_of(snapshot.rules.task).names
    if classes:
        settings["classes"] = ", ".join(classes[:20])
    settings["rounds"] = f"{snapshot.state.n_rounds:,}"
    settings["adaptation"] = snapshot.rules.guard.sentence
    if snapshot.job is not None:
        settings |= {"stream": snapshot.job.spec.stream, "predictions": snapshot.job.spec.output}
        settings |= {name: str(value) for name, value in snapshot.job.spec.options.items() if value}
        settings["bad rows set aside"] = f"{snapshot.job.n_rejected:,}"
    preparation = [(line.columns, line.kind, line.what) for line in summarize(snapshot.encoder.plans)]
    columns = snapshot.encoder.column_of_feature
    return ReportSource(name, snapshot, snapshot.past, columns, settings, preparation)


# --- How often the inputs changed, in words: shifts, changes of single columns and visits of regimes are
#     counted apart


_SHIFT = "shift"


def changes_in_words(source: ReportSource) -> str:
    """Return how many changes were detected and which was the last, in sentences; empty if there were none."""
    shifts = [event for event in source.events if event.kind == _SHIFT]
    others = [event for event in source.events if event.kind != _SHIFT]
    parts = []
    if shifts:
        # The log has one shift in progress at most, and it is the last one.
        resting = " and still in progress" if shifts[-1].rounds_to_adapt is None else ""
        parts.append(f"{_times(len(shifts), 'shift', shifts[-1].round)}{resting}")
    if others:
        parts.append(_times(len(others), "change of a single column", others[-1].round, "changes of single columns"))
    found = [f"Detected: {'; '.join(parts)}."] if parts else []
    n_visits = _n_visits(source)
    if shifts and n_visits > len(shifts):
        found.append(
            f"The inputs were in a remembered regime {n_visits} times: a visit is a shift of its own only if the "
            f"weights were at rest before, and more than {SMALLEST_CHANGE:.0%} of the weight moved."
        )
    return " ".join(found)


def kinds_of_changes(source: ReportSource) -> str:
    """Return what the number of changes is made of; empty if there is nothing to tell apart."""
    n_shifts = sum(event.kind == _SHIFT for event in source.events)
    n_others, n_visits = len(source.events) - n_shifts, _n_visits(source)
    parts = [count(n_shifts, "shift"), f"{n_others:,} of single columns"] if n_others else []
    parts += [count(n_visits, "visit of a regime", "visits of regimes")] if n_visits else []
    parts += [f"{source.n_seasonal:,} seasonal, not counted"] if source.n_seasonal else []
    return "; ".join(parts)


def note_on_changes(source: ReportSource) -> str:
    """Return what a row of the table of changes counts."""
    once = (
        f"A shift is noticed when more than {SMALLEST_CHANGE:.0%} of the weight of the reference rows has moved. It "
        f"lasts until the weights rest, {LONGEST_SHIFT} rounds at most, and counts once, even if the inputs go back "
        "and forth."
    )
    return f"{once} The visits of regimes, below, count every time." if _n_visits(source) else once


def _n_visits(source: ReportSource) -> int:
    return sum(len(regime.visits) for regime in source.regimes)


def _times(number: int, noun: str, last: int, plural: str | None = None) -> str:
    """Return how many there were, and the round of the last."""
    the_last = "" if number == 1 else "the last "
    return f"{count(number, noun, plural)}, {the_last}in round {last:,}"


# --- The sentences of a report: the verdict, how far the inputs moved, and what to do


_HARDLY, _SOMEWHAT = 0.05, 0.2
_TONES = {"good": "good", "not verified": "thin", "thin": "thin", "contradicted": "bad", "no overlap": "bad"}
_FOLLOWS = "The inputs have moved, and the model follows"


@dataclass(frozen=True)
class Verdict:
    """The first thing a reader sees.

    Attributes
    ----------
    tone : {"good", "thin", "bad", "none"}
    badge : str
        The verdict of ``trust_``, and which of the answers it is about.
    headline : str
    moved : str
        How far the inputs have moved, and which columns moved.
    trust : str
        Whether the adaptation can be trusted, and why.
    advice : list of str
        What to do.
    """

    tone: str
    badge: str
    headline: str
    moved: str
    trust: str
    advice: list[str]


def judge_in_words(source: ReportSource) -> Verdict:
    """Describe the model's diagnostics in sentences."""
    trust = source.snapshot.trust
    no_better = "" if source.table is None else no_better_in_words(source.table.settings)
    if source.snapshot.state.n_rounds == 0:
        none, first = "No batch has been seen yet.", ["Run accous adapt on a stream first."]
        return Verdict("none", "no data yet", "Nothing to report yet", none, no_better, first)
    reason = f"{trust.reason} {no_better}".rstrip()
    return Verdict(_TONES[trust.verdict], _badge(trust), _headline(source), _moved(source), reason, _advice(source))


def _badge(trust: Trust) -> str:
    """Return the verdict with the answers that it is about: others may be better."""
    if trust.verdict == "contradicted":
        return f"contradicted by {trust.contradicted_by}: estimate"
    return verdict_in_words(trust.verdict, {name: getattr(trust, name).answer for name in trust.sentences})


def answer_rows(source: ReportSource) -> list[tuple[str, str, str]]:
    """Return the three questions, each with its answer and a sentence."""
    trust = source.snapshot.trust
    questions = {
        "Does the reference cover the inputs?": trust.inputs,
        "Is the adapted model better than the fixed one?": trust.adaptation,
        "Can you believe the estimated error?": trust.predictions,
    }
    return [(question, each.answer, each.sentence) for question, each in questions.items()]


def _headline(source: ReportSource) -> str:
    trust, measured = source.snapshot.trust, source.snapshot.measured
    if measured is not None and measured.contradicts_now:
        return _headline_of_labels(measured)
    if trust.inputs.answer == "no":
        is_measured = measured is not None and measured.is_exact and not measured.is_outdated
        labels = f"; labels say {_error(measured)}" if measured is not None and is_measured else ""
        return f"The inputs are new to the reference{labels}"
    if trust.predictions.answer == "no":
        return "The estimated error cannot be believed: it was too low in the backtest"
    if trust.verdict == "thin":
        return "The inputs have moved to a region where the reference has few rows"
    return _headline_of_inputs(source)


def _headline_of_labels(measured: MeasuredError) -> str:
    """Say how labels contradict the estimate: its interval may hold nevertheless."""
    found, estimated = measured.scale.shown(measured.error), measured.scale.shown(measured.estimated)
    if not measured.is_inside and measured.is_estimate_known:
        return f"The labels contradict the estimate: {found} measured, {estimated} estimated for the same rows"
    if not measured.is_inside:
        interval = interval_in_words(measured.estimated_low, measured.estimated_high, measured.scale)
        return f"The labels say {found}, outside the interval of the estimate ({interval})"
    if not measured.is_estimate_known:
        return f"The labels say {found}; the reference makes {estimated} likely"
    if not (measured.is_exact and measured.is_off):
        rather = f"{found} measured, {estimated} estimated for them"
        return f"The predictions with the labels given last were far worse than estimated: {rather}"
    size, side = measured.scale.difference(abs(measured.excess)), "low" if measured.excess > 0.0 else "high"
    return f"The estimate is {size} too {side}: {found} measured, {estimated} estimated for the same rows"


def _headline_of_inputs(source: ReportSource) -> str:
    """Say how the inputs lie beside the reference, if nothing speaks against the model."""
    trust = source.snapshot.trust
    if 0 < source.snapshot.coverage.n_rows < FEWEST_RECENT_ROWS:
        return "There are too few rows so far to compare them with the reference"
    if trust.is_reference_new:
        return "Rows have joined the reference; how the inputs lie beside it shows in the next rounds"
    if source.moved_share < _HARDLY or source.moved_rows == 0:
        return "The inputs look like the reference"
    return "The inputs have moved; the fixed model is in use" if _fixed_is_in_use(trust) else _FOLLOWS


def _fixed_is_in_use(trust: Trust) -> bool:
    """Whether the fixed model predicts: the adapted one is held back, or there is nothing to adapt to."""
    return trust.is_vetoed or trust.exponent == 0.0


def _error(measured: MeasuredError) -> str:
    shown, name = measured.scale.shown(measured.error), measured.scale.name
    return f"{shown} error" if measured.scale.is_of_classes else f"a {name} of {shown}"


def _error_between(measured: MeasuredError, low: str, high: str) -> str:
    labels = "the one label" if measured.n_labelled == 1 else f"the {measured.n_labelled:,} labels"
    return f"{labels} so far leave the {measured.scale.name} between {low} and {high}."


def _moved(source: ReportSource) -> str:
    text = _how_far(source)
    leading = [f"{name} ({share:.0%})" for name, share in source.column_shares()[:3] if share >= 0.05]
    if leading and source.moved_share >= _HARDLY and source.moved_rows != 0:
        text += f" Columns that moved most: {', '.join(leading)}."
    changes = changes_in_words(source)
    text += f" {changes}" if changes else ""
    return f"{text} The {'fixed' if _fixed_is_in_use(source.snapshot.trust) else 'adapted'} model is in use."


def _how_far(source: ReportSource) -> str:
    """Say how far the weights moved, and the inputs with them if more rows than the latest ones show it."""
    moved = source.moved_share
    weights = f"the weights of the reference rows changed by {moved:.0%}"
    if source.snapshot.trust.is_reference_new:
        return (
            f"Rows have joined the reference: the weights of its rows ({moved:.0%} away from equal) are those before."
        )
    if source.snapshot.trust.inputs.answer == "no" and moved < _SOMEWHAT:
        # No weight of the reference can follow inputs that it does not have.
        return f"The weights of the reference rows changed by {moved:.0%}, but they cannot follow inputs that it lacks."
    if moved < _HARDLY:
        return f"The inputs have moved very little: {weights}."
    rows = source.moved_rows
    if rows == 0:
        recent = count(source.snapshot.coverage.n_rows, "row")
        return f"The last {recent} hardly differ from the reference; {weights}: they follow the latest rows."
    over = f" over the last {count(rows, 'row')}" if rows else ""
    return f"The inputs have moved {'somewhat' if moved < _SOMEWHAT else 'far'}{over}: {weights}."


def _about_fitting_again(source: ReportSource) -> list[str]:
    """Return what labels or only a new fit would teach."""

    def columns(kind: str) -> list[str]:
        return [each.column for each in source.snapshot.coverage.columns if each.kind == kind]

    advice = []
    if of_categories := columns(CATEGORIES):
        advice.append(
            f"To learn the new categories of {listed(of_categories)}, label some of their rows (accous ask, accous "
            "labels)."
        )
    if left_out := columns(NEW_VALUES):
        advice.append(
            f"To use {listed(left_out)}, run accous fit again on rows in which the values differ: the model leaves "
            f"{'it' if len(left_out) == 1 else 'them'} out, and labels do not change that."
        )
    return advice


def _needs_fit(source: ReportSource) -> bool:
    """Whether many recent rows show what only a new fit learns."""
    kinds = (CATEGORIES, NEW_VALUES)
    found = (each.share - each.expected > COVERED for each in source.snapshot.coverage.columns if each.kind in kinds)
    return source.snapshot.trust.inputs.answer == "no" and any(found)


def _about_errors(trust: Trust, measured: MeasuredError | None, *, needs_fit: bool) -> list[str]:
    """Return what to rely on, and which labels would tell more."""
    join = "take them into the reference of that fit" if needs_fit else "let the model learn from them (accous labels)"
    is_measured = measured is not None and measured.is_exact and not measured.is_outdated
    advice = []
    if measured is not None and measured.contradicts_now:
        advice.append("Rely on the measured error. Do not rely on estimates without labels.")
        of_fit = "Take labelled rows of now into the reference of that fit."
        advice.append(
            of_fit if needs_fit else "Let the model learn from labels of recent rows (accous ask, accous labels)."
        )
    elif is_measured:
        advice.append("Rely on the measured error, and go on labelling samples of recent rows (accous labels).")
    elif trust.inputs.answer == "no":
        advice.append("Do not rely on the current predictions before labels of recent rows show how good they are.")
        advice.append(f"Label a few hundred recent rows (accous labels), and {join}.")
    elif trust.predictions.answer == "yes":
        advice.append("You can keep using the predictions, and the estimated error.")
    elif measured is None or measured.is_outdated:
        since = "" if measured is None else " that came since rows joined the reference"
        what = f"Label a sample of recent rows{since} (accous labels)"
        is_off = trust.predictions.answer == "no"
        advice.append(f"{what}: their labels show {'the error' if is_off else 'whether the estimate holds'}.")
    else:
        low, high = (measured.scale.shown(end) for end in (measured.error_low, measured.error_high))
        advice.append(f"Go on labelling samples of recent rows (accous labels): {_error_between(measured, low, high)}")
    return advice


def _advice(source: ReportSource) -> list[str]:
    trust, measured = source.snapshot.trust, source.snapshot.measured
    needs_fit, fit_again = _needs_fit(source), _about_fitting_again(source)
    advice = [*(fit_again if needs_fit else []), *_about_errors(trust, measured, needs_fit=needs_fit)]
    concept = "" if measured is None or measured.concept_sentence in trust.reason else measured.concept_sentence
    advice += [concept] if concept else []
    intervals = doubt_about_intervals(measured, trust) if not source.scale.is_of_classes else ""
    advice += [intervals] if intervals else []
    advice += [] if needs_fit else fit_again
    if source.snapshot.rules.verification.backtest is None:
        advice.append("If the reference has an order in time, say so (accous fit --time COL): it can be verified then.")
    if measured is None:
        advice.append(
            "All of this assumes that the same input still gets the same label as in the reference. Only labels can "
            "confirm that: pass some from time to time (accous labels, or accous adapt --label)."
        )
    return advice
