"""A model on people's own tables: preprocessing, classifier, history and place in the stream, in one folder."""

from accous.extras import require_extra

require_extra("polars", "accous.tabular")
