"""One line at the end of a run for each thing that was missing, with the number of tests that were left out for it."""

from collections import Counter
from collections.abc import Iterable

import pytest

_PREFIX = "Skipped: "


def left_out_lines(skipped: Iterable[pytest.TestReport | pytest.CollectReport]) -> list[str]:
    """Return, for example, "3 tests and 1 file were left out (needs X): install it", most frequent first."""
    tests: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for report in skipped:
        if isinstance(report.longrepr, tuple):  # an expected failure has another one
            reason = report.longrepr[2].removeprefix(_PREFIX)
            (files if isinstance(report, pytest.CollectReport) else tests)[reason] += 1
    return [_line(reason, tests[reason], files[reason]) for reason, _ in (tests + files).most_common()]


def _line(reason: str, n_tests: int, n_files: int) -> str:
    counts = [f"{n} {word}{'' if n == 1 else 's'}" for n, word in ((n_tests, "test"), (n_files, "file")) if n]
    missing, _, advice = reason.partition(": ")
    verb = "was" if n_tests + n_files == 1 else "were"
    return f"{' and '.join(counts)} {verb} left out ({missing}): {advice}"
