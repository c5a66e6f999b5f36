"""What the specs behind a page have, but the page has no runs of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from accous_bench.protocols import PREDICT_FIRST
from accous_bench.reporting.outcomes import Outcome
from accous_bench.reporting.wording import listed
from accous_bench.spec import find_spec, read_spec, spec_names

__all__ = ["missing_lines"]

_ABOUT = ("contenders", "datasets")


def missing_lines(outcomes: Iterable[Outcome], specs: Sequence[str]) -> list[str]:
    """Return a line that names the contenders and data sets of these specs that have no finished run; none if all have.

    Specs that have no run at all are not named: a page need not show everything.
    """
    done = [outcome for outcome in outcomes if outcome.is_done and outcome.key.protocol == PREDICT_FIRST]
    words = []
    for name in specs:
        if name not in spec_names():
            continue
        spec = read_spec(find_spec(name))
        ran = {
            "contenders": {one.contender for one in done if one.spec == name},
            "datasets": {one.key.dataset for one in done if one.spec == name},
        }
        missing = [entry for kind in _ABOUT for entry in getattr(spec, kind) if entry not in ran[kind]]
        words += [f"{name}: {listed(missing)}"] if missing else []
    return [f"Contenders and data sets of the specs without a run on this page: {'; '.join(words)}."] if words else []
