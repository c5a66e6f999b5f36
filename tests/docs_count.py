"""How many blocks of the documentation run as tests: ``python -m tests.docs_count``."""

import textwrap
from collections import Counter
from pathlib import Path

from tests.docs_left_out import COMMANDS_LEFT_OUT, PAGES_LEFT_OUT
from tests.docs_pages import DOCS, FENCE, GUIDES, SESSIONS
from tests.docs_sessions import FILE_NAME, bare, steps_of

SHELLS = ("bash", "console", "sh")
RUN_ELSEWHERE = {DOCS / "service.md"}  # by a test of its own


def kinds_of(page: Path) -> Counter[str]:
    """Count the blocks of a page that hold code or what it prints: run, compared, written, or left out."""
    counts: Counter[str] = Counter()
    for fence in FENCE.finditer(page.read_text(encoding="utf-8")):
        code = textwrap.dedent(fence["code"])
        if fence["word"] == "no-test":
            counts["left out"] += fence["language"] in ("python", *SHELLS)
        elif fence["language"] == "python":
            counts["python"] += 1
        elif fence["language"] == "console" and _is_run(page, code):
            counts["console"] += 1
        elif fence["language"] in SHELLS:
            counts["left out"] += 1
        elif page in SESSIONS and (fence["word"] == "output" or FILE_NAME.match(code)):
            counts["output or file"] += 1
    return counts


def _is_run(page: Path, code: str) -> bool:
    if page in PAGES_LEFT_OUT:
        return page in RUN_ELSEWHERE
    return any(bare(command) not in COMMANDS_LEFT_OUT.get(page, {}) for command, _ in steps_of(code))


def main() -> None:
    """Print the sums over all pages."""
    total: Counter[str] = Counter()
    for page in (*GUIDES, *SESSIONS):
        total += kinds_of(page)
    n_run = total.total() - total["left out"]
    print(f"{n_run} blocks run on {len(GUIDES) + len(SESSIONS)} pages, {total['left out']} are left out:", dict(total))


if __name__ == "__main__":
    main()
