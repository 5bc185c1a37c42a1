"""The search space: dimensions with their choices, the constraints on combining them, and arms.

Read space.py first, then make.py, which makes a Space from three sources: dimensions.toml
(dimensions.py, selection.py), recipes (recipe_arms.py), and the user's file and arms
(space_file.py, space_edits.py, hand_arms.py, labels.py). context.py and current_settings.py have
what is known of the base, the devices and the program, which decides what applies.
"""

from counterpoint.tune.space.labels import is_label as is_label
from counterpoint.tune.space.space import Dimension as Dimension
from counterpoint.tune.space.space_edits import drafts_for as drafts_for
from counterpoint.tune.space.space_file import SpaceFile as SpaceFile
from counterpoint.tune.space.space_file import read_space as read_space
