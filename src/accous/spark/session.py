"""Sessions that run here, with the settings that streams of keys need."""

from __future__ import annotations

import os
import sys
from typing import Any

from pyspark.sql import SparkSession

__all__ = ["STREAM_SETTINGS", "local_session", "require_stream_settings"]

_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
STREAM_SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
"""What `adapt_stream` needs: Spark's own state store with RocksDB, which writes only what changed."""
# A session on one machine often lasts for minutes. Compiling Java to the end, and collecting its garbage in several
# threads, took more processor time than it saved over 300,000 rows.
_LOCAL_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Files that a task writes side by side. With fewer than there are kinds of rows it would sort the rows first.
_MOST_FILES = 8


def local_session(threads: int = 2, name: str = "accous", **settings: Any) -> SparkSession:
    """Return a session on this machine, with the settings for streams of keys.

    Java is set up to start quickly. If one exists already, it is taken as it is.

    Parameters
    ----------
    threads : int, default=2
    name : str
    **settings
        More settings of Spark, with ``_`` in place of the dots.
    """
    # Workers run the interpreter that runs this, whichever is first on the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(f"local[{threads}]").appName(name)
    chosen: dict[str, Any] = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": threads,
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "ERROR",
        "spark.driver.extraJavaOptions": _LOCAL_JAVA,
        "spark.sql.maxConcurrentOutputFileWriters": _MOST_FILES,
    }
    chosen |= STREAM_SETTINGS | {key.replace("_", "."): value for key, value in settings.items()}
    for key, value in chosen.items():
        builder = builder.config(key, value)
    session: SparkSession = builder.getOrCreate()
    return session


def require_stream_settings(spark: SparkSession) -> None:
    """Choose the state store for the streams of this session, unless it was chosen already."""
    for key, value in STREAM_SETTINGS.items():
        spark.conf.set(key, value)
