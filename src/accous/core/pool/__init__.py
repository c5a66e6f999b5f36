"""The pool: candidates that are density ratios, mixed by Bayes' rule, and a memory of earlier regimes."""
