"""The HTML report: one page a model, one page a fleet of keys, drawn in the browser without a library.

`page` puts it together, `figures` says what tables and charts show and how numbers are written; `assets` draws.
"""
