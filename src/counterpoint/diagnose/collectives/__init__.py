"""Collectives of a step: exposure, slack, links, and the bound of each."""
