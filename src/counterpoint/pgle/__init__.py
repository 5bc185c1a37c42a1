"""Profiles that give XLA's scheduler the cost of each instruction (PGLE).

`profiles` reads and writes them, `making` makes them from recordings, `checking` compares them with
a program, `applying` compiles with them. Exported here: the names under which XLA looks up costs
(lookups.py), and what its log proves about a profile (evidence.py). docs/formats/pgle.md describes
what XLA accepts, and what it silently ignores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.pgle.complaints import ComplaintKind as ComplaintKind
    from counterpoint.pgle.complaints import LogComplaint as LogComplaint
    from counterpoint.pgle.evidence import VERBOSE_LOG as VERBOSE_LOG
    from counterpoint.pgle.evidence import LogEvidence as LogEvidence
    from counterpoint.pgle.evidence import ModuleUse as ModuleUse
    from counterpoint.pgle.evidence import ProfileUse as ProfileUse
    from counterpoint.pgle.evidence import read_evidence as read_evidence
    from counterpoint.pgle.lookups import cost_name as cost_name
    from counterpoint.pgle.lookups import costs_found as costs_found
    from counterpoint.pgle.lookups import lookup_name as lookup_name
    from counterpoint.pgle.lookups import xla_lookups as xla_lookups
    from counterpoint.pgle.named_ops import named_ops as named_ops
    from counterpoint.pgle.staleness import ProfileFit as ProfileFit
    from counterpoint.pgle.unused_costs import UnusedReason as UnusedReason

__getattr__ = lazy(__name__)
