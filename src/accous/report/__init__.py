"""The report: one HTML page that opens offline, written for readers who have not read the paper."""
