"""Tables as people have them (CSV, TSV, JSON lines, Parquet, gzip, pipes, files that grow), read piece by piece."""
