"""Race."""
