"""Writes a Run directory while its ranks run, and their outcomes."""

from counterpoint.runs.recording.writer import RankStart as RankStart
from counterpoint.runs.recording.writer import RunStart as RunStart
from counterpoint.runs.recording.writer import RunWriter as RunWriter
