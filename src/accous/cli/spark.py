"""``accous spark``: one model per key over tables and streams, on Spark."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from accous.cli.options import remarks_console, say
from accous.cli.status import require_html, write_page
from accous.exceptions import DataError, ParameterError
from accous.table.options import ModelFolder, Quiet
from accous.text import count, require_extra

if TYPE_CHECKING:
    from rich.console import Console

EXAMPLES = """
Examples:

`accous spark model/ history/ -o result/ --key shop --time sold_at --fleet fleet.html`

`accous spark model/ arriving/ -o result/ --key shop --time sold_at --stream --checkpoint checkpoint/`

`accous spark model/ arriving/ -o new/ --key shop --time sold_at --stream --checkpoint new-checkpoint/ --resume result/`

`spark-submit --master yarn $(which accous) spark model/ history/ -o result/ --key shop`
"""
_FILES = ("csv", "json", "orc", "parquet", "text")
_NAMES = {"prediction": "predictions", "event": "events", "status": "readings", "state": "keys"}


@dataclass(frozen=True, kw_only=True)
class SparkOptions:
    """Rows of many keys, and what to do with them."""

    model: ModelFolder
    rows: Annotated[str, typer.Argument(metavar="ROWS", help="A folder of Parquet files, or what --format names.")]
    output: Annotated[str, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the result.")]
    key: Annotated[str, typer.Option(metavar="COL", help="Column of the keys: text or integers.")]
    time: Annotated[str | None, typer.Option(metavar="COL", help="Column with the time of each row.")] = None
    number: Annotated[str | None, typer.Option(metavar="COL", help="Integer column that identifies the rows.")] = None
    stream: Annotated[
        bool, typer.Option("--stream", help="Follow files as they arrive; needs --checkpoint and --time.")
    ] = False
    checkpoint: Annotated[str | None, typer.Option(metavar="FOLDER", help="Where a stream resumes.")] = None
    once: Annotated[bool, typer.Option("--once", help="With --stream: read what is there, then end.")] = False
    resume: Annotated[str | None, typer.Option(metavar="FOLDER", help="An earlier result whose keys go on.")] = None
    last: Annotated[
        bool, typer.Option("--last", help="Without --stream: no more rows will come; do not wait for late ones.")
    ] = False
    buckets: Annotated[int, typer.Option(metavar="N", help="Groups of keys; at least the number of cores.")] = 16
    expected_keys: Annotated[int, typer.Option(metavar="N", help="With --stream: about how many keys.")] = 10_000
    round_size: Annotated[int, typer.Option(metavar="N", help="Rows of a round.")] = 10
    round_time: Annotated[float | None, typer.Option(metavar="S", help="Seconds of a round instead.")] = None
    lateness: Annotated[float | None, typer.Option(metavar="S", help="Seconds to wait for late rows.")] = None
    late: Annotated[str, typer.Option(metavar="drop|count|next", help="What to do with rows later than that.")] = "next"
    format: Annotated[str, typer.Option(metavar="NAME", help="Spark's name of the format of ROWS.")] = "parquet"
    option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="An option of Spark's reader; repeat it.")
    ] = None
    schema: Annotated[
        str | None, typer.Option(metavar="DDL", help="Columns of ROWS, as in SQL: 'shop string, age double'.")
    ] = None
    status_every: Annotated[
        int, typer.Option(metavar="N", help="Rounds between readings of a key; 0 leaves readings out.")
    ] = 64
    no_states: Annotated[
        bool, typer.Option("--no-states", help="Leave out the states; the result cannot be resumed from.")
    ] = False
    threads: Annotated[int, typer.Option(metavar="N", help="Without spark-submit: threads on this machine.")] = 2
    fleet: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write an .html page about all keys at the end.")
    ] = None
    quiet: Quiet = False

    def __post_init__(self) -> None:
        if self.stream and (self.checkpoint is None or self.time is None):
            raise ParameterError("--stream needs --checkpoint FOLDER and --time COL.")
        if not self.stream and (self.checkpoint or self.once):
            raise ParameterError("--checkpoint and --once belong to --stream.")
        if self.stream and self.last:
            raise ParameterError("--last belongs to tables: a stream has no end.")
        if self.status_every < 0:
            raise ParameterError(f"--status-every must not be negative, got {self.status_every}.")
        if self.fleet is not None:
            if self.stream and not self.once:
                raise ParameterError("--fleet is written at the end: a stream ends only with --once.")
            require_html(self.fleet)
            if self.no_states:
                raise ParameterError("--fleet reads the states: leave --no-states out.")

    def of_rounds(self) -> dict[str, Any]:
        """Return the options of `KeyedAdapter`."""
        return {name: getattr(self, name) for name in ("round_size", "round_time", "lateness", "late")}


def spark(options: SparkOptions) -> int:
    """Give each key a model of its own: predict and learn from the rows of many keys, on Spark.

    The result is Parquet, partitioned by kind: prediction, event, status and state.
    """
    require_extra("pyspark", "accous spark")
    reading = dict(_pair(each) for each in options.option or [])
    remarks = remarks_console(quiet=options.quiet)
    from accous.spark import local_session, plain_errors

    with remarks.status("Starting Spark"):
        session = local_session(options.threads)
    with plain_errors(options.rows, options.output):
        said = (_follow if options.stream else _replay)(options, session, reading, remarks)
    say(remarks, f"{said}. Result: {options.output}")
    if options.fleet is not None:
        _write_fleet(options, options.fleet, session, remarks)
    return 0


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        raise DataError(f"--option takes NAME=VALUE, got {text!r}.")
    return name, value


def _replay(options: SparkOptions, session: Any, reading: dict[str, str], remarks: Console) -> str:
    """Run a table through the step, write the result, and say what is in it."""
    from accous.spark import adapt_table

    with remarks.status("Running the rounds of all keys"):
        df = _load(options, session.read, reading, options.schema)
        result = adapt_table(session, df, str(options.model), is_last=options.last, **_chosen(options, session))
        result.write.partitionBy("kind").parquet(options.output)
    written = session.read.parquet(options.output)
    counts = {row["kind"]: row["count"] for row in written.groupBy("kind").count().collect()}
    return ", ".join(f"{counts.get(kind, 0):,} {name}" for kind, name in _NAMES.items())


def _follow(options: SparkOptions, session: Any, reading: dict[str, str], remarks: Console) -> str:
    """Follow a stream until it ends, and say how many rows have come."""
    from accous.spark import adapt_stream

    schema: Any = options.schema
    if schema is None and options.format in _FILES:
        inferring = {"inferSchema": "true", **reading} if options.format == "csv" else reading
        # What is there already says what the columns are; Spark asks for them before it follows a folder.
        schema = _load(options, session.read, inferring, None).schema
    query = adapt_stream(
        session,
        _load(options, session.readStream, reading, schema),
        str(options.model),
        checkpoint=str(options.checkpoint),
        output=options.output,
        trigger={"availableNow": True} if options.once else None,
        expected_keys=options.expected_keys,
        **_chosen(options, session),
    )
    n_rows, seen, is_over = 0, -1, False
    with remarks.status("Waiting for rows") as status:
        while not is_over:
            is_over = query.awaitTermination(1)
            for progress in query.recentProgress:
                if progress["batchId"] > seen:
                    n_rows, seen = n_rows + progress["numInputRows"], progress["batchId"]
            status.update(f"{count(n_rows, 'row')} in {count(seen + 1, 'micro-batch', 'micro-batches')}")
    return f"{count(n_rows, 'row')} in this run"


def _load(options: SparkOptions, reader: Any, reading: dict[str, str], schema: Any) -> Any:
    """Return the rows; the path is ``-`` if the options of Spark's reader say where they are."""
    reader = reader.format(options.format).options(**reading)
    reader = reader if schema is None else reader.schema(schema)
    return reader.load(options.rows) if options.rows != "-" else reader.load()


def _chosen(options: SparkOptions, session: Any) -> dict[str, Any]:
    """Return what tables and streams are run with alike."""
    return {
        "key": options.key,
        "time": options.time,
        "number": options.number,
        "buckets": options.buckets,
        "resume": None if options.resume is None else session.read.parquet(options.resume),
        "status_every": options.status_every or None,
        "with_states": not options.no_states,
        **options.of_rounds(),
    }


def _write_fleet(options: SparkOptions, page: Path, session: Any, remarks: Console) -> None:
    """Write the page about all keys."""
    from accous.keyed.arrow import ShippedModel, fleet, newest_states
    from accous.report.page import render_fleet

    _, adapter = ShippedModel(str(options.model), options.of_rounds()).unpack()
    written = session.read.parquet(options.output)
    rows = written.where("kind = 'state'").select(options.key, "state").toLocalIterator()
    latest = newest_states((row[0], bytes(row[1])) for row in rows)
    with remarks.status("Writing the page about all keys"):
        readings = [reading._asdict() for reading in fleet(latest, adapter)]
        write_page(page, render_fleet(readings, f"{count(len(latest), 'key')} by {options.key}"))
    say(remarks, f"Keys: {page}")
