"""Cases of two TPU slices, of scenes that tests/timeline/megascale_fixture.py describes."""

from __future__ import annotations

from collections.abc import Mapping

from megascale_fixture import Scene, files

from counterpoint.diagnose.case import Case
from counterpoint.diagnose.context import Context
from counterpoint.diagnose.selection import select
from counterpoint.timeline.assemble import assemble
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.xplane.reader import read_xplane


def timeline_of(scene: Scene) -> Timeline:
    """The Timeline of both slices."""
    names = ["slice-1.xplane.pb", "slice-2.xplane.pb"]
    parts = zip(files(scene), names, strict=True)
    return assemble([read_xplane(memoryview(data), name) for data, name in parts], names)


def case_of(scene: Scene, environment: Mapping[str, str] | None = None) -> Case:
    """What a rule is asked about."""
    return Case(selection=select(timeline_of(scene)), context=Context(environment=environment))
