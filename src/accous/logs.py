"""The logger of accous: silent until you configure logging."""

from __future__ import annotations

import logging

__all__ = ["LOGGER"]

LOGGER = logging.getLogger("accous")
# Without a handler of any kind, Python would print warnings to stderr.
LOGGER.addHandler(logging.NullHandler())
