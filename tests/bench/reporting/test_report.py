"""The whole report: written from rows, written again from its aggregates, and whole where something is odd."""

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from accous_bench.reporting.report import write_report
from tests.bench.reporting.rows import (
    make_failure,
    make_row,
    natural_rows,
    regret_rows,
    switch_rows,
    table_rows,
    write_rows,
)

ROWS = ("tables", "figures", "natural", "regret")
TABLES = ("report.md", "report.tex", "report.html", "aggregates.json")


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on rows of every kind."""
    base = tmp_path_factory.mktemp("bench")
    other = table_rows(dataset="diabetes", n_reference=200, batch_sizes=(5,), shifts=("Lin",), risk=None)
    rows = [*table_rows(batch_sizes=(1,)), *other]
    kinds = [rows, switch_rows(), natural_rows(), regret_rows()]
    write_report([write_rows(base / name, kind) for name, kind in zip(ROWS, kinds, strict=True)], base / "report")
    return base / "report"


@pytest.mark.slow
def test_all_files_are_written(everything: Path) -> None:
    assert {path.name for path in everything.iterdir()} == {*TABLES, "figures"}
    figures = {path.stem for path in (everything / "figures").glob("*.svg")}
    assert figures == {path.stem for path in (everything / "figures").glob("*.png")}
    assert figures == {
        "comparison-gaussian-1000",
        "risk-gaussian-1000",
        "comparison-diabetes-200",
        "comparison-natural",
        "drift",
        "weights-gaussian-1000-1-squ-400-accous",
        "switches-gaussian-1000-1-squ-400",
        "regret-moving-gaussian-10000-1",
    }


@pytest.mark.slow
def test_the_same_tables_come_from_its_aggregates(everything: Path, tmp_path: Path) -> None:
    write_report([everything.parent / name for name in ROWS], tmp_path / "rows", has_figures=False)
    write_report([everything / "aggregates.json"], tmp_path / "aggregates", has_figures=False)
    for name in TABLES:
        assert (tmp_path / "aggregates" / name).read_text() == (tmp_path / "rows" / name).read_text()


@pytest.mark.slow
def test_the_same_report_comes_from_its_aggregates(everything: Path, tmp_path: Path) -> None:
    write_report([everything / "aggregates.json"], tmp_path)
    for name in TABLES:
        assert (tmp_path / name).read_text() == (everything / name).read_text()
    for figure in (everything / "figures").glob("*.svg"):
        assert (tmp_path / "figures" / figure.name).read_text() == figure.read_text()


def test_aggregates_are_small(everything: Path) -> None:
    assert (everything / "aggregates.json").stat().st_size < 150_000


def test_markdown_shows_ours_beside_the_papers(everything: Path) -> None:
    text = (everything / "report.md").read_text()
    (line,) = [
        line
        for line in text.split("## Gaussians (reconstructed), N_t = 1")[1].split("\n")
        if line.startswith("| Accous |") and "29.30 ± 0.82" in line
    ]
    assert "27.69 ± 0.49" in line
    assert "**2" in line
    assert "reconstruction of the geometry" in text


def test_markdown_tables_are_rectangular(everything: Path) -> None:
    tables = re.findall(r"(?:^\|.*\|\n)+", (everything / "report.md").read_text(), re.MULTILINE)
    assert len(tables) > 8
    for table in tables:
        assert len({line.count("|") for line in table.strip().split("\n")}) == 1


class _Elements(HTMLParser):
    """Collects the elements, and complains about those not closed."""

    void = ("meta", "br", "link", "img")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_html_is_whole_and_asks_for_nothing_from_elsewhere(everything: Path) -> None:
    text = (everything / "report.html").read_text()
    page = _Elements()
    page.feed(text)
    assert page.open == []
    tags = {tag for tag, _ in page.seen}
    assert not tags & {"script", "link", "iframe", "object"}
    assert sum(tag == "svg" for tag, _ in page.seen) == 8
    for _, attributes in page.seen:
        for name in ("src", "href", "xlink:href"):
            target = attributes.get(name) or "#"
            assert target.startswith(("#", "data:"))
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)


def test_html_ids_are_unique_and_links_lead_to_them(everything: Path) -> None:
    page = _Elements()
    page.feed((everything / "report.html").read_text())
    ids = [attributes["id"] for _, attributes in page.seen if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = {a.get("href") or a.get("xlink:href") for _, a in page.seen if a.get("href") or a.get("xlink:href")}
    assert {link[1:] for link in links if link and link.startswith("#")} <= set(ids)


def test_names_cannot_write_markup(tmp_path: Path) -> None:
    name = "<script>alert(1)</script> | $x_1$ & $\\bad$ %\\[y]"
    rows = [make_row(contender, seed) for contender in ("FIX", "Accous", name) for seed in (0, 1)]
    rows.append(make_failure("LR", 0, reason="<img src=x> 5 % of $n_0$ \\ {"))
    write_report([write_rows(tmp_path / "rows", rows)], tmp_path / "out")
    html = (tmp_path / "out" / "report.html").read_text()
    assert "<script" not in html
    assert "<img" not in html
    assert "&lt;script&gt;" in html
    latex = (tmp_path / "out" / "report.tex").read_text()
    assert r"\$x\_1\$ \& \$\textbackslash{}bad\$ \%\textbackslash{}{[}y{]}" in latex
    markdown = (tmp_path / "out" / "report.md").read_text()
    assert "<script" not in markdown
    assert r"\| $x_1$" in markdown


@pytest.mark.skipif(
    shutil.which("pdflatex") is None,
    reason="needs pdflatex: install TeX, for example by apt install texlive-latex-recommended",
)
def test_latex_compiles(everything: Path, tmp_path: Path) -> None:
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", f"-output-directory={tmp_path}", "report.tex"]
    done = subprocess.run(command, cwd=everything, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-2000:]
    assert (tmp_path / "report.pdf").stat().st_size > 10_000


def test_latex_opens_and_closes_what_it_sets(everything: Path) -> None:
    text = (everything / "report.tex").read_text()
    for name in set(re.findall(r"\\begin\{(\w+)\}", text)):
        assert text.count(rf"\begin{{{name}}}") == text.count(rf"\end{{{name}}}")
    assert text.count(r"\toprule") == text.count(r"\bottomrule") == text.count(r"\begin{tabular}")
    assert text.isascii()
