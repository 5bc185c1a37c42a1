"""Prices compute: GEMMs, attention, memory-bound fusions, copies, custom calls."""
