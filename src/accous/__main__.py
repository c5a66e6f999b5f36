"""``python -m accous``: the command line."""

import sys

from accous.cli import main

if __name__ == "__main__":
    sys.exit(main())
