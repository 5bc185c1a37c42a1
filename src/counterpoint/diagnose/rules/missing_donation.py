"""An argument that a step returns updated is copied, because it is not donated.

## What it does

Lists the copies that a program makes of its arguments because it must not overwrite them, though a
result of the same type would take their place, with the arguments' names.

## Why it costs time

A result that changes an argument in one place, such as a cache, a replay buffer or a state in a
loop, can be written into the argument's buffer. Without donation XLA copies the whole argument
first. In each step memory for the result is allocated and the old one freed, and both exist at
once. On a CPU the system works on every page of both: the new ones while they are first written,
which is within the copy, and the old ones after the run, when Python lets go of them.

## How it is detected

In the HLO, a copy whose operand is a parameter of the program that its `input_output_alias` does
not name, while a result of the same type has no parameter's buffer. Arguments that are only read,
or written as new arrays, are not copied and not named; neither are those that are still read when
their copy is changed. What the copies fill alone is the least that donating saves; the most is
all their time, and on a CPU up to a third more for freeing memory, as far as the devices idle.

## Example

```python
step = jax.jit(train_step)                        # without donate_argnums=0
cache, loss = step(cache, batch)
```

## Fix

Donate what the step returns updated: `jax.jit(step, donate_argnums=0)`, or `donate_argnames`.

## Fix safety

A donated array can't be used after the call.

## False alarms

An argument that is used again after the call can't be donated: the copy is then needed.

## References

- https://docs.jax.dev/en/latest/buffer_donation.html
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from counterpoint.core import Range
from counterpoint.core.printable import some
from counterpoint.diagnose.attribution import IDLE, attribute
from counterpoint.diagnose.environment import advise, on_virtual_devices
from counterpoint.diagnose.executed_ops import (
    ExecutedOp,
    evidence_of,
    executed_ops,
    moves_only,
)
from counterpoint.diagnose.finding import Finding, bytes_text, ms_text
from counterpoint.diagnose.step_data import StepData
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program, launches
from counterpoint.hlo.views import writer_of

CODE: Final = "STEP509"
NAME: Final = "missing-donation"
SINCE: Final = "0.1"

_LEAST_SHARE: Final = 0.001
"""Minimum share of the step for one copy: many small ones add up."""
_LEAST_SHOWN_MS: Final = 0.005  # less is printed as 0.00 ms
_NAMED: Final = 3
_FREEING: Final = 1 / 3
"""What it takes to free memory, at most, by what it takes to copy to new memory.

Measured on CPUs: 4 to 31% for 64 to 512 MB.
"""
_OTHER_RUN: Final = 0.1
"""By how much a copy may be quicker in another run."""


@dataclass(frozen=True, slots=True, eq=False)
class UndonatedCopy:
    """A copy that donating its argument would save."""

    ran: ExecutedOp
    argument: Instruction

    @property
    def name(self) -> str:
        """The argument's name in Python, or its number."""
        return self.argument.op_name or f"number {self.argument.parameter_number}"


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding, for all arguments."""
    copies = data.cached(undonated)
    total = sum(copy.ran.ms for copy in copies)
    if total <= max(_LEAST_SHARE * data.step_ms, _LEAST_SHOWN_MS):
        return
    freeing = _freeing_ms(data, total)
    moved = sum(copy.argument.shape.bytes for copy in copies)
    names = list(dict.fromkeys(copy.name for copy in copies))
    noun = "argument" if len(names) == 1 else "arguments"
    first = copies[0]
    yield Finding(
        code=CODE,
        title=f"copies of arguments that are not donated take {ms_text(total)} per step",
        detail=(
            f"{bytes_text(moved)} of the {noun} {some(names, _NAMED)} of {first.ran.program.name}"
            " are copied before a result of the same type is written, which could take that"
            f" buffer. The longest copy is {first.ran.row['op']}, {ms_text(first.ran.ms)} per"
            f" step{_pages(freeing)}"
        ),
        saves_ms=Range((1 - _OTHER_RUN) * _alone_ms(data, copies), total + freeing),
        takes_ms=total + freeing,
        basis=data.basis,
        evidence=evidence_of(data, (copy.ran for copy in copies)),
        remedy=advise(
            data,
            f"donate {'it' if len(names) == 1 else 'them'} (jax.jit(step, donate_argnums=...), or"
            " donate_argnames): the buffer is then reused",
        ),
    )


def undonated(data: StepData) -> list[UndonatedCopy]:
    """Return the copies that donating an argument would save, longest first."""
    long = (pl.col("category") == "copy") & (pl.col("share") > _LEAST_SHARE)
    copies: list[UndonatedCopy] = []
    for ran in executed_ops(data, long):
        if ran.instruction.opcode != "copy" or moves_only(ran.program, ran.instruction):
            continue
        argument = writer_of(ran.program, ran.instruction)
        if argument is None or not could_be_donated(ran.program, argument):
            continue
        if not _is_read_later(ran.program, argument, ran.instruction):
            copies.append(UndonatedCopy(ran, argument))
    return copies


def could_be_donated(program: Program, argument: Instruction) -> bool:
    """Return whether it is an argument without an alias, and a result of its type has none."""
    if argument.opcode != "parameter" or argument.computation != program.entry:
        return False
    if any(alias.parameter == argument.parameter_number for alias in program.aliases):
        return False
    root = program.root(program.entry)
    if root is None:
        return False
    results = [(leaf.dtype, leaf.dims) for leaf in root.shape.leaves]
    free = Counter(results)
    for alias in program.aliases:
        place = alias.output[0] if alias.output else 0
        if place < len(results):
            free[results[place]] -= 1
    return any(free[leaf.dtype, leaf.dims] > 0 for leaf in argument.shape.leaves)


def _is_read_later(program: Program, argument: Instruction, copy: Instruction) -> bool:
    """Return whether the argument is still read when its copy is changed: it is then needed."""
    written = min((user.index for user in program.users(copy)), default=copy.index)
    front, seen = [argument], {argument.name}
    while front:
        for user in program.users(front.pop()):
            if user.name in seen or user.name == copy.name:
                continue
            seen.add(user.name)
            if not launches(user):
                front.append(user)
            elif user.index >= written and user.computation == copy.computation:
                return True
    return False


def _alone_ms(data: StepData, copies: Sequence[UndonatedCopy]) -> float:
    """Return for how long a device would have nothing to do without the copies."""
    own = [row for copy in copies for row in data.rows_of(copy.ran.row)]
    others = attribute(data.selection, data.spans.filter(~pl.col("op").is_in(own)))
    with_them, without = (
        int(each.filter(pl.col("state") == IDLE)["ps"].sum()) for each in (data.attributed, others)
    )
    return (without - with_them) * data.selection.scale


def _freeing_ms(data: StepData, copies: float) -> float:
    """Return the most that freeing the old memory takes: on a CPU, the devices wait for it."""
    if not on_virtual_devices(data.timeline):
        return 0.0
    return min(_FREEING * copies, data.breakdown.idle_ms)


def _pages(freeing: float) -> str:
    if freeing < _LEAST_SHOWN_MS:
        return ""
    return (
        f"; to free the old memory, after the run, takes the system up to {ms_text(freeing)} more"
    )
