"""Profiles of many hosts, each reduced to a digest where it lies, and what only all of them show.

digest.py makes a digest of one profile, and merges digests; tasks.py makes those of many profiles,
in processes of this machine or of a Ray cluster; products.py has what else a task can make.
fleet.py arranges merged digests by host, device and step; stragglers.py finds who makes the others
wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.fleet.collectives import FleetCollective as FleetCollective
    from counterpoint.fleet.collectives import SlowGroup as SlowGroup
    from counterpoint.fleet.digest import merge as merge
    from counterpoint.fleet.digest import write_digest as write_digest
    from counterpoint.fleet.fleet import Fleet as Fleet
    from counterpoint.fleet.fleet import Matrix as Matrix
    from counterpoint.fleet.fleet import absent_hosts as absent_hosts
    from counterpoint.fleet.fleet import arrange as arrange
    from counterpoint.fleet.stragglers import Late as Late
    from counterpoint.fleet.summary import FleetSummary as FleetSummary
    from counterpoint.fleet.summary import summarize as summarize
    from counterpoint.fleet.tasks import DigestExecutor as DigestExecutor
    from counterpoint.fleet.tasks import Gathering as Gathering
    from counterpoint.fleet.tasks import gather_digests as gather_digests
    from counterpoint.fleet.topology import read_topology as read_topology

__getattr__ = lazy(__name__)
