"""The whole report: written from rows, written again from its aggregates, and whole where something is odd."""

import builtins
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from accous.exceptions import DataError, ParameterError
from accous_bench.reporting.aggregate import aggregate_rows, merge, read_aggregates, write_aggregates
from accous_bench.reporting.cells import make_panels
from accous_bench.reporting.figures import draw_figures
from accous_bench.reporting.report import read_inputs, write_report
from accous_bench.reporting.wins import paper_wins
from tests.bench.reporting.rows import make_failure, make_row, natural_rows, regret_rows, switch_rows, table_rows

ROWS = ("tables", "figures", "natural", "regret")
TABLES = ("report.md", "report.tex", "report.html", "aggregates.json")


def write_rows(folder: Path, rows: list[dict[str, Any]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


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


# --- where something is odd --------------------------------------------------------------------------------------


def report_on(tmp_path: Path, rows: list[dict[str, Any]], *, has_figures: bool = False) -> str:
    """The tables, and the figures too where the rows are odd ones to draw."""
    write_report([write_rows(tmp_path / "rows", rows)], tmp_path / "out", has_figures=has_figures)
    return (tmp_path / "out" / "report.md").read_text()


def test_an_empty_folder_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no benchmark rows"):
        write_report([tmp_path], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_missing_folder_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="There is no folder or file"):
        read_inputs([tmp_path / "nowhere"])


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"kind": "something else"}', "\x00"])
def test_a_file_that_holds_no_aggregates_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(DataError, match=r"a\.json"):
        read_inputs([tmp_path / "a.json"])


def test_only_failures_give_dashes_and_reasons(tmp_path: Path) -> None:
    text = report_on(
        tmp_path, [make_failure("Accous", 0, "no memory"), make_failure("FIX", 0, "no memory")], has_figures=True
    )
    assert "| Accous | – <sup>a</sup> |" in text
    assert "Failed for seed 0: no memory." in text


def test_one_seed_has_neither_spread_nor_test(tmp_path: Path) -> None:
    text = report_on(tmp_path, [make_row(name, 0) for name in ("FIX", "LR", "Accous", "oracle")], has_figures=True)
    assert "One seed only: no standard deviation and no test." in text
    assert "p =" not in text
    assert "| LR | 35.00 | 36.21 ± 0.46 |" in text


def test_the_limit_is_explained_where_it_takes_part(tmp_path: Path) -> None:
    names = ("FIX", "LR", "Accous", "limit", "oracle")
    sentence = "The limit does not count either"
    with_limit, without = tmp_path / "with", tmp_path / "without"
    for folder in (with_limit, without):
        folder.mkdir()
    assert sentence in report_on(with_limit, [make_row(name, 0) for name in names])
    assert sentence not in report_on(without, [make_row(name, 0) for name in names if name != "limit"])


def test_contenders_that_the_paper_does_not_know_have_a_dash(tmp_path: Path) -> None:
    text = report_on(tmp_path, [make_row(name, seed) for name in ("mine", "Accous") for seed in (0, 1)])
    assert re.search(r"\| mine \| 30.00 ± 0.00 \| – \|", text)


def test_without_ours_nothing_is_compared(tmp_path: Path) -> None:
    text = report_on(tmp_path, [make_row(name, seed) for name in ("FIX", "LR") for seed in (0, 1)], has_figures=True)
    assert "No contender shares a stream with Accous" in text


def test_fewer_seeds_rounds_and_failures_are_said_in_footnotes(tmp_path: Path) -> None:
    rows = [make_row(name, seed, error=0.3 + 0.01 * seed) for name in ("FIX", "Accous") for seed in (0, 1, 2)]
    rows += [make_row(name, 3, error=0.31) for name in ("FIX", "Accous")]
    rows += [make_row("KMM", seed, error=0.3 + 0.01 * seed**2) for seed in (0, 1, 3)]
    rows += [make_failure("KMM", 2, "singular")]
    rows += [make_row("DANN", seed, n_rounds=100) for seed in (0, 1, 2, 3)]
    text = report_on(tmp_path, rows, has_figures=True)
    assert "3 seeds only: 0, 1 and 3." in text
    assert "Failed for seed 2: singular." in text
    assert "100 rounds instead of 10,000: another stream, left out of the comparisons." in text
    assert "n = 3 or 4 seeds" in text


def test_numbers_that_are_not_finite_are_unknown(tmp_path: Path) -> None:
    text = report_on(
        tmp_path, [make_row("FIX", 0, error=float("nan")), make_row("Accous", 0, risk=float("inf"))], has_figures=True
    )
    assert "| FIX | – |" in text


def test_a_row_that_names_no_run_is_refused(tmp_path: Path) -> None:
    row = make_row("FIX", 0)
    del row["seed"]
    with pytest.raises(DataError, match="seed"):
        report_on(tmp_path, [row])


def test_two_folders_make_one_report(tmp_path: Path) -> None:
    rows = table_rows(batch_sizes=(1,), shifts=("Squ",))
    first = write_rows(tmp_path / "a", [row for row in rows if row["contender"] != "DANN"])
    second = write_rows(tmp_path / "b", [row for row in rows if row["contender"] == "DANN"])
    together = read_inputs([first, second])
    assert len(together.outcomes) == len(rows)
    report = write_report([first], tmp_path / "one", has_figures=False)
    mixed = read_inputs([report.files[-1], second])
    assert {outcome.contender for outcome in mixed.outcomes} == {outcome.contender for outcome in together.outcomes}


def test_without_matplotlib_the_tables_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = builtins.__import__

    def without_matplotlib(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] == "matplotlib":
            raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")
        return honest(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without_matplotlib)
    written = write_report([write_rows(tmp_path / "rows", table_rows(n_seeds=2))], tmp_path / "out")
    assert "accous[plot]" in (written.missing_figures or "")
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(TABLES)


# --- aggregates --------------------------------------------------------------------------------------------------


def test_aggregates_survive_a_file(tmp_path: Path) -> None:
    rows = [*table_rows(n_seeds=3), *switch_rows(), *natural_rows(), make_failure("LR", 7, "it broke", shift="Lin")]
    before = aggregate_rows(rows)
    write_aggregates(before, tmp_path / "a.json")
    after = read_aggregates(tmp_path / "a.json")

    def by_run(outcomes: list) -> dict:
        return {(one.key, one.contender, one.seed, one.n_rounds): one for one in outcomes}

    there, back = by_run(before.outcomes), by_run(after.outcomes)
    assert there.keys() == back.keys()
    for place, outcome in there.items():
        assert back[place].error == (None if outcome.error is None else pytest.approx(outcome.error, abs=1e-6))
        assert back[place].reason == outcome.reason
        assert back[place].n_played == outcome.n_played
    assert after.curves == before.curves
    assert after.weight_maps == before.weight_maps
    assert after.provenance == before.provenance


def test_runs_with_other_settings_are_superseded_and_the_report_says_so(tmp_path: Path) -> None:
    late = {"run": "other settings", "error": 0.1, "finished": "2026-01-03T00:00:00+00:00"}
    text = report_on(tmp_path, [make_row("Accous", 0, **late), make_row("Accous", 0), make_row("FIX", 0)])
    assert "| Accous | **10.00** |" in text
    assert "Left out: 1 run that a later run" in text


def test_provenance_names_what_the_numbers_come_from() -> None:
    rows = [make_row("LR", 0), make_row("LR", 1, commit="def", finished="2026-02-01T00:00:00+00:00")]
    origin = merge([aggregate_rows(rows[:1]), aggregate_rows(rows[1:])]).provenance
    assert origin["commits"] == ["abc1234", "def"]
    assert (origin["first"][:10], origin["last"][:10]) == ("2026-01-02", "2026-02-01")
    assert origin["settings"] == {"LR": ["Model, C=1.0"]}
    assert origin["versions"]["numpy"] == ["2.0"]


def test_protocols_stand_side_by_side_and_only_the_first_has_its_own_tables(tmp_path: Path) -> None:
    rows = [
        make_row(name, 0, protocol=protocol, error=error)
        for protocol, errors in (("predict_first", (0.33, 0.35)), ("batch_first", (0.33, 0.29)))
        for name, error in zip(("FIX", "LR"), errors, strict=True)
    ]
    text = report_on(tmp_path, rows)
    assert text.count("## Gaussians (reconstructed), N_t = 1") == 1
    assert "## The protocols side by side" in text
    assert "| LR | 35.00 | 29.00 |" in text


def test_protocols_are_compared_by_the_exact_risk_where_it_is_known(tmp_path: Path) -> None:
    scores = {  # errors and risks of FIX and LR; the drawn rows of fresh_rows are others
        "predict_first": ((0.3245, 0.326), (0.31, 0.312)),
        "fresh_rows": ((0.3356, 0.326), (0.33, 0.309)),
        "batch_first": ((0.3245, 0.326), (0.27, 0.309)),
    }
    rows = [
        make_row(name, 0, protocol=protocol, error=error, risk=risk)
        for protocol, pairs in scores.items()
        for name, (error, risk) in zip(("FIX", "LR"), pairs, strict=True)
    ]
    by_risk, by_error = report_on(tmp_path, rows).partition("## The protocols side by side")[2].split("*Gaussians")[1:]
    assert "| contender | Squ before the batch | Squ after it |" in by_risk
    assert "| FIX | 32.60 | 32.60 |" in by_risk
    assert "| LR | 31.20 | 30.90 |" in by_risk
    assert "| contender | Squ predict first | Squ batch first |" in by_error
    assert "| FIX | 32.45 | 32.45 |" in by_error
    assert "| LR | 31.00 | 27.00 |" in by_error
    assert "33.56" not in by_risk + by_error


def test_runs_from_before_there_were_protocols_are_marked(tmp_path: Path) -> None:
    rows = [make_row(name, 0) for name in ("FIX", "LR")]
    for row in rows:
        del row["protocol"]
    assert "before there were protocols: DANN, KMM, KLIEP, uLSIF, LR and the oracle learn first" in report_on(
        tmp_path, rows
    )


def test_a_contender_that_played_a_sample_of_the_rounds_is_marked(tmp_path: Path) -> None:
    rows = [make_row("FIX", 0), make_row("LR", 0, n_played=10_000, n_predicted=2000, cpu_seconds=4.0)]
    text = report_on(tmp_path, rows)
    assert "Played in 2,000 of the rounds, drawn at random" in text
    assert "10,000 rounds; ms" in text


def test_shares_of_the_limit_come_first(tmp_path: Path) -> None:
    risks = {"FIX": 0.40, "Accous": 0.32, "limit": 0.30, "oracle": 0.25}
    text = report_on(tmp_path, [make_row(name, 0, risk=risk) for name, risk in risks.items()], has_figures=True)
    assert "between FIX and the limit that is closed, then of that between FIX and the oracle" in text
    assert "| Accous | 32.00 (80, 53) |" in text
    assert "30.00 (100, 67)" in text


@pytest.mark.slow
def test_wins_in_the_papers_cells(tmp_path: Path) -> None:
    text = report_on(tmp_path, [*table_rows(n_seeds=2), *(make_row("Accous (ensemble only)", s) for s in (0, 1))])
    assert "each of its contenders has the lowest error (1 of them were run" in text
    assert "| OLRE | 2 | 0 | 0 |" in text
    assert "| Accous | 22 | 1 | 8 |" in text


def test_a_contender_that_never_ran_has_a_dash_instead_of_no_wins(tmp_path: Path) -> None:
    names = ("FIX", "KMM", "KLIEP", "uLSIF", "LR", "OLRE", "Accous")
    text = report_on(tmp_path, table_rows(n_seeds=1, contenders=names))
    assert "| DANN | 0 | \N{EN DASH} |" in text
    assert "| KMM | 0 | 0 |" in text


@pytest.mark.parametrize(("n_tuned", "winner"), [(3, "OLRE"), (6, "LR")])
def test_a_variant_counts_if_as_many_contenders_ran_it(tmp_path: Path, n_tuned: int, winner: str) -> None:
    names = ("FIX", "KMM", "KLIEP", "LR", "OLRE", "Accous")
    place = {"shift": "Squ", "batch_size": 5, "n_reference": 2000}
    rows = [make_row(n, 0, dataset="mnist_svhn", error=0.2 - 0.1 * (n == "OLRE"), **place) for n in names]
    tuned = [make_row(n, 0, dataset="mnist_svhn_tuned", error=0.2 - 0.1 * (n == "LR"), **place) for n in names]
    (wins,) = paper_wins(make_panels(aggregate_rows([*rows, *tuned[-n_tuned:]]).outcomes))
    assert [name for name, n_wins in wins.ours.items() if n_wins] == [winner]


def test_only_weights_of_periods_that_an_interval_can_match_are_drawn() -> None:
    rows = [
        *switch_rows(period=50),
        *(row | {"shift": "Squ64", "run": row["run"] + "64"} for row in switch_rows(period=64)),
    ]
    names = [picture.name for picture in draw_figures(aggregate_rows(rows)).learners]
    assert [name for name in names if "weights" in name and "squ64" in name]
    assert not [name for name in names if "weights" in name and "squ64" not in name]


@pytest.mark.parametrize("has_portraits", [False, True])
def test_the_figure_of_drift_says_that_it_is_not_the_papers(has_portraits: bool) -> None:
    portraits = {"dataset": "yearbook"} if has_portraits else {}
    rows = [row | portraits for row in natural_rows() if row["dataset"] == "gas_sensor"]
    (picture,) = draw_figures(aggregate_rows(rows)).drift
    assert ("not on images" in picture.caption) != has_portraits
