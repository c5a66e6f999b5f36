"""The sentences of a report: the verdict, how far the inputs moved, and what to do."""

from __future__ import annotations

from dataclasses import dataclass

from accous.diagnostics.labels import MeasuredError, doubt_about_intervals
from accous.diagnostics.losses import interval_in_words
from accous.diagnostics.trust import COVERED, FEWEST_RECENT_ROWS, Trust, verdict_in_words
from accous.parameters import listed
from accous.report.changes import changes_in_words
from accous.report.subject import Subject
from accous.table.columns import CATEGORIES, NEW_VALUES
from accous.table.summary import no_better_in_words
from accous.text import count

__all__ = ["Verdict", "answer_rows", "judge_in_words"]

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


def judge_in_words(subject: Subject) -> Verdict:
    """Describe the model's diagnostics in sentences."""
    trust = subject.trust
    no_better = "" if subject.table is None else no_better_in_words(subject.table.settings)
    if subject.model.n_rounds_ == 0:
        none, first = "No batch has been seen yet.", ["Run accous adapt on a stream first."]
        return Verdict("none", "no data yet", "Nothing to report yet", none, no_better, first)
    reason = f"{trust.reason} {no_better}".rstrip()
    return Verdict(_TONES[trust.verdict], _badge(trust), _headline(subject), _moved(subject), reason, _advice(subject))


def _badge(trust: Trust) -> str:
    """Return the verdict with the answers that it is about: others may be better."""
    if trust.verdict == "contradicted":
        return f"contradicted by {trust.contradicted_by}: estimate"
    return verdict_in_words(trust.verdict, {name: getattr(trust, name).answer for name in trust.sentences})


def answer_rows(subject: Subject) -> list[tuple[str, str, str]]:
    """Return the three questions, each with its answer and a sentence."""
    trust = subject.trust
    questions = {
        "Does the reference cover the inputs?": trust.inputs,
        "Is the adapted model better than the fixed one?": trust.adaptation,
        "Can you believe the estimated error?": trust.predictions,
    }
    return [(question, each.answer, each.sentence) for question, each in questions.items()]


def _headline(subject: Subject) -> str:
    trust, measured = subject.trust, subject.measured
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
    return _headline_of_inputs(subject)


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


def _headline_of_inputs(subject: Subject) -> str:
    """Say how the inputs lie beside the reference, if nothing speaks against the model."""
    trust = subject.trust
    if 0 < subject.coverage.n_rows < FEWEST_RECENT_ROWS:
        return "There are too few rows so far to compare them with the reference"
    if trust.is_reference_new:
        return "Rows have joined the reference; how the inputs lie beside it shows in the next rounds"
    if subject.moved_share < _HARDLY or subject.moved_rows == 0:
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


def _moved(subject: Subject) -> str:
    text = _how_far(subject)
    leading = [f"{name} ({share:.0%})" for name, share in subject.column_shares()[:3] if share >= 0.05]
    if leading and subject.moved_share >= _HARDLY and subject.moved_rows != 0:
        text += f" Columns that moved most: {', '.join(leading)}."
    changes = changes_in_words(subject)
    text += f" {changes}" if changes else ""
    return f"{text} The {'fixed' if _fixed_is_in_use(subject.trust) else 'adapted'} model is in use."


def _how_far(subject: Subject) -> str:
    """Say how far the weights moved, and the inputs with them if more rows than the latest ones show it."""
    moved = subject.moved_share
    weights = f"the weights of the reference rows changed by {moved:.0%}"
    if subject.trust.is_reference_new:
        return (
            f"Rows have joined the reference: the weights of its rows ({moved:.0%} away from equal) are those before."
        )
    if subject.trust.inputs.answer == "no" and moved < _SOMEWHAT:
        # No weight of the reference can follow inputs that it does not have.
        return f"The weights of the reference rows changed by {moved:.0%}, but they cannot follow inputs that it lacks."
    if moved < _HARDLY:
        return f"The inputs have moved very little: {weights}."
    rows = subject.moved_rows
    if rows == 0:
        recent = count(subject.coverage.n_rows, "row")
        return f"The last {recent} hardly differ from the reference; {weights}: they follow the latest rows."
    over = f" over the last {count(rows, 'row')}" if rows else ""
    return f"The inputs have moved {'somewhat' if moved < _SOMEWHAT else 'far'}{over}: {weights}."


def _about_fitting_again(subject: Subject) -> list[str]:
    """Return what only a new fit learns: rows that join the reference keep the features that its columns became."""

    def columns(kind: str) -> list[str]:
        return [each.column for each in subject.coverage.columns if each.kind == kind]

    advice = []
    if of_categories := columns(CATEGORIES):
        advice.append(
            f"To learn the new categories of {listed(of_categories)}, run accous fit again: accous extend does not "
            "teach them."
        )
    if left_out := columns(NEW_VALUES):
        advice.append(
            f"To use {listed(left_out)}, run accous fit again on rows in which the values differ: the model leaves "
            f"{'it' if len(left_out) == 1 else 'them'} out, and accous extend does not change that."
        )
    return advice


def _needs_fit(subject: Subject) -> bool:
    """Whether many recent rows show what only a new fit learns."""
    kinds = (CATEGORIES, NEW_VALUES)
    found = (each.share - each.expected > COVERED for each in subject.coverage.columns if each.kind in kinds)
    return subject.trust.inputs.answer == "no" and any(found)


def _about_errors(trust: Trust, measured: MeasuredError | None, *, needs_fit: bool) -> list[str]:
    """Return what to rely on, and which labels would tell more."""
    join = "take them into the reference of that fit" if needs_fit else "add them to the reference (accous extend)"
    is_measured = measured is not None and measured.is_exact and not measured.is_outdated
    advice = []
    if measured is not None and measured.contradicts_now:
        advice.append("Rely on the measured error. Do not rely on estimates without labels.")
        of_fit = "Take labelled rows of now into the reference of that fit."
        advice.append(of_fit if needs_fit else "Add labelled rows to the reference (accous extend).")
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


def _advice(subject: Subject) -> list[str]:
    trust, measured = subject.trust, subject.measured
    needs_fit, fit_again = _needs_fit(subject), _about_fitting_again(subject)
    advice = [*(fit_again if needs_fit else []), *_about_errors(trust, measured, needs_fit=needs_fit)]
    concept = "" if measured is None or measured.concept_sentence in trust.reason else measured.concept_sentence
    advice += [concept] if concept else []
    intervals = doubt_about_intervals(measured, trust) if not subject.scale.is_of_classes else ""
    advice += [intervals] if intervals else []
    advice += [] if needs_fit else fit_again
    if subject.model.backtest_ is None:
        advice.append("If the reference has an order in time, say so (accous fit --time COL): it can be verified then.")
    if measured is None:
        advice.append(
            "All of this assumes that the same input still gets the same label as in the reference. Only labels can "
            "confirm that: pass some from time to time (accous labels, or accous adapt --label)."
        )
    return advice
