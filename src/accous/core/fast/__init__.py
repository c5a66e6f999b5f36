"""Compiled twins of the plain code, for few columns; every kernel is tested against its plain version."""
