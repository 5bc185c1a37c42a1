"""Program: one compiled, scheduled HLO module.

`read_program` reads one from a proto, a dump or text (reader.py, then proto_reader.py and
text_reader.py); `hlo.model` defines the type. `work` (with `convolution`) has the work of an
instruction, `collectives` its participants, `phase` its part of the step, `origin` its source,
`schedule` its other half, and `loops` how often it runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.hlo.definition import defined_at as defined_at
    from counterpoint.hlo.definition import same_definition as same_definition
    from counterpoint.hlo.model.instruction import Computation as Computation
    from counterpoint.hlo.model.instruction import Instruction as Instruction
    from counterpoint.hlo.model.instruction import Shape as Shape
    from counterpoint.hlo.model.program import Program as Program
    from counterpoint.hlo.proto_reader import ELEMENT_TYPES as ELEMENT_TYPES
    from counterpoint.hlo.proto_reader import module_bytes as module_bytes
    from counterpoint.hlo.reader import Fragment as Fragment
    from counterpoint.hlo.reader import program_digest as program_digest
    from counterpoint.hlo.reader import program_from_fragments as program_from_fragments
    from counterpoint.hlo.reader import read_program as read_program
    from counterpoint.hlo.wire_schema import Message as Message
    from counterpoint.hlo.wire_schema import message_classes as message_classes

__getattr__ = lazy(__name__)
