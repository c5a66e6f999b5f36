"""Tables in files (CSV, TSV, JSON lines, Parquet, npy, gzip, pipes, growing files), read piece by piece."""
