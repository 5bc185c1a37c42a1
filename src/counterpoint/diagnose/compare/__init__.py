"""Compare: two runs, profiles or predictions, and what made the one slower than the other."""
