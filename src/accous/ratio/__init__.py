"""Density-ratio estimators, one method per file; the ratio is always batch over reference."""
