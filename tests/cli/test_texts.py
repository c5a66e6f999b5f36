"""The texts of the command line, whole, and everything that it refuses: an exit code, one sentence, nothing changed.

They are in ``refused.txt`` and ``session.txt``, which is one session; ``python -m tests.cli.test_texts`` writes them.
"""

import contextlib
import io
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

import accous
from accous import datasets
from accous.cli import main
from accous.exceptions import ParameterError
from accous.text import did_you_mean
from tests.cli.tables import fit_model, make_tables

HERE = Path(__file__).parent
NUMBER = re.compile(r"[+-]?\d[\d,]*\.\d+(e[+-]\d+)?%?|[+-]?\d+%")
PLURAL_OF_ONE = re.compile(r"(?<![\d,.])1 (\w+ )?(rows|labels|rounds|looks|keys|regimes|values|refits)\b")
SPEC = """
datasets = ["gaussian"]
shifts = ["Lin"]
batch_sizes = [2]
rounds = [12]
contenders = ["FIX", "accous"]
seeds = 2
"""


def cases_of(name: str) -> list[tuple[str, str, int]]:
    """Each command of a file, with what it shows (lines of the standard error after "!") and its exit code."""
    blocks = HERE.joinpath(f"{name}.txt").read_text(encoding="utf-8").split("$ accous ")[1:]
    found = [re.fullmatch(r"([^\n]*)\n(.*)\[(\d+)\]\n", block, re.DOTALL) for block in blocks]
    return [(case[1], case[2], int(case[3])) for case in found]


def make_files(folder: Path) -> None:
    """Write tables that are good and bad, and models that can be used and that cannot."""
    reference, stream = make_tables()
    number = pl.int_range(pl.len())
    reference.write_csv(folder / "reference.csv")
    stream.write_csv(folder / "stream.csv")
    fit_model(folder, reference, "--drop", "id", name="model")
    fit_model(folder, reference, "--drop", "id", name="new")
    fit_model(folder, reference, "--drop", "id", "--time", "day", "--estimator", "linear", label="x3", name="numbers")
    adapt = ["adapt", folder / "model", folder / "stream.csv", "-o", folder / "predictions.csv", "--key", "id", "-q"]
    assert main(list(map(str, adapt))) == 0
    X = np.random.default_rng(0).normal(size=(40, 2))
    accous.save(accous.AdaptiveClassifier().fit(X, X[:, 0] > 0.0), folder / "plain")
    accous.save(accous.AdaptiveClassifier(LogisticRegression()).fit(X, X[:, 0] > 0.0), folder / "pipeline")
    (folder / "thesis").mkdir()
    texts = {
        "thesis/thesis.tex": "years of work", "mine.csv": "mine", "mine.png": "mine", "mine.toml": SPEC.lstrip(),
        "wrong.toml": SPEC.lstrip().replace("accous", "Acous"), "empty.csv": "", "blank.csv": "\n\n",
        "unlabelled.csv": "x,label\n1,\n2,\n", "constant.csv": "x,label\n1,a\n2,a\n",
        "double.csv": "x,x,label\n1,2,a\n", "useless.csv": "x,label\n1,a\n1,b\n",
        "texts_models.py": "from sklearn.svm import SVC\n\n\ndef make():\n    return SVC()\n",
    }  # fmt: skip
    for name, text in texts.items():
        (folder / name).write_text(text)
    some, late = stream[:10], stream.select("id", "label")
    one = stream[:1].with_columns(colour=pl.lit("violet")).cast({"x0": pl.String})
    frames = {
        "header": stream.clear(), "no_label": some.drop("label"), "no_x0": some.drop("x0"), "few": reference[:99],
        "no_day": reference.drop("day"), "bad_x0": some.with_columns(x0=pl.lit("?!")), "alone": late[:50].drop("id"),
        "none_labelled": some.with_columns(label=pl.lit(None)), "hue": some.with_columns(hue=pl.col("colour")),
        "hues": stream.select("id", "colour"),
        "named": stream.with_columns(ratio=1, line=pl.col("id") * 3, round=1, word=pl.lit("late")),
        "renamed": stream.rename({"x3": "X3"}), "one": pl.DataFrame({"id": [1], "label": ["yes"]}),
        "two": pl.DataFrame({"id": [1, 1], "label": ["yes", "no"]}),
        "far": pl.DataFrame({"id": [9_000], "label": ["yes"]}), "keyed": pl.DataFrame({"id": [1], "label": [""]}),
        "keyless": pl.DataFrame({"id": [""], "label": ["yes"]}),
        "day": pl.DataFrame({"day": ["a"], "label": ["yes"]}),
        "coded": late.with_columns(label=(pl.col("label") == "yes").cast(int)),
        "random": reference.with_columns(label=pl.when(number % 10 == 0).then(pl.lit("a")).otherwise(pl.lit("b"))),
        "one_row": pl.concat([one, one.with_columns(x0=pl.lit("a word"), id=pl.lit(99, pl.Int64))]),
        "one_label": pl.concat([late[:1], late[:1].with_columns(id=pl.lit(7_000, pl.Int64))]),
    }  # fmt: skip
    for name, frame in frames.items():
        frame.write_csv(folder / f"{name}.csv")
    stream.drop("label").write_parquet(folder / "stream.parquet")
    stream.drop("label", "colour").write_parquet(folder / "colourless.parquet")
    stream.select("colour").write_parquet(folder / "colours.parquet")
    np.save(folder / "numbers.npy", np.arange(stream.height))


