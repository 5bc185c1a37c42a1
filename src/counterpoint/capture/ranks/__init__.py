"""The ranks that this process starts: a surrounding launcher's, or its own."""

from counterpoint.capture.ranks.world import LocalRank as LocalRank
from counterpoint.capture.ranks.world import World as World
from counterpoint.capture.ranks.world import count_gpus as count_gpus
from counterpoint.capture.ranks.world import find_world as find_world
