"""One model per key: a step from bytes to bytes that any engine can call."""

from accous.keyed.adapter import KeyedAdapter
from accous.keyed.arrow import adapt_folder, fleet, newest_states
from accous.keyed.readings import KeyReading
from accous.keyed.shared import KeyEvent, Predictions

__all__ = ["KeyEvent", "KeyReading", "KeyedAdapter", "Predictions", "adapt_folder", "fleet", "newest_states"]
