"""The report of a benchmark: from rows to tables, findings and figures, as Markdown, LaTeX and HTML."""
