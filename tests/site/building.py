"""The site, built once for all tests of it."""

from html.parser import HTMLParser
from pathlib import Path

from tests.docs_pages import DOCS, ROOT
from tests.forks import ForkServer

# As `python -m sphinx` does, without looking for garbage again and again among a million nodes that all stay.
# Warnings of its imports are none of ours.
SPHINX = """
import gc, sys, warnings
gc.disable()
warnings.simplefilter("ignore")
from sphinx.cmd.build import main
sys.exit(main(sys.argv[1:]))
"""


def build_site(folder: Path, forks: ForkServer, builder: str = "html") -> Path:
    """Build the site as `make docs` does; a warning fails. The builder `dummy` reads everything and writes nothing."""
    options = ["--fail-on-warning", "--keep-going", "--fresh-env", "--quiet", "--builder", builder]
    # Curly quotes are for those who read what is written.
    options += ["--define", "smartquotes=0"] if builder == "dummy" else []
    # The package has been imported in the process that is forked.
    forks.run(SPHINX, *options, "--doctree-dir", folder / "trees", DOCS, folder / "site", kind="code", cwd=ROOT)
    return folder / "site"


class References(HTMLParser):
    """What a page refers to: files that it loads, links, the texts of images, and its own anchors."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self.anchors: set[str] = set()
        self.language: str | None = None
        self.n_titles = 0
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        self.anchors |= {value for name, value in attributes if name in ("id", "name") and value}
        if tag == "html":
            self.language = found.get("lang")
        if tag == "h1":
            self.n_titles += 1
        if tag == "img":
            self.images.append(found)
        if tag == "a" and found.get("href"):
            self.links.append(str(found["href"]))
        elif found.get("href") or found.get("src"):
            self.loaded.append(str(found.get("href") or found["src"]))
