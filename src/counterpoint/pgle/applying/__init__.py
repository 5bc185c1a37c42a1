"""Applies a profile: compiles with and without it, and compares the schedules."""
