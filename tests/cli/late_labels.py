"""What the tests of ``accous labels`` share: they run in the folder of the fixture ``predicted_folder``."""

import json

import polars as pl

from accous.cli import main

N_ROWS = 300


def write(frame: pl.DataFrame, name: str = "labels.csv") -> str:
    if name.endswith(".parquet"):
        frame.write_parquet(name)
    elif name.endswith(".jsonl"):
        frame.write_ndjson(name)
    else:
        frame.write_csv(name, separator="\t" if name.endswith(".tsv") else ",")
    return name


def labels(*rows: int) -> pl.DataFrame:
    frame = pl.read_csv("stream.csv").select("id", "label")
    return frame[list(rows)] if rows else frame


def run(capsys, *arguments: str, code: int = 0) -> str:
    """Only measure with labels: what a model learns from them is tested elsewhere."""
    capsys.readouterr()
    only = [] if {"--undo", "--forget"} & set(arguments) else ["--measure-only"]
    assert main(["labels", "model", *arguments, *only]) == code
    out = capsys.readouterr()
    return out.err if code else out.out


def run_json(capsys, *arguments: str) -> dict:
    return json.loads(run(capsys, *arguments, "--json"))


def run_remarks(capsys, *arguments: str) -> str:
    capsys.readouterr()
    assert main(["labels", "model", *arguments]) == 0
    return capsys.readouterr().err


def adapt(stream: str, output: str, *options: str) -> None:
    assert main(["adapt", "model", stream, "-o", output, *options, "--quiet"]) == 0


def share_wrong(output: str, frame: pl.DataFrame) -> float:
    return float((pl.read_csv(output)["prediction"] != frame["label"]).to_numpy().mean())
