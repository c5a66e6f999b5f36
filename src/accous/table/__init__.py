"""Tables in files (CSV, TSV, JSON lines, Parquet, npy, gzip, pipes, growing files), read piece by piece."""

from __future__ import annotations

from accous.text import require_extra

# --- Models on tables: preprocessing, classifier, history and position in the stream, saved in one folder


require_extra("polars", "accous.table")
