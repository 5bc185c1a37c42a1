"""Xplane."""
