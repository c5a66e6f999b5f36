"""The pages of the documentation, and the blocks in them."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
# Their Python runs, each page in one namespace.
GUIDES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
# Everything on them runs, in order and in one folder, and what it prints is compared.
SESSIONS = sorted(path for path in DOCS.glob("*/*.md") if path.parent.name not in ("development", "generated"))
PAGES = [*GUIDES, *SESSIONS, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]

FENCE = re.compile(
    r"^(?P<note>[ \t]*<!-- (?P<word>no-test|output|prints nothing|exit code (?P<code_expected>\d+)) -->\s*\n)?"
    r"(?P<indent>[ \t]*)```(?P<language>\S*)[^\n]*\n"
    r"(?P<code>.*?)"
    r"^(?P=indent)```[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
CODE_SPAN = re.compile(r"`([^`\n]+)`")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
