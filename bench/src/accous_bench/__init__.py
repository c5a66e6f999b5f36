"""The benchmark of accous: contenders by name, streams, runs and reports."""
