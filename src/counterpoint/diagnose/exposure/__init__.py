"""Exposure: communication that nothing hides, and what each of it is due to."""
