"""What a checkpoint was made with: kept beside it, because a stream that goes on with something else loses its keys.

A key is found by its bucket and its page. With other numbers of either it would be looked for in another place, not be
found there, and start again without a word.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from accous.exceptions import CheckpointError

__all__ = ["Layout", "keep_layout"]

_FOLDER = "accous"  # inside the checkpoint


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where a stream's keys are, and what they belong to.

    Attributes
    ----------
    key : str
        The column of the keys.
    buckets, pages : int
        Groups of keys, and pages of each.
    expected_keys, keys_per_page : int
        What the number of pages came from.
    fingerprint : str
        Of the model and the settings of `accous.keyed.KeyedAdapter`.
    is_resumed : bool
        Whether the keys went on from states of an earlier result.
    """

    key: str
    buckets: int
    pages: int
    expected_keys: int
    keys_per_page: int
    fingerprint: str
    is_resumed: bool


def keep_layout(spark: SparkSession, checkpoint: str, layout: Layout) -> None:
    """Write the layout of a new checkpoint, or compare with that of one that exists.

    Raises
    ------
    CheckpointError
        If the checkpoint was made with another layout.
    """
    path = f"{checkpoint.rstrip('/')}/{_FOLDER}"
    kept = _lines(spark, path)
    if not kept:
        # Spark writes it, so that the checkpoint may be wherever Spark can write.
        row = spark.createDataFrame([(json.dumps(asdict(layout)),)], "value string")
        row.coalesce(1).write.mode("overwrite").text(path)
        return
    found = Layout(**json.loads(kept[0]))
    _compare(checkpoint, found, layout)
    if found.is_resumed and not layout.is_resumed and not _lines(spark, f"{checkpoint.rstrip('/')}/commits"):
        raise CheckpointError(
            f"The stream of the checkpoint {checkpoint} began with resume=..., and its first micro-batch is not "
            "over: start it with the same states again."
        )


def _compare(checkpoint: str, found: Layout, layout: Layout) -> None:
    begin = f"The checkpoint {checkpoint} belongs to a stream with"
    end = "or give a new checkpoint, with which the keys go on from resume=... or start again."
    if found.key != layout.key:
        raise CheckpointError(f"{begin} key={found.key!r}, not {layout.key!r}: use that column, {end}")
    if (found.buckets, found.pages) != (layout.buckets, layout.pages):
        raise CheckpointError(
            f"{begin} buckets={found.buckets}, expected_keys={found.expected_keys} and keys_per_page="
            f"{found.keys_per_page}, not {layout.buckets}, {layout.expected_keys} and {layout.keys_per_page}; its keys "
            f"would not be found: use the same numbers, {end}"
        )
    if found.fingerprint != layout.fingerprint:
        raise CheckpointError(
            f"{begin} another model or other settings of its rounds (fingerprint {found.fingerprint[:12]}, not "
            f"{layout.fingerprint[:12]}): use the same model, round_size, round_time, lateness and late, {end}"
        )
    if layout.is_resumed and not found.is_resumed:
        raise CheckpointError(
            f"{begin} keys of its own, which began without resume=...: states are only taken over by a stream "
            "that has not begun. Leave resume out, or give a new checkpoint."
        )


def _lines(spark: SparkSession, path: str) -> list[str]:
    """Return the lines of the text files of a folder; none if there is no such folder."""
    try:
        df: DataFrame = spark.read.text(path)
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return []
    return [row[0] for row in df.collect()]
