"""One model per key on Spark: history in batch, and streams in Structured Streaming (extra ``spark``).

The module loads without Spark. If you use one of its functions without it, the error says what to install.
"""

from typing import TYPE_CHECKING

from accous.extras import import_extra

if TYPE_CHECKING:
    from accous.spark.batch import adapt_table
    from accous.spark.plain_errors import plain_errors
    from accous.spark.session import local_session
    from accous.spark.streaming import adapt_stream

__all__ = ["adapt_stream", "adapt_table", "local_session", "plain_errors"]

_HOME_OF_NAME = {
    "adapt_stream": "accous.spark.streaming",
    "adapt_table": "accous.spark.batch",
    "local_session": "accous.spark.session",
    "plain_errors": "accous.spark.plain_errors",
}


def __dir__() -> list[str]:
    return sorted(__all__)


# Hidden from type checkers: they know the names from the imports above and report any other as missing.
if not TYPE_CHECKING:

    def __getattr__(name):
        if name not in _HOME_OF_NAME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_extra(_HOME_OF_NAME[name], "accous.spark"), name)
        globals()[name] = value
        return value
