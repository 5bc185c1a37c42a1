"""Where an instruction comes from: the user's scope, the source line, the phase of the step.

The source line is the innermost frame outside JAX, Flax and the like, and outside Python's own
library; where there is no such frame, the innermost one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from counterpoint.hlo.instruction import Instruction
from counterpoint.hlo.loops import in_loop
from counterpoint.hlo.memory import remembered
from counterpoint.hlo.phase import Phase, phase
from counterpoint.hlo.program import Program
from counterpoint.hlo.scope import scope
from counterpoint.hlo.speaker import speaker
from counterpoint.hlo.stack import Frame

_FRAMEWORK = re.compile(
    r"(site|dist)-packages/(jax|jaxlib|flax|optax|haiku|equinox|chex|orbax|diffrax|numpyro)/"
    r"|(^|/)jax/(_src|experimental|interpreters|numpy|lax|nn)/|(^|/)flax/(core|linen|nnx)/"
    r"|/lib/python3(\.\d+)?/(?!(site|dist)-packages)|^<"
)


@dataclass(frozen=True, slots=True)
class Provenance:
    """What the user wrote that became this instruction. Empty or None where nobody knows."""

    scope: str
    primitive: str
    op_name: str
    source: str | None
    stack: tuple[Frame, ...]
    phase: Phase
    in_loop: bool


@remembered
def provenance(program: Program, instruction: Instruction) -> Provenance:
    """Where an instruction comes from, through the one that speaks for it."""
    source = speaker(program, instruction) or instruction
    where = scope(source.op_name)
    stack = program.stack(source) or program.stack(instruction)
    frame = user_frame(stack)
    return Provenance(
        scope=where.path,
        primitive=where.primitive,
        op_name=source.op_name,
        source=f"{frame.file}:{frame.line}" if frame else None,
        stack=stack,
        phase=phase(program, instruction),
        in_loop=in_loop(program, instruction.computation),
    )


def user_frame(stack: tuple[Frame, ...]) -> Frame | None:
    """The innermost frame of user code; without any, the innermost frame."""
    users = (frame for frame in stack if not _FRAMEWORK.search(frame.file))
    return next(users, stack[0] if stack else None)
