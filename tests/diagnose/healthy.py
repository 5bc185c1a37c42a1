"""A step that nothing is wrong with: no rule may find anything in it.

Four H100s, six steps of 10.54 ms one right after the other, in microseconds from a step's start:

    compute      dot.1 .. dot.8, 1,300 each, bf16 8192 x 8192 x 8192: 846 TFLOP/s of 989
                 update, 140, moves 403 MB: 2.9 TB/s of 3.35
    collective   all-gather   0 to 350     of 134 MB, needed at 2,600
                 all-reduce   7,800 to 8,400 of 134 MB, needed at 10,400
    host         calls the step in 50, two steps ahead of the devices, and waits for nothing

Everybody comes at the same time, nothing is copied, and the device always computes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.model import Device, EmbeddedProgram, Timeline
from counterpoint.timeline.recording import HOST_EVENTS, Recording
from recordings import Span, recording

US = 1_000  # nanoseconds
PS = 1_000_000  # picoseconds in a microsecond
CHIP = "NVIDIA H100 80GB HBM3"
DEVICES = 4
STEPS = 6
DOT = 1_300
UPDATE = 140
STEP = 8 * DOT + UPDATE
MODULE = "jit_train_step"

_DOT = """\
  %{name} = bf16[8192,8192]{{1,0}} fusion({left}, {right}), kind=kOutput, calls=%multiply.{n}, \
metadata={{op_name="jit(train_step)/{scope}/dot_general" source_file="/home/me/model/mlp.py" \
source_line={line}}}
"""

_CALLED = """\
%multiply.{n} (a.{n}: bf16[8192,8192], b.{n}: bf16[8192,8192]) -> bf16[8192,8192] {{
  %a.{n} = bf16[8192,8192]{{1,0}} parameter(0)
  %b.{n} = bf16[8192,8192]{{1,0}} parameter(1)
  ROOT %dot.in.{n} = bf16[8192,8192]{{1,0}} dot(%a.{n}, %b.{n}), lhs_contracting_dims={{1}}, \
rhs_contracting_dims={{0}}
}}

"""

_UPDATED = """\
%updated (w: bf16[8192,8192], g: bf16[8192,8192]) -> bf16[8192,8192] {
  %w = bf16[8192,8192]{1,0} parameter(0)
  %g = bf16[8192,8192]{1,0} parameter(1)
  ROOT %less = bf16[8192,8192]{1,0} subtract(%w, %g)
}

%add (x: bf16[], y: bf16[]) -> bf16[] {
  %x = bf16[] parameter(0)
  %y = bf16[] parameter(1)
  ROOT %sum = bf16[] add(%x, %y)
}

"""


def hlo() -> str:
    """The step's module, scheduled."""
    forward, backward = "jvp(mlp)", "transpose(jvp(mlp))"

    def dot(n: int, left: str, right: str) -> str:
        scope, line = (forward, 12) if n < 5 else (backward, 12)
        return _DOT.format(name=f"dot.{n}", n=n, left=left, right=right, scope=scope, line=line)

    return (
        f"HloModule {MODULE}, is_scheduled=true, num_partitions={DEVICES}, "
        "input_output_alias={ {}: (1, {}, may-alias) }\n\n"
        + "".join(_CALLED.format(n=n) for n in range(1, 9))
        + _UPDATED
        + "ENTRY %main (shard: bf16[2048,8192], weight: bf16[8192,8192], batch: bf16[8192,8192])"
        + " -> bf16[8192,8192] {\n"
        + "  %shard = bf16[2048,8192]{1,0} parameter(0)\n"
        + "  %weight = bf16[8192,8192]{1,0} parameter(1)\n"
        + "  %batch = bf16[8192,8192]{1,0} parameter(2)\n"
        + "  %all-gather-start = (bf16[2048,8192]{1,0}, bf16[8192,8192]{1,0})"
        + " all-gather-start(%shard), channel_id=1, replica_groups={{0,1,2,3}}, dimensions={0},"
        + ' use_global_device_ids=true, metadata={op_name="jit(train_step)/jvp(mlp)/all_gather"'
        + ' source_file="/home/me/model/mlp.py" source_line=7}\n'
        + dot(1, "%batch", "%weight")
        + dot(2, "%dot.1", "%weight")
        + "  %all-gather-done = bf16[8192,8192]{1,0} all-gather-done(%all-gather-start)\n"
        + dot(3, "%dot.2", "%all-gather-done")
        + dot(4, "%dot.3", "%weight")
        + dot(5, "%dot.4", "%weight")
        + dot(6, "%dot.5", "%dot.2")
        + "  %all-reduce-start = bf16[8192,8192]{1,0} all-reduce-start(%dot.6), channel_id=2,"
        + " replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=%add,"
        + ' metadata={op_name="jit(train_step)/transpose(jvp(mlp))/psum"'
        + ' source_file="/home/me/model/mlp.py" source_line=20}\n'
        + dot(7, "%dot.5", "%dot.1")
        + dot(8, "%dot.5", "%dot.7")
        + "  %all-reduce-done = bf16[8192,8192]{1,0} all-reduce-done(%all-reduce-start)\n"
        + "  ROOT %update = bf16[8192,8192]{1,0} fusion(%weight, %all-reduce-done), kind=kLoop,"
        + ' calls=%updated, metadata={op_name="jit(train_step)/optimizer/sub"'
        + ' source_file="/home/me/model/adam.py" source_line=3}\n'
        + "}\n"
    )


def healthy(hosts: int = 1, *, with_hlo: bool = True) -> Timeline:
    """The Timeline above, its four devices on one host or spread over several."""
    made = [recorded(host, DEVICES // hosts, with_hlo=with_hlo) for host in range(hosts)]
    return assemble(made, [f"host{host}.xplane.pb" for host in range(hosts)])


def recorded(host: int, devices: int, *, with_hlo: bool = True) -> Recording:
    """What the profiler of one host wrote."""
    spans = [span for step in range(STEPS) for span in _step(step * STEP, devices)]
    embedded = {MODULE: EmbeddedProgram(MODULE, hlo().encode)} if with_hlo else {}
    markers = [
        (device, step, step * STEP * US, STEP * US)
        for device in range(devices)
        for step in range(STEPS)
    ]
    made = recording(spans, host=f"host{host}", markers=markers, programs=embedded)
    chips = tuple(Device(ordinal=index, kind="gpu", chip=CHIP) for index in range(devices))
    lines = (*made.lines, "python")
    calls = [(len(made.lines), 0, (step - 2) * STEP * PS, 50 * PS) for step in range(STEPS)]
    return replace(
        made,
        devices=chips,
        lines=lines,
        host_events=pl.DataFrame(calls, schema=HOST_EVENTS, orient="row"),
        host_names=("PjitFunction(train_step)",),
    )


def _step(start: int, devices: int) -> Iterator[Span]:
    for device in range(devices):
        compute, collective = 2 * device, 2 * device + 1
        yield _span("all-gather-start", start, 350, device, collective)
        yield _span("all-reduce-start", start + 6 * DOT, 600, device, collective)
        for n in range(8):
            yield _span(f"dot.{n + 1}", start + n * DOT, DOT, device, compute)
        yield _span("update", start + 8 * DOT, UPDATE, device, compute)


def _span(op: str, start: int, length: int, device: int, line: int) -> Span:
    return Span(op, start * US, length * US, device, line, module=MODULE)
