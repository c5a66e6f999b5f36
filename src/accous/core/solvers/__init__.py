"""Optimisation problems inside the estimators, and their solvers: regressions, the KMM program, KLIEP's mixture."""
