"""The state of many keys as arrays with one row per key, and the rounds that all of them play in compiled loops."""
