"""Hand-made pairs for `compare`: HLO of one computation and its spans, step after step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest

from counterpoint.diagnose.compare.comparison import StepDifference, compare
from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.model import EmbeddedProgram, Timeline
from recordings import Span, recording

MS = 1_000_000  # nanoseconds
GROUPS = "replica_groups={{0,1}}, use_global_device_ids=true"

_HEAD = """\
HloModule jit_step, is_scheduled=true, num_partitions=2

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %sum = f32[] add(%x, %y)
}
"""


def meta(scope: str) -> str:
    return f'metadata={{op_name="jit(step)/{scope}" source_file="/me/model.py" source_line=7}}'


def sine(name: str, scope: str, reads: str = "p") -> str:
    return f"  %{name} = f32[256]{{0}} sine(%{reads}), {meta(scope)}"


def reduce_start(name: str, scope: str, elements: int, *, sync: bool = False) -> str:
    config = ', backend_config={"collective_backend_config":{"is_sync":true}}' if sync else ""
    return (
        f"  %{name}.in = f32[{elements}]{{0}} iota(), iota_dimension=0\n"
        f"  %{name} = f32[{elements}]{{0}} all-reduce-start(%{name}.in), channel_id=1, {GROUPS}, "
        f"to_apply=%add, {meta(scope)}{config}"
    )


def reduce_done(name: str, start: str, elements: int) -> str:
    return f"  %{name} = f32[{elements}]{{0}} all-reduce-done(%{start})"


def fused(name: str, scope: str, body: str) -> str:
    return f"  %{name} = f32[256]{{0}} fusion(%p), kind=kLoop, calls=%{body}, {meta(scope)}"


def body(name: str, *scopes: str) -> str:
    """A fused computation: one sine after another, each of a scope of its own."""
    reads, lines = f"{name}.p", [f"  %{name}.p = f32[256]{{0}} parameter(0)"]
    for number, scope in enumerate(scopes):
        root = "ROOT " if number == len(scopes) - 1 else ""
        lines.append(f"  {root}%{name}.{number} = f32[256]{{0}} sine(%{reads}), {meta(scope)}")
        reads = f"{name}.{number}"
    inside = "\n".join(lines)
    return f"\n%{name} (p: f32[256]) -> f32[256] {{\n{inside}\n}}\n"


def program(*lines: str, before: str = "", inputs: str = "p = f32[256]{0} parameter(0)") -> str:
    body = "\n".join(lines)
    return (
        f"{_HEAD}{before}\nENTRY %main (p: f32[256]) -> f32[256] {{\n  %{inputs}\n{body}\n"
        "  ROOT %end = f32[256]{0} bitcast(%p)\n}\n"
    )


def timeline(
    hlo: str | None,
    spans: Sequence[tuple[str, float, float, int]],
    *,
    step_ms: float | Sequence[float] = 10.0,
    steps: int = 5,
    devices: int = 1,
    name: str = "made",
) -> Timeline:
    """Spans are (op, start in ms of the step, length, line), alike in each step on each device."""
    lengths = [step_ms] * steps if isinstance(step_ms, float | int) else list(step_ms)
    starts = [sum(lengths[:at]) for at in range(len(lengths))]
    made = [
        Span(op, round((at + start) * MS), round(length * MS), device, 8 * device + line)
        for at in starts
        for device in range(devices)
        for op, start, length, line in spans
    ]
    markers = [
        (device, number, round(at * MS), round(length * MS))
        for device in range(devices)
        for number, (at, length) in enumerate(zip(starts, lengths, strict=True))
    ]
    programs: Mapping[str, EmbeddedProgram] = (
        {} if hlo is None else {"jit_step": EmbeddedProgram("jit_step", hlo.encode)}
    )
    return assemble([recording(made, markers=markers, programs=programs)], [f"{name}.xplane.pb"])


def work_of(a: Timeline, b: Timeline) -> StepDifference:
    """Compared; and its rows add up, whatever is compared."""
    found = compare(a, b).work
    assert isinstance(found, StepDifference)
    rows = math.fsum(row.difference_ms for row in found.ops)
    parts = math.fsum(it.difference_ms for it in found.parts)
    assert rows == pytest.approx(found.busy.difference_ms, abs=1e-9)
    assert parts == pytest.approx(found.step.difference_ms, abs=1e-9)
    return found
