"""Solvers for the optimisation problems of the estimators: regressions, the KMM program, KLIEP's mixture."""
