"""Save and resume: a folder that any later process can load and go on from, bit for bit, with nothing pickled."""
