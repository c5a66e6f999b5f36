"""Rows that a user's pipeline cannot read: the error names the column and the row, which scikit-learn's does not."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from typing import Any

from accous.exceptions import AccousError, DataError
from accous.named_columns import is_frame

__all__ = ["naming_text"]

_NOT_A_NUMBER = re.compile(r"could not convert string to float: (?:np\.str_\()?(['\"])(?P<text>.*?)\1", re.DOTALL)


def naming_text(X: Any) -> AbstractContextManager[None]:
    """Turn the error about a text that is no number into a DataError that says where in the frame the text is.

    The error about an array for a pipeline that finds columns by name becomes one that asks for a frame.

    Parameters
    ----------
    X : array or frame
        The rows that are read meanwhile.
    """
    return _NamingText(X)


class _NamingText(AbstractContextManager[None]):
    def __init__(self, X: Any) -> None:
        self._X = X

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        if error is None or isinstance(error, AccousError) or not isinstance(error, ValueError):
            return
        if "only supported for dataframes" in str(error) and not is_frame(self._X):
            raise DataError(
                "X is an array, but your pipeline finds columns by their names: pass a frame with the columns of the "
                "reference."
            ) from error
        found = _NOT_A_NUMBER.search(str(error))
        if found is None or not is_frame(self._X):
            return
        place = _find(self._X, found["text"])
        if place is not None:
            column, row = place
            raise DataError(
                f"Column {column!r} holds the text {found['text']!r} in row {row}, where your estimator or transformer "
                "needs a number: correct or drop the row, or let the pipeline encode the column."
            ) from error


def _find(X: Any, text: str) -> tuple[Any, int] | None:
    """Return the column and the row of a text in a frame; of several, the column with the fewest other texts."""
    places: list[tuple[int, Any, int]] = []
    for number, name in enumerate(X.columns):
        values = (X.iloc[:, number] if hasattr(X, "iloc") else X.to_series(number)).to_list()
        if text in values:
            places.append((sum(isinstance(value, str) for value in values), name, values.index(text)))
    return min(places, key=lambda place: place[0])[1:] if places else None
