"""Which files pytest leaves out: those that cannot be imported without an optional dependency."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("torch") else ["src/accous/bench/adversarial.py"]
