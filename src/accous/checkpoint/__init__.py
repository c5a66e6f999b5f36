"""Save and resume: a folder that any later process can load and go on from, bit for bit, with nothing pickled."""

from accous.checkpoint.saving import load, load_with, save, save_with

__all__ = ["load", "load_with", "save", "save_with"]
