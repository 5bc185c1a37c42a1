"""Makes profiles: samples of a recording become costs, and profiles are merged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.pgle.lookups import effective_costs as effective_costs
    from counterpoint.pgle.lookups import same_costs as same_costs
    from counterpoint.pgle.making.contention import ProfilerConflict as ProfilerConflict
    from counterpoint.pgle.making.contention import conflicts as conflicts
    from counterpoint.pgle.making.contention import processes_here as processes_here
    from counterpoint.pgle.making.make import make_profile as make_profile
    from counterpoint.pgle.making.merge import describe_merge as describe_merge
    from counterpoint.pgle.making.merge import merge_profiles as merge_profiles
    from counterpoint.pgle.making.modules import ModuleCosts as ModuleCosts
    from counterpoint.pgle.making.modules import ProfileBuild as ProfileBuild
    from counterpoint.pgle.making.origin import count as count
    from counterpoint.pgle.making.origin import other_recorded as other_recorded
    from counterpoint.pgle.making.samples import measured_times as measured_times
    from counterpoint.pgle.making.samples import profiled_runs as profiled_runs
    from counterpoint.pgle.making.samples import samples as samples

__getattr__ = lazy(__name__)
