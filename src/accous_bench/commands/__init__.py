"""The commands below ``accous bench``."""
