"""The one-step ratio estimators beside those of other packages: ``make bench-peers``.

Runners import this package in the peers' environments, so nothing is imported here.
"""
