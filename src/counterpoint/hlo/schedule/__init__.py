"""The schedule of a Program: async pairs, and loops with their trip counts."""

from counterpoint.hlo.schedule.loops import async_pairs as async_pairs
from counterpoint.hlo.schedule.loops import in_loop as in_loop
from counterpoint.hlo.schedule.loops import is_done as is_done
from counterpoint.hlo.schedule.loops import is_start as is_start
from counterpoint.hlo.schedule.loops import loop_multiplier as loop_multiplier
from counterpoint.hlo.schedule.loops import start_of as start_of
from counterpoint.hlo.schedule.loops import trip_count as trip_count
