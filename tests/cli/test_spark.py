"""``accous spark``: what it refuses before Spark starts, and one run over a table and a stream."""

import pytest

from accous.cli import main
from tests.needs import needs_spark


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--stream"], "--stream needs --checkpoint FOLDER and --time COL"),
        (["--once"], "--checkpoint and --once belong to --stream"),
        (["--stream", "--time", "t", "--checkpoint", "c", "--resume", "r"], "leave --resume out"),
        (["--stream", "--time", "t", "--checkpoint", "c", "--fleet", "f.html"], "a stream ends only with --once"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_options_that_do_not_fit_together(arguments, message, capsys):
    assert main(["spark", "model", "rows", "-o", "out", "--key", "k", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_without_spark_the_extra_is_named(monkeypatch, capsys):
    monkeypatch.setattr("accous.extras.find_spec", lambda _name: None)
    assert main(["spark", "model", "rows", "-o", "out", "--key", "k"]) == 1
    assert "pip install 'accous[spark]'" in capsys.readouterr().err


@pytest.mark.slow
@needs_spark
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support")
def test_a_table_and_a_stream(tmp_path, capsys):
    import accous
    from tests.spark.rows import assert_same, fitted_model, write_rows
    from tests.spark.sink import read_sink

    rows = write_rows(tmp_path / "in", n_files=2, n_keys=10, rows_per_key=20)
    accous.save(fitted_model(), tmp_path / "model")
    chosen = ["--key", "shop", "--time", "t", "--number", "number", "--round-size", "5", "--buckets", "2"]
    paths = [str(tmp_path / "model"), str(tmp_path / "in")]
    page = tmp_path / "fleet.html"
    assert main(["spark", *paths, "-o", str(tmp_path / "table"), *chosen, "--fleet", str(page)]) == 0
    assert "400 predictions" in capsys.readouterr().err
    assert "10 keys by shop" in page.read_text(encoding="utf-8")
    stream = ["--stream", "--once", "--checkpoint", str(tmp_path / "checkpoint")]
    assert main(["spark", *paths, "-o", str(tmp_path / "stream"), *chosen, *stream]) == 0
    assert_same(read_sink(tmp_path / "stream"), rows)
