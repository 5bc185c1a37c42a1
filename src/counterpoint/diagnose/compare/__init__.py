"""Comparison of two runs, profiles or predictions, and of what made one slower than the other."""
