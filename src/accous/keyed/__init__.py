"""One model per key: a step from bytes to bytes that any engine can call.

`adapter` is that step, and what can be said of a key. `shared` is what all keys have in common, `state` a key's bytes,
`rounds` how rows become rounds and what follows a round, `arrow` the step on tables.
"""

from accous.keyed.adapter import KeyedAdapter, KeyReading
from accous.keyed.arrow import adapt_folder, fleet, newest_states
from accous.keyed.shared import KeyEvent, Predictions

__all__ = ["KeyEvent", "KeyReading", "KeyedAdapter", "Predictions", "adapt_folder", "fleet", "newest_states"]
