"""Pure maths of the method: arrays in, arrays out.

No scikit-learn, no files, no clocks and no randomness of its own.
"""
