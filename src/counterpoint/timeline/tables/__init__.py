"""The tables of a Recording."""

from counterpoint.timeline.tables.recording import IN_GRAPHS as IN_GRAPHS
from counterpoint.timeline.tables.recording import OPS as OPS
from counterpoint.timeline.tables.recording import EmbeddedProgram as EmbeddedProgram
from counterpoint.timeline.tables.recording import Schema as Schema
