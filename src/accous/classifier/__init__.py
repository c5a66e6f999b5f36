"""The adaptive classifier: its rounds, its state, its safeguards, and what it reports about itself."""
