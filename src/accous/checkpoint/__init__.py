"""Save a model to a folder, and resume it in any later process with the same bits and without pickle."""
