"""Scheduled programs written by hand, and a cost model that says what a test wants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from counterpoint.cost.model import Contention, Price, PriceFamily, PriceSource
from counterpoint.hlo.collectives import collective
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.reader import read_program

S = "f32[8]"
GATHER = "replica_groups={{0,1}}, dimensions={0}"


@dataclass(frozen=True)
class Told:
    """Seconds by instruction name; 1.0 where nothing is told."""

    seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    contention: Contention = field(default_factory=Contention)
    launch_s: float = 0.0
    reach: float = 0.0
    source: PriceSource = PriceSource.ANALYTIC

    def price(self, program: Program, instruction: Instruction) -> Price:
        likely = self.seconds.get(instruction.name, 1.0)
        talks = collective(program, instruction) is not None
        return Price(
            likely,
            likely * (1 - self.reach),
            likely * (1 + self.reach),
            self.source,
            PriceFamily.NETWORK if talks else PriceFamily.MATMUL,
        )


def compute(name: str, reads: str = "p") -> str:
    return f"  {name} = {S} sine({reads})"


def start(name: str, *, sync: bool = False, extra: str = "") -> str:
    config = ', backend_config={"collective_backend_config":{"is_sync":true}}' if sync else ""
    return f"  {name} = (f32[8], f32[16]) all-gather-start(p), {GATHER}{extra}{config}"


def done(of: str) -> str:
    return f"  {of}.done = f32[16] all-gather-done({of})"


def entry(*lines: str, root: str | None = None) -> str:
    body = "\n".join(lines)
    return f"""
ENTRY main {{
  p = {S} parameter(0)
{body}
  ROOT result = {S} {root or "copy(p)"}
}}
"""


def program(text: str, *, scheduled: bool = True) -> Program:
    said = ", is_scheduled=true" if scheduled else ""
    return read_program(f"HloModule made{said}, num_partitions=2\n{text}")


def straight(*lines: str) -> Program:
    """Instructions one after the other, and a last one called `result`."""
    return program(entry(*lines))


def loop(*lines: str, name: str = "body") -> str:
    """A computation that is the body of a loop, and its condition."""
    body = "\n".join(line.replace("(p)", "(q)").replace("(p,", "(q,") for line in lines)
    return f"""
{name} {{
  state = (s32[], {S}) parameter(0)
  q = {S} get-tuple-element(state), index=1
  i = s32[] get-tuple-element(state), index=0
{body}
  ROOT next = (s32[], {S}) tuple(i, q)
}}

{name}.condition {{
  asked = (s32[], {S}) parameter(0)
  ROOT goes_on = pred[] custom-call(asked), custom_call_target="ask"
}}
"""


def run_loop(trips: int | None, name: str = "body", reads: str = "p") -> str:
    known = "" if trips is None else f', backend_config={{"known_trip_count":{{"n":"{trips}"}}}}'
    return f"""  zero.{name} = s32[] constant(0)
  init.{name} = (s32[], {S}) tuple(zero.{name}, {reads})
  {name}.loop = (s32[], {S}) while(init.{name}), condition={name}.condition, body={name}{known}"""
