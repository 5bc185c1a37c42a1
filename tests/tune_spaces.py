"""Spaces for tests: programs of a few lines, and a space made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from counterpoint.flags.settings import Settings
from counterpoint.hardware.targets import parse_target
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.text_reader import program_from_text
from counterpoint.tune.executors.executor import ProcessShape
from counterpoint.tune.space.context import Platform, RunFacts
from counterpoint.tune.space.make import make_space
from counterpoint.tune.space.space import Dimension, Space
from counterpoint.tune.space.space_file import parse_space

_GATHERS: Final = """
HloModule step, is_scheduled=true, num_partitions=8

body {{
  p = (s32[], f32[16777216], f32[8388608], f32[4194304]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  a = f32[16777216] get-tuple-element(p), index=1
  b = f32[8388608] get-tuple-element(p), index=2
  c = f32[4194304] get-tuple-element(p), index=3
  one = s32[] constant(1)
  next = s32[] add(i, one)
  s = f32[2097152] slice(a), slice={{[0:2097152]}}
  t = f32[1048576] slice(b), slice={{[0:1048576]}}
  u = f32[524288] slice(c), slice={{[0:524288]}}
  g = f32[16777216] all-gather(s), channel_id=1, replica_groups=[1,8]<=[8], dimensions={{0}}, use_global_device_ids=true
  h = f32[8388608] all-gather(t), channel_id=2, replica_groups=[1,8]<=[8], dimensions={{0}}, use_global_device_ids=true
  k = f32[4194304] all-gather(u), channel_id=3, replica_groups=[1,8]<=[8], dimensions={{0}}, use_global_device_ids=true
  ROOT r = (s32[], f32[16777216], f32[8388608], f32[4194304]) tuple(next, g, h, k)
}}

condition {{
  q = (s32[], f32[16777216], f32[8388608], f32[4194304]) parameter(0)
  j = s32[] get-tuple-element(q), index=0
  n = s32[] constant({trips})
  ROOT less = pred[] compare(j, n), direction=LT
}}

ENTRY main {{
  x = f32[16777216] parameter(0)
  y = f32[8388608] parameter(1)
  z = f32[4194304] parameter(2)
  zero = s32[] constant(0)
  start = (s32[], f32[16777216], f32[8388608], f32[4194304]) tuple(zero, x, y, z)
  ROOT loop = (s32[], f32[16777216], f32[8388608], f32[4194304]) while(start), condition=condition, body=body
}}
"""  # noqa: E501 - an instruction is a line

_ALONE: Final = """
HloModule alone, is_scheduled=true

ENTRY main {
  x = f32[1024] parameter(0)
  ROOT y = f32[1024] add(x, x)
}
"""


def gathers(trips: int = 4) -> Program:
    """A loop with three all-gathers: 64, 32 and 16 MiB."""
    return program_from_text(_GATHERS.format(trips=trips))


def alone() -> Program:
    """No collective, no loop."""
    return program_from_text(_ALONE)


def space_of(
    base: Settings | None = None,
    *,
    target: str | None = "8xH100",
    program: Program | None = None,
    version: str | None = "0.10.2",
    asked: str | None = None,
    file: str = "tune.toml",
    shape: ProcessShape | None = None,
    platform: Platform | None = None,
    inherited: Mapping[str, str] | None = None,
    arms: tuple[str, ...] = (),
) -> Space:
    """The space, with a user's file as its text."""
    return make_space(
        base or Settings(),
        target=parse_target(target, tpus=platform == "tpu") if target else None,
        program=program,
        version=version,
        space_file=None if asked is None else parse_space(asked, file),
        run_facts=RunFacts(shape=shape, platform=platform, inherited=inherited or {}),
        arms=arms,
    )


def named(space: Space, name: str) -> Dimension:
    """The dimension; KeyError where it is left out."""
    return {it.name: it for it in space.dimensions}[name]


def choices(space: Space, name: str) -> list[str]:
    """The names of its choices; none where it is left out."""
    return [change.choice for it in space.dimensions if it.name == name for change in it.choices]


def why_out(space: Space, name: str) -> str:
    """Why it is left out; KeyError where it is not."""
    return {it.name: it.why for it in space.left_out}[name]
