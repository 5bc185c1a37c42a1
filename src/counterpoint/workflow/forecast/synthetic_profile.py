"""A PGLE profile of predicted costs: the cost model's price of each instruction."""

from __future__ import annotations

from typing import Final

from counterpoint.cost import CostModel
from counterpoint.hlo import Program
from counterpoint.pgle.lookups import xla_lookups
from counterpoint.pgle.profiles import InstructionCost, Profile

_DECIMALS: Final = 3  # of a microsecond


def synthetic_profile(program: Program, model: CostModel, about: str) -> Profile:
    """Price each instruction by the model, under the names that XLA looks up."""
    costs: dict[str, InstructionCost] = {}
    for lookup in xla_lookups(program):
        seconds = model.price(program, lookup.instruction).seconds
        for name in lookup.names:
            costs[name] = InstructionCost(
                name, round(seconds * 1e6, _DECIMALS), program.fingerprint
            )
    # XLA 0.12 looks up the end of an asynchronous fusion, too.
    for instruction in program.instructions:
        if instruction.opcode == "fusion-done":
            costs.setdefault(
                instruction.name, InstructionCost(instruction.name, 0.0, program.fingerprint)
            )
    origin = {
        "made by": "counterpoint predict --pgle",
        "costs": f"PREDICTED, not measured: {about}",
        f"module {program.fingerprint}": program.name,
    }
    return Profile(tuple(costs.values()), origin=origin)
