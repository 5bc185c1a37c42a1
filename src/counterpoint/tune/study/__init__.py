"""A study as its journal tells it, and the directory that it lies in."""
