"""The search space: dimensions with their choices, the constraints on combining them, and arms."""

from counterpoint.tune.space.hand_arms import is_label as is_label
from counterpoint.tune.space.space import Dimension as Dimension
from counterpoint.tune.space.space_file import SpaceFile as SpaceFile
from counterpoint.tune.space.space_file import drafts_for as drafts_for
from counterpoint.tune.space.space_file import read_space as read_space
