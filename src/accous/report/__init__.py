"""The report: one page that opens offline, for a person who has not read the paper."""
