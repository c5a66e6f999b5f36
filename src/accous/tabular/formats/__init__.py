"""Tables as people have them (CSV, TSV, JSON lines, Parquet, npy, gzip, pipes, growing files), read piece by piece."""
