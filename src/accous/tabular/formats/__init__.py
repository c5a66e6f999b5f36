"""Tables as people have them (CSV, TSV, JSON lines, Parquet, npy, gzip, pipes, growing files), read piece by piece."""

from accous.extras import require_extra

require_extra("polars", "accous.tabular.formats")
