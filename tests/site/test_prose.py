"""How much there is to read outside of tables and code, and in how long sentences."""

import re
from statistics import median, quantiles

from tests.docs_pages import DOCS, FENCE, ROOT, name_of

PAGES = sorted([*ROOT.glob("*.md"), *(page for page in DOCS.rglob("*.md") if page.parent.name != "generated")])
NO_TEXT = re.compile(r"^ *(?:[|#:<\]]|!\[|    ).*$|^\$\$.*|\]\([^)]*\)", re.MULTILINE)


# Captions of tables, and what is no measured number: dates, versions, code, and numbers of one digit.
CAPTION = re.compile(r"^ *(?:\*.*\*|\[\d\] .*)$", re.MULTILINE)
NO_FIGURE = re.compile(r"`[^`]*`|\d{4}-\d\d-\d\d|(?:Python|Java|CC BY|doi:)\S* ?[\d./A-Z]*|\b\d+, \d+, \d+, \.\.\.")
FIGURE = re.compile(r"(?<![\w.,/-])\d[\d,.]*\d(?: (?:to|x|of) \d[\d,.]*)?(?![\w-])")


def words_of(page):
    """The words of a page outside of its tables and code."""
    lines = FENCE.sub("", page.read_text(encoding="utf-8")).splitlines()
    return [word for line in lines if not line.lstrip().startswith("|") for word in line.split()]


def sentences_of(page):
    """The sentences outside of tables and code; an item of a list ends one."""
    text = NO_TEXT.sub("", FENCE.sub("\n\n", page.read_text(encoding="utf-8")))
    blocks = re.split(r"\n\s*\n|\n *(?:[-*]|\d+\.) ", text)
    sentences = [each for block in blocks for each in re.split(r"(?<=[.!?])[\"*)_]*\s+(?=[^a-z])", block)]
    return [each for each in sentences if each.split()]


def test_the_documentation_can_be_read():
    words = {name_of(page): len(words_of(page)) for page in PAGES}
    assert sum(words.values()) <= 30_000
    assert {name: n for name, n in words.items() if n > 2_000} == {}
    assert words["README.md"] <= 600


def test_sentences_are_short():
    lengths = {name_of(page): [len(each.split()) for each in sentences_of(page)] for page in PAGES}
    assert sum(map(len, lengths.values())) > 1_000
    typical = {name: median(each) for name, each in lengths.items() if len(each) > 1}
    assert {name: found for name, found in typical.items() if found >= 25} == {}
    longest = {name: quantiles(each, n=10)[8] for name, each in lengths.items() if len(each) >= 10}
    assert {name: found for name, found in longest.items() if found > 35} == {}


def test_a_sentence_has_one_number():
    crowded = []
    for page in PAGES:
        for sentence in sentences_of(page):
            found = FIGURE.findall(NO_FIGURE.sub("", CAPTION.sub("", sentence)))
            crowded += [(name_of(page), found, " ".join(sentence.split()))] if len(found) > 1 else []
    assert crowded == []


def test_the_readme_shows_real_rows_first_and_is_quick_to_try():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.index('src="docs/images/demo.png"') < text.index("```python")
    assert text.index("<!-- table gallery errors -->") < text.index("simulated streams")
    blocks = [[line for line in fence["code"].splitlines() if line] for fence in FENCE.finditer(text)]
    assert [len(block) for block in blocks] == [2, 9, 6]


def test_the_changelog_tells_a_version_in_sixty_lines():
    versions = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert [version.partition("\n")[0] for version in versions if len(version.splitlines()) > 60] == []
