"""What ``accous spark`` does: starts Spark, runs the rows through it, and writes the page about all keys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from accous.cli.report import require_html, write_page
from accous.keyed.fleet import fleet
from accous.keyed.shipped_model import ShippedModel
from accous.report.fleet import render_fleet
from accous.spark import adapt_stream, adapt_table, local_session

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["SparkRun"]

Reader = tuple[str, dict[str, str], str]


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
        name, options, path = reader
        df = self._spark.read.format(name).options(**options).load(path)
        known = None if resume is None else self._spark.read.parquet(resume)
        result = adapt_table(self._spark, df, self._model, key=self._key, resume=known, **chosen, **self._settings)
        with self._console.status("Playing the rounds of all keys"):
            result.write.partitionBy("kind").parquet(self._output)
        counts = {row["kind"]: row["count"] for row in self._result().groupBy("kind").count().collect()}
        said = ", ".join(f"{counts.get(kind, 0):,} {name}" for kind, name in _NAMES.items())
        self._console.print(f"{said}. Result: {self._output}", markup=False, soft_wrap=True)

    def follow(self, reader: Reader, *, checkpoint: str | None, once: bool, expected_keys: int, **chosen: Any) -> None:
        """Follow a stream until it ends, and say how many rows have come."""
        name, options, path = reader
        source = self._spark.readStream.format(name).options(**options)
        if name == "parquet":
            source = source.schema(self._spark.read.parquet(path).schema)
        query = adapt_stream(
            self._spark,
            source.load(path) if path != "-" else source.load(),
            self._model,
            key=self._key,
            checkpoint=str(checkpoint),
            output=self._output,
            expected_keys=expected_keys,
            with_states=True,
            trigger={"availableNow": True} if once else None,
            **chosen,
            **self._settings,
        )
        n_rows, seen = 0, -1
        with self._console.status("Waiting for rows") as status:
            while not query.awaitTermination(1):
                for progress in query.recentProgress:
                    if progress["batchId"] > seen:
                        n_rows, seen = n_rows + progress["numInputRows"], progress["batchId"]
                status.update(f"{n_rows:,} rows in {seen + 1:,} micro-batches")
        self._console.print(f"{n_rows:,} rows in this run. Result: {self._output}", markup=False, soft_wrap=True)

    def write_fleet(self, page: Path) -> None:
        """Write the page about all keys."""
        require_html(page)
        _, adapter = ShippedModel(self._model, self._settings).unpack()
        latest: dict[Any, bytes] = {}
        for row in self._result().where("kind = 'state'").select(self._key, "state").toLocalIterator():
            name, state = row[0], bytes(row[1])
            if name not in latest or adapter.rows_seen(state) > adapter.rows_seen(latest[name]):
                latest[name] = state
        with self._console.status("Writing the page about all keys"):
            readings = [reading._asdict() for reading in fleet(latest, adapter)]
            write_page(page, render_fleet(readings, f"{len(latest):,} keys by {self._key}"))
        self._console.print(f"Keys: {page}", markup=False, soft_wrap=True)

    def _result(self) -> Any:
        return self._spark.read.parquet(self._output)


_NAMES = {"prediction": "predictions", "event": "events", "trust": "verdicts", "state": "keys"}
