"""Columns of a table as features: what is done with each column is learned from the reference and saved as JSON."""
