"""One model per key: a step from bytes to bytes that any engine can call.

`adapter` is that step. `shared` is what all keys have in common, `state` a key's bytes, `rounds` how rows become
rounds and what follows a round, `readings` what can be said of a key, `arrow` the step on tables.
"""

from accous.keyed.adapter import KeyedAdapter
from accous.keyed.arrow import adapt_folder, fleet, newest_states
from accous.keyed.readings import KeyReading
from accous.keyed.shared import KeyEvent, Predictions

__all__ = ["KeyEvent", "KeyReading", "KeyedAdapter", "Predictions", "adapt_folder", "fleet", "newest_states"]
