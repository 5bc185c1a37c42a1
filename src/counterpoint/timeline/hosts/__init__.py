"""Assembles the Recordings of several hosts into one Timeline with aligned clocks."""

from counterpoint.timeline.hosts.alignment import meetings as meetings
from counterpoint.timeline.hosts.alignment import number_collectives as number_collectives
from counterpoint.timeline.hosts.alignment import one_clock as one_clock
from counterpoint.timeline.hosts.alignment import shared_ends as shared_ends
from counterpoint.timeline.hosts.alignment import stays as stays
from counterpoint.timeline.hosts.alignment import with_groups as with_groups
from counterpoint.timeline.hosts.consistency import other_times as other_times
from counterpoint.timeline.hosts.counterparts import HostRuns as HostRuns
from counterpoint.timeline.hosts.counterparts import find_shifts as find_shifts
