"""Columns of a table as features: what is done with each is learned from the reference, explicit, and saved as JSON."""

from accous.extras import require_extra

require_extra("polars", "accous.tabular.columns")
