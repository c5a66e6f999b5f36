"""One model per key: a step from bytes to bytes that any engine can call."""

from accous.keyed.adapter import KeyedAdapter
from accous.keyed.fleet import fleet
from accous.keyed.local_tables import adapt_folder
from accous.keyed.newest import newest_states
from accous.keyed.predictions import KeyEvent, Predictions
from accous.keyed.readings import KeyReading

__all__ = ["KeyEvent", "KeyReading", "KeyedAdapter", "Predictions", "adapt_folder", "fleet", "newest_states"]
