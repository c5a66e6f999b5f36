"""The tables of tested differences from Accous: under each shift, and the tally over all cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from accous.text import count
from accous_bench.reporting.cells import OURS, Panel
from accous_bench.reporting.comparison import AgainstOurs, Tally, against_ours
from accous_bench.reporting.document import DASH, Notes, Row, Table, Text
from accous_bench.reporting.wording import p_value, points

__all__ = ["difference_table", "tally_table"]

_BY_ERROR = "By the error, in the same rounds, since an exact risk is not known."
_OTHER_ROUNDS = "By errors over different rounds, since an exact risk is not known: not tested."
_OTHER_ROUNDS_OF_SOME = (
    f"Played fewer rounds than {OURS} in some of these cells: part of the wins and losses may be chance, and the mean "
    "is not tested."
)


def difference_table(panel: Panel) -> Table | None:
    """Return the table of differences from Accous, tested where possible; None without a contender to compare with."""
    found = against_ours(panel)
    if not found:
        return None
    notes = Notes()
    by_risk = any(against.measure == "risk" for against in found.values())
    names = [name for name in panel.rivals if any((name, shift) in found for shift in panel.cells)]
    rows = []
    for name in names:
        cells = [_difference_text(found.get((name, shift)), notes, by_risk=by_risk) for shift in panel.cells]
        rows.append(Row([Text(name), *cells]))
    what, rounds = ("Exact risk", ", each over the rounds in which it was scored") if by_risk else ("Error", "")
    lower = f"positive: {OURS} has the lower {'risk' if by_risk else 'error'}"
    caption = f"{what} minus that of {OURS}, in points ({lower}){rounds}{_words_on_tests(found.values())}."
    return Table(caption, ["contender", *panel.cells], rows, notes=notes.all())


def _words_on_tests(found: Iterable[AgainstOurs]) -> str:
    """Announce the test if there is one, or say why there is none."""
    found = list(found)
    pairs = sorted({against.test.n for against in found if against.adjusted_p is not None})
    if not pairs:
        return f"; {_why_untested(found)}"
    n_tests = sum(against.adjusted_p is not None for against in found)
    return (
        f", with the p-value of the paired t-test over n = {' or '.join(map(str, pairs))} seeds after Holm's "
        f"correction for the {count(n_tests, 'comparison')} of this table. Bold: below 5 %"
    )


def _why_untested(found: Sequence[AgainstOurs]) -> str:
    if not found:
        return "no seed is shared by all cells, so nothing is tested"
    n_pairs = max((against.test.n for against in found if against.is_paired), default=0)
    reasons = {
        0: "errors over different rounds are not tested",
        1: "one seed cannot be tested",
        2: "two seeds are too few for a test",
    }
    return reasons.get(n_pairs, "differences that are the same for all seeds cannot be tested")


def _difference_text(against: AgainstOurs | None, notes: Notes, *, by_risk: bool) -> Text:
    if against is None:
        return Text(DASH)
    remarks = [] if against.is_paired else [_OTHER_ROUNDS]
    if by_risk and against.is_paired and against.measure == "error":
        remarks.append(_BY_ERROR)
    return _test_text(against, notes.marks(remarks))


def _test_text(against: AgainstOurs | None, marks: tuple[str, ...] = ()) -> Text:
    if against is None:
        return Text(DASH)
    words = points(against.test.difference)
    if against.adjusted_p is not None:
        words += f" ({p_value(against.adjusted_p)})"
    return Text(words, against.is_significant, marks)


def tally_table(tallies: list[Tally], measure: str = "error") -> Table:
    """Return the table of wins, ties and losses of Accous, with the test over all cells."""
    notes = Notes()
    rows = []
    for one in tallies:
        n_pairs = DASH if one.pooled is None else str(one.pooled.test.n)
        counts = [str(one.wins), str(one.ties), str(one.losses)]
        is_sampled = one.pooled is not None and not one.pooled.is_paired
        difference = _test_text(one.pooled, notes.marks([_OTHER_ROUNDS_OF_SOME] if is_sampled else []))
        rows.append(Row([Text(one.contender), *map(Text, counts), difference, Text(n_pairs)]))
    words = "error" if measure == "error" else "exact risk, where it is known,"
    pooled = [one.pooled for one in tallies if one.pooled is not None]
    test = (
        "with the paired t-test over n seeds (averaged over the cells first; Holm's correction over the contenders)"
        if any(against.adjusted_p is not None for against in pooled)
        else f"averaged over n seeds; {_why_untested(pooled)}"
    )
    caption = (
        f"{OURS} against each contender by the {words} in cells of data set, batch size and shift: lower by more than "
        "0.3 points (win), higher by more than that (loss), or neither (tie). Then the mean difference over all of "
        f"them, {test}."
    )
    headings = ["against", "wins", "ties", "losses", "mean difference, points", "n"]
    return Table(caption, headings, rows, notes=notes.all())
