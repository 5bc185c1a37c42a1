"""Processes that compile and may crash: their input, their work, their supervision."""
