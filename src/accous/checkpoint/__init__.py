"""Models in folders: saved in one step, checked on the way back, resumed with the same bits, and without pickle.

`folder` is `save` and `load`; `files` writes atomically, locks, and keeps the manifest; `codecs` turns values into
arrays and JSON; `pandas_frames` and `polars_frames` do so for frames, and are imported only if one is at hand.
"""
