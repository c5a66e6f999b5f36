"""The command ``accous``, also available as ``python -m accous``: runs the command line or says what to install."""

from __future__ import annotations

import sys

from accous.text import missing_extra

__all__ = ["main"]


def main() -> int:
    """Run the command line and return its exit code; return 1 if its packages are not installed."""
    try:
        from accous.cli import main as run

        return run()
    except ModuleNotFoundError as error:
        missing = missing_extra(error, "The command line")
        if missing is None:
            raise
        sys.stderr.write(f"accous: {missing}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
