"""Sentences about the results, computed from the numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median, mode

from accous.text import count
from accous_bench.protocols import BATCH_FIRST
from accous_bench.reporting.cells import ORACLE, OURS, TOLD, UNWEIGHTED, Cell, Panel
from accous_bench.reporting.comparison import TIE, Gap, against_ours, gap_closed
from accous_bench.reporting.lowest import lowest_words
from accous_bench.reporting.outcomes import MIXED_PROTOCOL
from accous_bench.reporting.pairing import Pairing, fair_pairing, have_same_rounds
from accous_bench.reporting.paper_likeness import likeness_words
from accous_bench.reporting.regret import RegretSeries, exponent_with_logs, theory_exponent
from accous_bench.reporting.significance import detectable_effect
from accous_bench.reporting.wording import (
    by_shifts,
    dataset_title,
    listed,
    per_cent,
    points,
    seed_list,
    shift_words,
    under_shifts,
)

__all__ = ["overall_findings", "panel_findings", "power_words", "regret_findings"]

_UNLIKE = 0.005
_MEASURES = {"risk": "exact risk", "error": "error on the same rounds"}


def overall_findings(panels: Iterable[Panel]) -> list[str]:
    """Return sentences on all tables: how often and by how much weighting helps, and what the oracle gains."""
    panels = list(panels)
    gains: dict[str, float] = {}
    for panel in panels:
        for shift, (fixed, ours) in _differences(panel, OURS).items():
            gains[_place(panel, shift)] = fixed - ours
    sentences = _gains(gains) if gains else []
    cells = [cell for panel in panels for cell in panel.cells.values()]
    gaps = [gap for cell in cells if (gap := gap_closed(cell, OURS, all_seeds=True)) is not None]
    n_cells = sum(bool(cell.common_seeds(OURS, UNWEIGHTED)) for cell in cells)
    return sentences + (_overall_gap(gaps, n_cells) if gaps else [])


def _place(panel: Panel, shift: str) -> str:
    reference = f", {panel.n_reference:,} reference rows" if panel.n_reference else ""
    return f"{dataset_title(panel.dataset)}{reference}, N_t = {panel.batch_size}, {shift_words(shift)}"


def _gains(gains: dict[str, float]) -> list[str]:
    hurt = {place: -gain for place, gain in gains.items() if gain < -TIE}
    n_helped = sum(gain > TIE for gain in gains.values())
    words = (
        f"Weighting by {OURS} lowers the error of {UNWEIGHTED} by more than 0.3 points in {n_helped} of "
        f"{count(len(gains), 'cell')} and raises it by more than that in {len(hurt)}; the mean gain is "
        f"{points(fmean(gains.values()))} points, from {points(min(gains.values()))} to {points(max(gains.values()))}."
    )
    sentences = [words]
    if hurt:
        places = [f"{place} (by {per_cent(loss)} points)" for place, loss in hurt.items()]
        sentences.append(f"It hurts in: {'; '.join(places)}.")
    return sentences


def _overall_gap(gaps: list[Gap], n_cells: int) -> list[str]:
    sentences = []
    wide = [gap for gap in gaps if gap.share is not None]
    if wide:
        gained = sum(gap.width * (gap.share or 0.0) for gap in wide) / sum(gap.width for gap in wide)
        sentences.append(
            f"The {ORACLE}, which knows the true ratio, gains {per_cent(fmean(gap.width for gap in wide), 1)} points "
            f"on average in the {count(len(wide), 'cell')} where it gains at least 0.1 point; {OURS} gets "
            f"{100 * gained:.0f} % of that."
        )
    if len(gaps) > len(wide):
        sentences.append(f"In {count(len(gaps) - len(wide), 'cell')}, even the {ORACLE} gains less than that.")
    if n_cells > len(gaps):
        sentences.append(f"In {count(n_cells - len(gaps), 'cell')}, nobody knows the true ratio: there is no {ORACLE}.")
    return sentences


def panel_findings(panel: Panel) -> list[str]:
    """Return sentences on one table: who is best, where weighting helps or hurts, what can be gained, the paper."""
    kinds = (lowest_words, _helped, _to_gain, _hurt, _unlike_risk, likeness_words, _significant)
    return [sentence for kind in kinds if (sentence := kind(panel))]


def _differences(panel: Panel, contender: str) -> dict[str, tuple[float, float]]:
    """Return the mean errors of FIX and of a contender over the seeds that both have, by shift.

    Shifts under which they played different rounds are left out.
    """
    found = {}
    for shift, cell in panel.cells.items():
        seeds = cell.common_seeds(contender, UNWEIGHTED)
        if seeds and have_same_rounds(cell, (contender, UNWEIGHTED), seeds):
            found[shift] = _means(cell, contender, Pairing("error", seeds))
    return found


def _means(cell: Cell, contender: str, pairing: Pairing) -> tuple[float, float]:
    """Return the means of FIX and of a contender."""
    fixed, other = (fmean(cell.entries[name].values(*pairing)) for name in (UNWEIGHTED, contender))
    return fixed, other


def _helped(panel: Panel) -> str:
    pairs = _differences(panel, OURS)
    if not pairs:
        return ""
    lower = [shift for shift, (fixed, ours) in pairs.items() if fixed - ours > TIE]
    higher = [shift for shift, (fixed, ours) in pairs.items() if ours - fixed > TIE]
    same = [shift for shift in pairs if shift not in lower and shift not in higher]
    words = []
    if lower:
        words.append(f"lowers the error under {_moves(pairs, lower)}")
    if higher:
        words.append(f"raises the error under {_moves(pairs, higher)}")
    if same:
        words.append(f"changes the error by at most 0.3 points under {_moves(pairs, same)}")
    seeds = {shift: panel.cells[shift].common_seeds(OURS, UNWEIGHTED) for shift in pairs}
    return (
        f"Compared with a classifier that never adapts ({UNWEIGHTED}), weighting by {OURS} "
        f"{'; it '.join(words)}{_seed_words(panel, seeds)}."
    )


def _moves(pairs: dict[str, tuple[float, float]], shifts: Iterable[str]) -> str:
    moves = {shift: [per_cent(error, 1) for error in pairs[shift]] for shift in shifts}
    return listed([f"{shift_words(shift)} ({before} to {after} %)" for shift, (before, after) in moves.items()])


def _to_gain(panel: Panel) -> str:
    gains, nothing = [], []
    seeds: dict[str, Sequence[int]] = {}
    for shift, cell in panel.cells.items():
        gap = gap_closed(cell, OURS, all_seeds=True)
        if gap is None:
            continue
        seeds[shift] = gap.seeds
        if gap.share is None:
            nothing.append(shift)
        else:
            gains.append(f"{per_cent(gap.width, 1)} points under {shift_words(shift)} ({100 * gap.share:.0f} %)")
    words = []
    if gains:
        words.append(f"Gain of the true ratio ({ORACLE}), and the share of it that {OURS} gets: {', '.join(gains)}")
    if nothing:
        words.append(f"Even the true ratio gains less than 0.1 point {under_shifts(nothing, len(panel.cells))}")
    return " ".join(f"{sentence}{_seed_words(panel, seeds)}." for sentence in words)


def _seed_words(panel: Panel, seeds: Mapping[str, Sequence[int]]) -> str:
    """Return the seeds behind a sentence if they are not those of the table: words on all seeds that there are.

    Different shifts may have different seeds; then the smallest set is named.
    """
    if all(list(found) == panel.cells[shift].seeds for shift, found in seeds.items()):
        return ""
    fewest = min(seeds.values(), key=len)
    at_least = "" if len({tuple(found) for found in seeds.values()}) == 1 else "at least "
    return f" ({at_least}{'seed' if len(fewest) == 1 else 'seeds'} {seed_list(list(fewest))})"


def _hurt(panel: Panel) -> str:
    """Return the contenders that do worse than without weighting, grouped by shifts, and those that none can judge."""
    worse: dict[str, list[str]] = {}
    unknown: dict[str, list[str]] = {}
    measures = set()
    for name in panel.contenders:
        for shift, cell in panel.cells.items() if name not in (UNWEIGHTED, OURS, *TOLD) else ():
            pairing = fair_pairing(cell, name, UNWEIGHTED)
            if pairing is None:
                unknown.setdefault(name, []).extend([shift] if cell.common_seeds(name, UNWEIGHTED) else [])
                continue
            fixed, other = _means(cell, name, pairing)
            if other - fixed > TIE:
                measures.add(pairing.measure)
                worse.setdefault(name, []).append(shift)
    words = []
    if worse:
        by = " or ".join(_MEASURES[measure] for measure in _MEASURES if measure in measures)
        words.append(f"Worse than {UNWEIGHTED} by more than 0.3 points of {by}: {by_shifts(worse, len(panel.cells))}.")
    if left_out := by_shifts(unknown, len(panel.cells)):
        words.append(f"Without an exact risk and on other rounds than {UNWEIGHTED}, so not compared: {left_out}.")
    return " ".join(words)


def _unlike_risk(panel: Panel) -> str:
    """Describe where the error on the stream differs from the exact risk of the same models by more than chance."""
    found: dict[str, float] = {}
    for name in panel.contenders if panel.protocol in (BATCH_FIRST, MIXED_PROTOCOL) else ():
        gaps = [
            fmean(cell.entries[name].values("error", seeds)) - fmean(cell.entries[name].values("risk", seeds))
            for cell in panel.cells.values()
            if (seeds := [seed for seed in cell.common_seeds(name, measure="risk") if seed in cell.common_seeds(name)])
        ]
        if gaps and abs(fmean(gaps)) > _UNLIKE:
            found[name] = fmean(gaps)
    if not found:
        return ""
    words = listed([f"{name} ({points(gap)} points)" for name, gap in found.items()])
    return (
        f"On average over the shifts, the error differs from the exact risk for {words}. A contender that learns from "
        "a batch before it predicts it can fit the rows it is asked about, while the risk is the error of its model on "
        "fresh rows. Shares of the gap are computed from the risk."
    )


def _significant(panel: Panel) -> str:
    tests = [test for test in against_ours(panel).values() if test.adjusted_p is not None]
    if not tests:
        return ""
    found = [test for test in tests if test.is_significant]
    better = sum(test.test.difference > 0 for test in found)
    verb = "is" if len(found) == 1 else "are"
    words = f"Of {count(len(tests), 'tested difference')} from {OURS}, {len(found) or 'none'} {verb} significant"
    words += f" after the correction: {better} in its favour, {len(found) - better} against it" if found else ""
    return f"{words}. {power_words(panel)}"


def power_words(panel: Panel) -> str:
    """Describe how large a difference must be to be found with so few seeds."""
    tests = [test.test for test in against_ours(panel).values() if test.adjusted_p is not None]
    if not tests:
        return ""
    n = mode(test.n for test in tests)
    single, first = detectable_effect(n), detectable_effect(n, 0.05 / len(tests))
    if single is None or first is None:
        return ""
    typical = median(test.std or 0.0 for test in tests if test.n == n)
    return (
        f"With n = {n} seeds, a single test finds a difference of {single:.1f} standard deviations of the paired "
        f"differences (here typically {per_cent(single * typical)} points) four times in five. In the first step of "
        f"the correction, it takes {first:.1f} standard deviations. A difference that is not significant can still be "
        "real."
    )


def regret_findings(series: list[RegretSeries]) -> list[str]:
    """Return sentences on the growth of the regret, compared with the theory."""
    sentences = []
    for one in series:
        theory = theory_exponent(one.key.shift)
        if one.exponent is None:
            continue
        error = "" if one.standard_error is None else f" ± {one.standard_error:.2f} (standard error)"
        words = f"{one.contender}, {one.key.shift}: the regret grows like T^{one.exponent:.2f}{error}"
        if theory is not None:
            with_logs = exponent_with_logs(one.key.shift, one.lengths)
            words += f"; the theory's bound grows like T^{theory:.2f}, with two logarithms like T^{with_logs:.2f} over "
            words += "these lengths, plus T / N_0"
            words += f" with N_0 = {one.key.n_reference:,}" if one.key.n_reference else ""
        sentences.append(words + ".")
    return sentences
