"""A hand-made Timeline whose every figure can be counted: two devices, three steps, 24 spans.

Milliseconds from the start of a step; steps are alike, but last 10, 11 and 12 ms, the rest idle. An
empty step comes before them, the profile's first, and one after, whose end is not seen:

                 0    1    2    3    4    5    6    7    8    9    10        12
    device 0     |    |    |    |    |    |    |    |    |    |    |         |
      gather     ==============================
      compute    ====================          ===============
      copy                                                    ===
    device 1
      gather          =========================
      compute    ====================          ===============
      copy                                                    ===

So in a median step of 11 ms, mean over devices: compute 7 (beside the gather 4 on device 0 and 3 on
device 1: 3.5), exposed gather 2, exposed copy 0.5, idle 1.5. Together 11.

The gather takes 6 on device 0, which waits 1 for device 1, where it takes 5: median 5.5, wait 0.5,
transfer 5, slack 4 and 3 (to the end of fusion.1): 3.5. It makes 200 MiB of 2 x 100 MiB: 41.94 GB/s
by algorithm, 20.97 by bus. Each fusion multiplies 8192 x 8192 matrices, 2 x 8192^3 operations:
2.199e12 in 11 ms are 199.9 TFLOP/s, 20.2% of what an H100 can do in bf16.
"""

from __future__ import annotations

from dataclasses import replace

from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.model import Device, EmbeddedProgram, Timeline
from counterpoint.timeline.recording import Recording
from recordings import Span, recording

MS = 1_000_000  # nanoseconds
CHIP = "NVIDIA H100 80GB HBM3"

HLO = """\
HloModule jit_train_step, is_scheduled=true, num_partitions=2

%multiply (a: bf16[8192,8192], b: bf16[8192,8192]) -> bf16[8192,8192] {
  %a = bf16[8192,8192]{1,0} parameter(0)
  %b = bf16[8192,8192]{1,0} parameter(1)
  ROOT %dot = bf16[8192,8192]{1,0} dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

ENTRY %main (p: f32[26214400], a: bf16[8192,8192]) -> bf16[8192,8192] {
  %p = f32[26214400]{0} parameter(0)
  %a.1 = bf16[8192,8192]{1,0} parameter(1)
  %all-gather-start = (f32[26214400]{0}, f32[52428800]{0}) all-gather-start(%p), channel_id=1, \
replica_groups={{0,1}}, dimensions={0}, use_global_device_ids=true, \
metadata={op_name="jit(train_step)/jvp(mlp)/all_gather" source_file="/home/me/model/mlp.py" \
source_line=7}
  %fusion.1 = bf16[8192,8192]{1,0} fusion(%a.1, %a.1), kind=kOutput, calls=%multiply, \
metadata={op_name="jit(train_step)/jvp(mlp)/dot_general" source_file="/home/me/model/mlp.py" \
source_line=12}
  %all-gather-done = f32[52428800]{0} all-gather-done(%all-gather-start)
  %fusion.2 = bf16[8192,8192]{1,0} fusion(%fusion.1, %a.1), kind=kOutput, calls=%multiply, \
metadata={op_name="jit(train_step)/transpose(jvp(mlp))/dot_general" \
source_file="/home/me/model/mlp.py" source_line=12}
  ROOT %copy.1 = bf16[8192,8192]{0,1} copy(%fusion.2)
}
"""


def two_devices() -> Timeline:
    """The Timeline above."""
    return assemble([_made(HLO)], ["made.xplane.pb"])


def two_devices_without_hlo() -> Timeline:
    """The same from a profile that holds no HLO: ops are known by their names alone."""
    return assemble([replace(_made(None), truncated=True)], ["made.xplane.pb"])


def _made(hlo: str | None) -> Recording:
    spans: list[Span] = []
    for start in (10, 20, 31):
        for device, late in ((0, 0), (1, 1)):
            compute, other = 2 * device, 2 * device + 1
            spans += [
                _span("all-gather-start", start + late, 6 - late, device, other),
                _span("fusion.1", start, 4, device, compute),
                _span("fusion.2", start + 6, 3, device, compute),
                _span("copy.1", start + 9, 0.5, device, compute),
            ]
    markers = [
        (device, step, start * MS, length * MS)
        for device in (0, 1)
        for step, start, length in ((0, 0, 10), (1, 10, 10), (2, 20, 11), (3, 31, 12), (4, 43, 5))
    ]
    embedded = (
        {} if hlo is None else {"jit_train_step": EmbeddedProgram("jit_train_step", hlo.encode)}
    )
    made = recording(spans, markers=markers, programs=embedded)
    devices = tuple(Device(ordinal=index, kind="gpu", chip=CHIP) for index in (0, 1))
    return replace(made, devices=devices)


def _span(op: str, start: float, length: float, device: int, line: int) -> Span:
    return Span(op, round(start * MS), round(length * MS), device, line, module="jit_train_step")
