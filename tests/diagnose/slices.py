"""Cases of two TPU slices, of scenes that tests/timeline/megascale_fixture.py describes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from megascale_fixture import Scene, files

from counterpoint.diagnose.selection import select
from counterpoint.diagnose.step_data import Context, StepData
from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.xplane.reader import read_xplane


@cache
def timeline_of(scene: Scene, quiet: Scene | None = None) -> Timeline:
    """The Timeline of both slices; the second's profile is that of `quiet`, where it is given."""
    names = ["slice-1.xplane.pb", "slice-2.xplane.pb"]
    first, second = files(scene)
    parts = zip((first, files(quiet)[1] if quiet else second), names, strict=True)
    return assemble([read_xplane(memoryview(data), name) for data, name in parts], names)


def case_of(
    scene: Scene, environment: Mapping[str, str] | None = None, quiet: Scene | None = None
) -> StepData:
    """What a rule is asked about."""
    return StepData(
        selection=select(timeline_of(scene, quiet)), context=Context(environment=environment)
    )