def run(line: str) -> tuple[int, str]:
    """Return the exit code and what is shown."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(shlex.split(line))
    # The first use of a loop on a machine says that it is compiled.
    said = re.sub(r"^Compiling[^\n]*\n", "", err.getvalue(), flags=re.MULTILINE)
    marked = re.sub(r"^", "! ", said.removesuffix("\n"), flags=re.MULTILINE) + "\n"
    return code, plain(out.getvalue()) + (plain(marked) if said else "")


def plain(text: str) -> str:
    """A text without fractions and percentages, which differ a little elsewhere, and without the width of tables."""
    text = NUMBER.sub("#", text.replace(str(Path.cwd()), "FOLDER"))
    text = re.sub(r"\d+( of \d+ reference rows| refits)", r"#\1", text)
    text = re.sub(r"\([\d#]+ to [\d#]+\)", "(# to #)", text)  # whole here need not be whole there
    return re.sub(r" +$", "", re.sub(r" +", " ", re.sub(r"[─━]+|[┏┡┗└├][^\n]*", "─", text)), flags=re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("texts").resolve()
    make_files(folder)
    with contextlib.chdir(folder), patch.object(sys, "path", [str(folder), *sys.path]):
        yield folder


def times_of_files(folder: Path) -> dict[Path, int]:
    files = (
        path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc" and path.name != ".accous.lock"
    )
    return {path: path.stat().st_mtime_ns for path in files if path.name != ".accous.lock"}


@pytest.mark.parametrize(("line", "text", "code"), cases_of("refused"))
def test_what_is_refused_is_one_sentence_and_changes_nothing(line, text, code, folder):
    before = times_of_files(folder)
    assert run(line) == (code, text)
    assert text.startswith("! accous: ")
    assert text.endswith((".\n", "?\n"))
    assert text.count("\n") == 1
    assert times_of_files(folder) == before


def test_whole_outputs_are_those_that_are_kept(folder):
    for line, text, code in cases_of("session"):
        assert run(line) == (code, text), line
        assert PLURAL_OF_ONE.search(text) is None
    assert PLURAL_OF_ONE.search((folder / "report.html").read_text()) is None


def test_names_that_are_near_are_suggested():
    assert did_you_mean("y", ["age", "income", "plan"]) == did_you_mean("x", []) == ""
    with pytest.raises(ParameterError, match=r"'diabets' .*'diabetes'"):
        datasets.load("diabets")


def write_texts() -> None:
    """Write again what is shown; exit codes stay."""
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        sys.path.insert(0, place)
        make_files(Path(place))
        for name in ("refused", "session"):
            kept = ""
            for line, _, code in cases_of(name):
                found, text = run(line)
                assert found == code, (line, text)
                kept += f"$ accous {line}\n{text}[{code}]\n"
            HERE.joinpath(f"{name}.txt").write_text(kept, encoding="utf-8")


if __name__ == "__main__":
    write_texts()
