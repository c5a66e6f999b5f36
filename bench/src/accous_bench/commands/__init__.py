"""The subcommands of ``accous bench``."""
