"""Measurements of the project: run from the repository's root, see the Makefile."""
