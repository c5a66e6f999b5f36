"""What Spark says when it fails, in one sentence: its own messages are pages of traces of two languages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

from accous.exceptions import DataError

__all__ = ["plain_errors"]

_OURS = re.compile(r"accous\.exceptions\.\w+: (.+)")
_PYTHONS = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception): .+", re.MULTILINE)


@contextmanager
def plain_errors(source: str, output: str) -> Iterator[None]:
    """Turn errors of Spark into a `DataError` with one sentence.

    Parameters
    ----------
    source, output : str
        What is read and where the result goes, as the user named them.
    """
    try:
        yield
    except PySparkException as error:
        raise DataError(_sentence(error, source, output)) from error


def _sentence(error: PySparkException, source: str, output: str) -> str:
    text = str(error)
    # The step's own errors come back from the workers as text.
    if ours := _OURS.search(text):
        return ours[1]
    condition = error.getCondition() or ""
    known = {
        "PATH_ALREADY_EXISTS": f"There is something at {output} already: give another folder for the result, or "
        "remove it.",
        "PATH_NOT_FOUND": f"There is nothing at {source}, or at the folder to resume from: give a path that exists.",
        "UNABLE_TO_INFER_SCHEMA": f"There are no rows at {source} that tell which columns there are: put a first file "
        "there, or name the columns with --schema.",
    }
    if sentence := known.get(condition.partition(".")[0]):
        return sentence
    in_python = _PYTHONS.findall(text)
    return f"Spark failed: {in_python[-1] if in_python else text.partition(chr(10))[0]}"
