"""Formats numbers and names for the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from accous_bench.problems import get_problem, problem_names
from accous_bench.protocols import BATCH_FIRST, FRESH_ROWS, PREDICT_FIRST
from accous_bench.reporting.document import DASH
from accous_bench.reporting.outcomes import MIXED_PROTOCOL

__all__ = [
    "by_shifts",
    "dataset_title",
    "drawn",
    "listed",
    "p_value",
    "panel_title",
    "per_cent",
    "plus_minus",
    "points",
    "seed_list",
    "shift_words",
    "under_shifts",
]

_PROTOCOL_WORDS = {
    FRESH_ROWS: ", scored on fresh rows",
    BATCH_FIRST: ", learning first",
    MIXED_PROTOCOL: ", before there were protocols: DANN, KMM, KLIEP, uLSIF, LR and the oracle learn first",
}


def dataset_title(name: str) -> str:
    """Return the printed name of a data set: the title of its problem if it is registered here."""
    return get_problem(name).title if name in problem_names() else name


def drawn(name: str) -> str:
    """Escape a user's name for a figure, where dollar signs would start a formula."""
    return name.replace("$", r"\$")


def panel_title(dataset: str, n_reference: int, batch_size: int, protocol: str = PREDICT_FIRST) -> str:
    """Data set, reference and batch size, and the protocol unless it is the usual one."""
    reference = f", {n_reference:,} reference rows" if n_reference else ""
    return f"{dataset_title(dataset)}, N_t = {batch_size}{reference}{_PROTOCOL_WORDS.get(protocol, '')}"


def shift_words(shift: str) -> str:
    """A shift's name in a sentence."""
    return {"natural": "natural drift", "none": "no shift"}.get(shift, shift)


def per_cent(share: float | None, decimals: int = 2) -> str:
    """A share in per cent, without the sign."""
    return DASH if share is None else f"{100.0 * share:.{decimals}f}"


def plus_minus(mean: float | None, std: float | None) -> str:
    """Mean and standard deviation in per cent."""
    return per_cent(mean) if std is None else f"{per_cent(mean)} ± {per_cent(std)}"


def points(difference: float) -> str:
    """A difference of shares in points, with its sign."""
    rounded = round(100.0 * difference, 2)
    return f"{rounded:+.2f}".replace("-", "\N{MINUS SIGN}") if rounded else "0.00"


def p_value(p: float | None) -> str:
    """Return p with three decimals, or "p < 0.001"."""
    if p is None:
        return DASH
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence: "a, b and c"."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def under_shifts(shifts: Sequence[str], n_shifts: int) -> str:
    """Where something holds: "under Lin and Sin", or "under all shifts" of a table with so many."""
    if len(shifts) > 1 and len(shifts) == n_shifts:
        return "under all shifts"
    return f"under {listed([shift_words(shift) for shift in shifts])}" if shifts else ""


def by_shifts(shifts_of: Mapping[str, Sequence[str]], n_shifts: int) -> str:
    """Names with the shifts of each, those with the same shifts together: "a and b under Lin; c under all shifts"."""
    names_of: dict[str, list[str]] = {}
    for name, shifts in shifts_of.items():
        names_of.setdefault(under_shifts(shifts, n_shifts), []).append(name)
    return "; ".join(f"{listed(names)} {where}" for where, names in names_of.items() if where)


def seed_list(seeds: Sequence[int]) -> str:
    """Return the seeds as text; long lists are shortened."""
    shown = [str(seed) for seed in seeds[:5]]
    return listed(shown) if len(seeds) <= 5 else f"{', '.join(shown)} and {len(seeds) - 5} more"
