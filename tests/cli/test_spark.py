"""``accous spark``: what it refuses before Spark starts, and one run over a table and a stream."""

import pandas as pd
import pytest

from accous.cli import main
from tests.needs import needs_spark


def test_without_spark_the_extra_is_named(monkeypatch, capsys):
    monkeypatch.setattr("accous.text.find_spec", lambda _name: None)
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


@pytest.mark.slow
@needs_spark
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support")
def test_faults_are_one_sentence(tmp_path, capsys):
    import accous
    from tests.spark.rows import fitted_model, write_rows

    rows = write_rows(tmp_path / "in", n_files=1, n_keys=10, rows_per_key=20)
    accous.save(fitted_model(), tmp_path / "model")
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").touch()
    (tmp_path / "empty").mkdir()
    rows.assign(x2="a").to_parquet(tmp_path / "texts.parquet", index=False)
    stream = ["--stream", "--once", "--checkpoint", str(tmp_path / "checkpoint")]
    for source, output, more, message in (
        ("in", "there", [], "There is something at {output} already: give another folder"),
        ("nothing", "out", [], "There is nothing at {source}"),
        ("texts.parquet", "out", [], "Column 'x2' holds values of type string, but the model reads numbers there"),
        ("empty", "out", stream, "There are no rows at {source} that tell which columns there are: put a first file"),
    ):
        paths = {"source": str(tmp_path / source), "output": str(tmp_path / output)}
        chosen = ["-o", paths["output"], "--key", "shop", "--time", "t", "--quiet", *more]
        assert main(["spark", str(tmp_path / "model"), paths["source"], *chosen]) == 1
        said = capsys.readouterr().err.strip().splitlines()[-1]
        assert said.startswith("accous: " + message.format(**paths))


@pytest.mark.slow
@needs_spark
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support")
def test_a_table_hands_over_to_a_stream_of_json(tmp_path, capsys):
    import accous
    from tests.spark.rows import COLUMNS, assert_same, fitted_model, write_rows
    from tests.spark.sink import read_sink

    first = write_rows(tmp_path / "in", n_files=1, n_keys=10, rows_per_key=20)
    second = write_rows(tmp_path / "unused", n_files=1, n_keys=10, rows_per_key=20, first=1)
    (tmp_path / "arriving").mkdir()
    second.to_json(tmp_path / "arriving" / "rows.json", orient="records", lines=True, double_precision=15)
    second = pd.read_json(tmp_path / "arriving" / "rows.json", lines=True, precise_float=True)
    second["t"] = second["t"].astype(float)
    accous.save(fitted_model(), tmp_path / "model")
    chosen = ["--key", "shop", "--time", "t", "--number", "number", "--round-size", "5", "--buckets", "2", "--quiet"]
    run = ["spark", str(tmp_path / "model")]
    assert main([*run, str(tmp_path / "in"), "-o", str(tmp_path / "first"), *chosen]) == 0
    schema = ", ".join(f"{name} double" for name in [*COLUMNS, "t"]) + ", shop string, number bigint"
    stream = ["--stream", "--once", "--checkpoint", str(tmp_path / "checkpoint"), "--resume", str(tmp_path / "first")]
    form = ["--format", "json", "--schema", schema]
    assert main([*run, str(tmp_path / "arriving"), "-o", str(tmp_path / "second"), *chosen, *stream, *form]) == 0
    before = pd.read_parquet(tmp_path / "first")
    both = pd.concat([before[before["kind"] != "state"], read_sink(tmp_path / "second")], ignore_index=True)
    assert_same(both, pd.concat([first, second], ignore_index=True))
    # Without verdicts and states, and with nothing left waiting.
    bare = ["--status-every", "0", "--no-states", "--lateness", "1000", "--last"]
    assert main([*run, str(tmp_path / "in"), "-o", str(tmp_path / "bare"), *chosen, *bare]) == 0
    found = pd.read_parquet(tmp_path / "bare")
    assert set(found["kind"]) <= {"prediction", "event"}
    assert (found["kind"] == "prediction").sum() == len(first)
    capsys.readouterr()
