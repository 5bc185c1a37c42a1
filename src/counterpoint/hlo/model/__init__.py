"""The model of a compiled module: Program, Instruction, Shape and replica groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.hlo.model.groups import Groups as Groups
    from counterpoint.hlo.model.groups import Iota as Iota
    from counterpoint.hlo.model.groups import ListedGroups as ListedGroups
    from counterpoint.hlo.model.groups import Mesh as Mesh
    from counterpoint.hlo.model.groups import ReplicaGroups as ReplicaGroups
    from counterpoint.hlo.model.instruction import element_bits as element_bits
    from counterpoint.hlo.model.program import launched as launched
    from counterpoint.hlo.model.program import launches as launches

__getattr__ = lazy(__name__)
