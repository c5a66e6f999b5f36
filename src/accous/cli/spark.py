"""``accous spark``: one model per key over tables and streams, on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from accous.cli.options import ModelFolder, Quiet, remarks_console
from accous.cli.report import require_html
from accous.exceptions import DataError, ParameterError
from accous.text import require_extra

__all__ = ["EXAMPLES", "spark"]

EXAMPLES = """
Examples:

`accous spark model/ history/ -o result/ --key shop --time sold_at --fleet fleet.html`

`accous spark model/ arriving/ -o result/ --key shop --time sold_at --stream --checkpoint checkpoint/`

`accous spark model/ arriving/ -o new/ --key shop --time sold_at --stream --checkpoint new-checkpoint/ --resume result/`

`spark-submit --master yarn $(which accous) spark model/ history/ -o result/ --key shop`
"""
_Source = Annotated[str, typer.Argument(metavar="ROWS", help="Parquet files: a folder, or what --format says.")]
_Output = Annotated[str, typer.Option("--output", "-o", metavar="FOLDER", help="A folder for the result.")]
_Key = Annotated[str, typer.Option("--key", metavar="COL", help="Column of the keys: text or integers.")]
_Time = Annotated[str | None, typer.Option("--time", metavar="COL", help="Column that says when a row happened.")]
_Number = Annotated[str | None, typer.Option("--number", metavar="COL", help="Column of integers that names the rows.")]
_Stream = Annotated[bool, typer.Option("--stream", help="Follow files as they arrive; needs --checkpoint and --time.")]
_Checkpoint = Annotated[str | None, typer.Option("--checkpoint", metavar="FOLDER", help="Where a stream resumes.")]
_Once = Annotated[bool, typer.Option("--once", help="Of a stream: read what is there, then end.")]
_Resume = Annotated[
    str | None, typer.Option("--resume", metavar="FOLDER", help="A result whose keys go on, of a table or a stream.")
]
_Last = Annotated[bool, typer.Option("--last", help="Of a table: no more rows will come, so none waits for late ones.")]
_TrustEvery = Annotated[
    int, typer.Option("--trust-every", metavar="N", help="Rounds between verdicts of a key; 0 leaves verdicts out.")
]
_NoStates = Annotated[
    bool, typer.Option("--no-states", help="Leave the states out of the result: it cannot be resumed from.")
]
_Schema = Annotated[
    str | None, typer.Option("--schema", metavar="DDL", help="Columns of ROWS, as in SQL: 'shop string, age double'.")
]
_Buckets = Annotated[int, typer.Option("--buckets", metavar="N", help="Groups of keys; at least the number of cores.")]
_Keys = Annotated[int, typer.Option("--expected-keys", metavar="N", help="Of a stream: how many keys, roughly.")]
_RoundSize = Annotated[int, typer.Option("--round-size", metavar="N", help="Rows of a round.")]
_RoundTime = Annotated[float | None, typer.Option("--round-time", metavar="S", help="Seconds of a round instead.")]
_Lateness = Annotated[float | None, typer.Option("--lateness", metavar="S", help="Seconds to wait for late rows.")]
_Late = Annotated[str, typer.Option("--late", metavar="drop|count|next", help="What happens to rows that are later.")]
_Format = Annotated[str, typer.Option("--format", metavar="NAME", help="Spark's name of the format of ROWS.")]
_Options = Annotated[
    list[str] | None, typer.Option("--option", metavar="NAME=VALUE", help="An option of Spark's reader; repeat it.")
]
_Threads = Annotated[int, typer.Option("--threads", metavar="N", help="Without spark-submit: threads on this machine.")]
_Fleet = Annotated[
    Path | None, typer.Option("--fleet", metavar="FILE", help="An .html page about all keys, at the end.")
]


def spark(
    model: ModelFolder,
    rows: _Source,
    output: _Output,
    key: _Key,
    time: _Time = None,
    number: _Number = None,
    stream: _Stream = False,
    checkpoint: _Checkpoint = None,
    once: _Once = False,
    resume: _Resume = None,
    last: _Last = False,
    buckets: _Buckets = 16,
    expected_keys: _Keys = 10_000,
    round_size: _RoundSize = 10,
    round_time: _RoundTime = None,
    lateness: _Lateness = None,
    late: _Late = "next",
    format: _Format = "parquet",
    option: _Options = None,
    schema: _Schema = None,
    trust_every: _TrustEvery = 64,
    no_states: _NoStates = False,
    threads: _Threads = 2,
    fleet: _Fleet = None,
    quiet: Quiet = False,
) -> int:
    """Give each key a model of its own: predict and learn from the rows of many keys, on Spark.

    The result is Parquet, partitioned by kind: prediction, event, trust and state.
    """
    if stream and (checkpoint is None or time is None):
        raise ParameterError("--stream needs --checkpoint FOLDER and --time COL.")
    if not stream and (checkpoint or once):
        raise ParameterError("--checkpoint and --once belong to --stream.")
    if stream and last:
        raise ParameterError("--last belongs to tables: a stream has no end.")
    if trust_every < 0:
        raise ParameterError(f"--trust-every must not be negative, got {trust_every}.")
    if fleet is not None and stream and not once:
        raise ParameterError("--fleet is written at the end: a stream ends only with --once.")
    if fleet is not None:
        require_html(fleet)
        if no_states:
            raise ParameterError("--fleet reads the states: leave --no-states out.")
    require_extra("pyspark", "accous spark")
    from accous.cli.spark_run import Reader, SparkRun

    settings = {"round_size": round_size, "round_time": round_time, "lateness": lateness, "late": late}
    run = SparkRun(str(model), output, key, settings, remarks_console(quiet=quiet), threads)
    common: dict[str, Any] = {"time": time, "number": number, "buckets": buckets, "resume": resume}
    common |= {"trust_every": trust_every or None, "with_states": not no_states}
    reader = Reader(format, dict(_pair(each) for each in option or []), rows, schema)
    if stream:
        run.follow(reader, checkpoint=checkpoint, once=once, expected_keys=expected_keys, **common)
    else:
        run.replay(reader, is_last=last, **common)
    if fleet is not None:
        run.write_fleet(fleet)
    return 0


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        raise DataError(f"--option takes NAME=VALUE, got {text!r}.")
    return name, value
