"""Compare the one-step ratio estimators with those of other packages: ``make bench-peers``.

Runners import this package in the peers' environments, so this file imports nothing.
"""
