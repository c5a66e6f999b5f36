"""What ``accous spark`` does: starts Spark, runs the rows through it, and writes the page about all keys."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accous.cli.report import write_page
from accous.keyed.arrow import ShippedModel, fleet, newest_states
from accous.report.page import render_fleet
from accous.spark import adapt_stream, adapt_table, local_session, plain_errors
from accous.text import count

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Reader", "SparkRun"]


@dataclass(frozen=True)
class Reader:
    """How Spark reads the rows.

    Attributes
    ----------
    format : str
        Spark's name of it.
    options : dict
    path : str
        ``-`` if the options say where the rows are.
    schema : str or None
        The columns, as in SQL.
    """

    format: str
    options: dict[str, str]
    path: str
    schema: str | None = None

    def table(self, spark: Any) -> Any:
        """Return the rows as a table."""
        return self._load(self._with_schema(spark.read.format(self.format).options(**self.options), self.schema))

    def stream(self, spark: Any) -> Any:
        """Return the rows as a stream; files that are there tell their columns, unless a schema does."""
        schema = self.schema
        if schema is None and self.format in _FILES:
            options = {"inferSchema": "true", **self.options} if self.format == "csv" else self.options
            # What is there already says what the columns are; Spark asks for them before it follows a folder.
            schema = self._load(spark.read.format(self.format).options(**options)).schema
        return self._load(self._with_schema(spark.readStream.format(self.format).options(**self.options), schema))

    def _with_schema(self, reader: Any, schema: Any) -> Any:
        return reader if schema is None else reader.schema(schema)

    def _load(self, reader: Any) -> Any:
        return reader.load(self.path) if self.path != "-" else reader.load()


class SparkRun:
    """A run of ``accous spark``.

    Parameters
    ----------
    model, output, key : str
    settings : dict
        Of `KeyedAdapter`.
    console : Console
        For remarks.
    threads : int
        For a session on this machine; under spark-submit the session is the one that it made.
    """

    def __init__(
        self, model: str, output: str, key: str, settings: dict[str, Any], console: Console, threads: int
    ) -> None:
        self._model, self._output, self._key = model, output, key
        self._settings, self._console = settings, console
        with console.status("Starting Spark"):
            self._spark = local_session(threads)

    def replay(self, reader: Reader, *, resume: str | None, **chosen: Any) -> None:
        """Run a table through the step, and write the result."""
        with plain_errors(reader.path, self._output), self._console.status("Playing the rounds of all keys"):
            df, known = reader.table(self._spark), self._known(resume)
            result = adapt_table(self._spark, df, self._model, key=self._key, resume=known, **chosen, **self._settings)
            result.write.partitionBy("kind").parquet(self._output)
        counts = {row["kind"]: row["count"] for row in self._result().groupBy("kind").count().collect()}
        said = ", ".join(f"{counts.get(kind, 0):,} {name}" for kind, name in _NAMES.items())
        self._console.print(f"{said}. Result: {self._output}", markup=False, soft_wrap=True)

    def follow(self, reader: Reader, *, checkpoint: str | None, once: bool, resume: str | None, **chosen: Any) -> None:
        """Follow a stream until it ends, and say how many rows have come."""
        with plain_errors(reader.path, self._output):
            query = adapt_stream(
                self._spark,
                reader.stream(self._spark),
                self._model,
                key=self._key,
                checkpoint=str(checkpoint),
                output=self._output,
                resume=self._known(resume),
                trigger={"availableNow": True} if once else None,
                **chosen,
                **self._settings,
            )
            n_rows = self._watch(query)
        self._console.print(f"{count(n_rows, 'row')} in this run. Result: {self._output}", markup=False, soft_wrap=True)

    def _watch(self, query: Any) -> int:
        """Show how many rows have come until the query ends, and return their number."""
        n_rows, seen, is_over = 0, -1, False
        with self._console.status("Waiting for rows") as status:
            while not is_over:
                is_over = query.awaitTermination(1)
                for progress in query.recentProgress:
                    if progress["batchId"] > seen:
                        n_rows, seen = n_rows + progress["numInputRows"], progress["batchId"]
                status.update(f"{count(n_rows, 'row')} in {count(seen + 1, 'micro-batch', 'micro-batches')}")
        return n_rows

    def _known(self, resume: str | None) -> Any:
        return None if resume is None else self._spark.read.parquet(resume)

    def write_fleet(self, page: Path) -> None:
        """Write the page about all keys."""
        _, adapter = ShippedModel(self._model, self._settings).unpack()
        rows = self._result().where("kind = 'state'").select(self._key, "state").toLocalIterator()
        latest = newest_states((row[0], bytes(row[1])) for row in rows)
        with self._console.status("Writing the page about all keys"):
            readings = [reading._asdict() for reading in fleet(latest, adapter)]
            write_page(page, render_fleet(readings, f"{count(len(latest), 'key')} by {self._key}"))
        self._console.print(f"Keys: {page}", markup=False, soft_wrap=True)

    def _result(self) -> Any:
        return self._spark.read.parquet(self._output)


_FILES = ("csv", "json", "orc", "parquet", "text")
_NAMES = {"prediction": "predictions", "event": "events", "trust": "verdicts", "state": "keys"}
