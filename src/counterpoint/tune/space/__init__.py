"""What may be changed: dimensions with choices, which of them go together, and arms by hand."""

from counterpoint.tune.space.labels import is_label as is_label
from counterpoint.tune.space.space import Dimension as Dimension
from counterpoint.tune.space.space_file import SpaceFile as SpaceFile
from counterpoint.tune.space.space_file import drafts_for as drafts_for
from counterpoint.tune.space.space_file import read_space as read_space
