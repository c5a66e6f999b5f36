"""Console commands of the documentation that no test of the pages runs, each with its reason.

This is the only place for such exceptions on README and on the pages at the top of `docs/`. In the folders below, a
block says `<!-- no-test -->` itself.
"""

from tests.docs_pages import DOCS, ROOT

_HOURS = "takes hours; tests/cli/test_bench.py runs small grids"
_INSTALLS = "installs packages; `make wheel` installs the wheel in an empty environment"

# Whole pages.
PAGES_LEFT_OUT = {DOCS / "service.md": "tests/service/test_service_guide.py runs all of it, with a server"}

# Single commands, without their remarks.
COMMANDS_LEFT_OUT = {
    ROOT / "README.md": {
        "make demo": "sets up an environment; the command that it runs is on docs/start.md",
        "make test": "runs these tests",
        "accous labels model/ to_label.csv": "people fill it in first, as docs/tutorials/labels.md does",
    },
    DOCS / "start.md": {
        "python -m venv .venv": _INSTALLS,
        ". .venv/bin/activate": _INSTALLS,
        "pip install '.[cli,plot]'": _INSTALLS,
    },
    DOCS / "deep.md": {"pip install '.[deep]'": _INSTALLS},
    DOCS / "benchmark.md": {
        "pip install '.[cli]' ./bench": _INSTALLS,
        "accous bench run smoke --jobs 2": "takes minutes; tests/cli/test_bench.py runs it with fewer contenders",
        "accous bench run table3 --jobs 2": _HOURS,
        "accous bench report results/table3": _HOURS,
        "accous bench run table3 --share 0.05 --contenders DANN,KMM -o again": _HOURS,
        "accous bench report benchmarks/results/table3.json --repeated again": _HOURS,
    },
    DOCS / "cli.md": {
        "accous fit embeddings.npy --label labels.npy -o model/": "512 columns; tests/cli/test_embeddings.py has fewer",
        "accous adapt model/ stream.npy -o predictions.csv --label stream_labels.npy": "as the command above it",
    },
}

# Commands that take more than a few seconds of processor time: `make test-slow` runs each in an empty folder.
SLOW_COMMANDS = {"accous demo"}
