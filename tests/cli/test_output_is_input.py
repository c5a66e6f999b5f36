"""An output that is an input by another name is refused before a byte of it is lost."""

import os
from pathlib import Path

import pytest

from accous.cli import main


def _other_name(kind: str, of: str, name: str) -> str:
    Path(name).symlink_to(of) if kind == "symbolic" else os.link(of, name)
    return name


@pytest.mark.parametrize("kind", ["symbolic", "hard"])
@pytest.mark.parametrize(
    ("of", "link", "arguments", "sentence"),
    [
        ("stream.csv", "p.csv", ["adapt", "model", "stream.csv", "-o", "p.csv"], "STREAM and --output"),
        ("stream.csv", "p.csv", ["ask", "model", "stream.csv", "-n", "5", "-o", "p.csv"], "STREAM and --output"),
        ("stream.csv", "p.csv", ["predict", "model", "stream.csv", "-o", "p.csv"], "ROWS and --output"),
        ("stream.csv", "p.parquet.partial", ["adapt", "model", "stream.csv", "-o", "p.parquet"], "STREAM and --output"),
        ("stream.csv", "p.csv.predicting", ["predict", "model", "stream.csv", "-o", "p.csv"], "ROWS and --output"),
        ("stream.csv", "r.csv", ["predict", "model", "stream.csv", "-o", "p.csv", "--rejects", "r.csv"], "--rejects"),
        ("model/manifest.json", "p.jsonl", ["adapt", "model", "stream.csv", "-o", "p.jsonl"], "--output p.jsonl"),
        ("model/manifest.json", "r.html", ["report", "model", "-o", "r.html"], "model's folder"),
        (
            "stream.csv",
            "r.csv",
            ["fit", "stream.csv", "--label", "label", "-o", "new", "--on-bad-row", "skip", "--rejects", "r.csv"],
            "REFERENCE and --rejects",
        ),
        (
            "stream.csv",
            "plot.png",
            ["backtest", "stream.csv", "--label", "label", "--time", "day", "--plot", "plot.png"],
            "REFERENCE and --plot",
        ),
    ],
    ids=lambda each: each[0] if isinstance(each, list) else None,
)
def test_a_link_to_an_input_is_refused(fitted_folder, kind, of, link, arguments, sentence, capsys):
    _other_name(kind, of, link)
    before = Path(of).read_bytes()
    assert main([*arguments, "--force", "--quiet"]) == 2
    printed = capsys.readouterr().err
    assert sentence in printed
    assert printed.count("\n") == 1
    assert Path(of).read_bytes() == before
    assert Path(link).exists()


def test_a_link_to_another_file_is_written_through(fitted_folder):
    Path("earlier.csv").write_text("earlier")
    Path("p.csv").symlink_to("earlier.csv")
    assert main(["adapt", "model", "stream.csv", "-o", "p.csv", "--force", "--quiet"]) == 0
    assert Path("earlier.csv").read_text().startswith("line,")
