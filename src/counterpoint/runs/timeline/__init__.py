"""Reads the profiles of a Run's ranks as one Timeline."""

from counterpoint.runs.timeline.read import read as read
