"""Models on tables: preprocessing, classifier, history and position in the stream, saved in one folder."""

from accous.extras import require_extra

require_extra("polars", "accous.tabular")
