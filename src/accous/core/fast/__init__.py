"""Compiled versions of the plain code, for few columns; every kernel is tested against its plain version."""
