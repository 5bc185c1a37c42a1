"""Device timelines that are written, not recorded: what profiles of GPUs and TPUs look like.

A CPU's profile has no streams, no copies and no links. These have the planes, lines and stats of
real XPlanes (docs/formats/xplane.md), and the HLO of their program, so that the truth is known to
the microsecond. The host calls a step when it has done its own work, at most two steps ahead; each
device begins when it was called and is done with the step before.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from jaxlib import _hlo  # pyright: ignore[reportPrivateUsage]

sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "timeline"))

import xspace_builder as xspace
from recorder import Recorder

_STEPS: Final = 14
_DEVICES: Final = 4
_AHEAD: Final = 2
_MODULE: Final = ("jit_train_step", 7)
_CALL_MS: Final = 0.2
_LAUNCH_MS: Final = 0.02
_COMPUTE, _LINKS, _COPIES = "Stream #20(Compute)", "Stream #24(Compute)", "Stream #28(MemcpyH2D)"

_HLO: Final = """\
HloModule jit_train_step, is_scheduled=true, num_partitions=4

add (a: f32[], b: f32[]) -> f32[] {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT sum = f32[] add(a, b)
}

double (x: f32[268435456]) -> f32[268435456] {
  x = f32[268435456]{0} parameter(0)
  ROOT y = f32[268435456]{0} add(x, x)
}

spread (x: f32[4096,64], i: s32[8192,1], u: f32[8192,64]) -> f32[4096,64] {
  x = f32[4096,64]{1,0} parameter(0)
  i = s32[8192,1]{1,0} parameter(1)
  u = f32[8192,64]{1,0} parameter(2)
  ROOT s = f32[4096,64]{1,0} scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, \
scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
}

ENTRY main (x: bf16[16384,8192], w: bf16[8192,8192], t: f32[4096,64], i: s32[8192,1], \
u: f32[8192,64], g: f32[REDUCED], m: f32[268435456]) -> f32[268435456] {
  x = bf16[16384,8192]{1,0} parameter(0)
  w = bf16[8192,8192]{1,0} parameter(1)
  t = f32[4096,64]{1,0} parameter(2)
  i = s32[8192,1]{1,0} parameter(3)
  u = f32[8192,64]{1,0} parameter(4)
  g = f32[REDUCED]{0} parameter(5)
  m = f32[268435456]{0} parameter(6)
  forward = bf16[16384,8192]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, \
metadata={op_name="jit(train_step)/jvp(model)/mlp/dot_general" source_file="model.py" \
source_line=12}
  scatter = f32[4096,64]{1,0} fusion(t, i, u), kind=kInput, calls=spread, \
metadata={op_name="jit(train_step)/transpose(jvp(model))/embed/scatter-add" \
source_file="model.py" source_line=7}
  backward = bf16[16384,8192]{1,0} dot(forward, w), lhs_contracting_dims={1}, \
rhs_contracting_dims={1}, \
metadata={op_name="jit(train_step)/transpose(jvp(model))/mlp/dot_general" \
source_file="model.py" source_line=12}
  weights = bf16[8192,8192]{1,0} dot(x, forward), lhs_contracting_dims={0}, \
rhs_contracting_dims={0}, \
metadata={op_name="jit(train_step)/transpose(jvp(model))/mlp/dot_general" \
source_file="model.py" source_line=12}
  SENT
  ROOT update = f32[268435456]{0} fusion(m), kind=kLoop, calls=double, \
metadata={op_name="jit(train_step)/optimizer/add" source_file="train.py" source_line=30}
}
"""
_GROUPS: Final = (
    "channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=add,"
    ' metadata={op_name="jit(train_step)/transpose(jvp(model))/psum" source_file="train.py"'
    " source_line=21}"
)
_REDUCE: Final = {
    "gpu": f"all-reduce-start = f32[REDUCED]{{0}} all-reduce-start(g), {_GROUPS}\n"
    "  reduced = f32[REDUCED]{0} all-reduce-done(all-reduce-start)",
    "tpu": f"reduced = f32[REDUCED]{{0}} all-reduce(g), {_GROUPS}",
}
_LITTLE, _MUCH = 1 << 18, 1 << 28
"""Values that the all-reduce adds: 1 MB and 1 GB."""

_PRODUCT_MS: Final = 3.3
"""2.2 TFLOP: at two thirds of the peak of an H100 or a v6e."""

_UPDATE_MS: Final = {"gpu": 0.75, "tpu": 1.45}
"""2.1 GB, at nine tenths of the memory's rate."""


@dataclass(frozen=True)
class Made:
    """What one step takes, in milliseconds."""

    scatter: float = 0.02
    reduce: float = 0.04
    reduced: int = _LITTLE
    copy: float = 0.0  # to the device, before the step's first kernel
    slow_device_by: float = 0.0
    host: tuple[tuple[str, float], ...] = ()  # what Python does before the call
    every: int = 1  # the host's work is in each so manieth step

    def host_of(self, step: int) -> tuple[tuple[str, float], ...]:
        return self.host if step % self.every == self.every - 1 else ()


@dataclass
class _Drawn:
    """The planes of a profile, and where each step begins on the first device."""

    way: str
    text: str
    hosts: xspace.Plane = field(default_factory=xspace.host)
    starts: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        make = xspace.nvidia if self.way == "gpu" else xspace.tpu
        self.devices = [make(number) for number in range(_DEVICES)]

    def event(self, name: str, start: float, length: float) -> None:
        """Draw an event of the launching thread."""
        self.hosts.add("python", name, _ps(start), _ps(length))

    def op(self, device: int, name: str, start: float, length: float, step: int) -> None:
        """Draw an op on a device."""
        plane = self.devices[device]
        if self.way == "gpu":
            is_reduce = name.startswith("all-reduce")
            kernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL" if is_reduce else f"{name}_kernel"
            stream = _LINKS if is_reduce else _COMPUTE
            stats = {"run_id": step}
            xspace.kernel(
                plane, stream, kernel, _ps(start), _ps(length), op=name, module=_MODULE, stats=stats
            )
        else:
            text = next(line for line in self.text.splitlines() if f" {name} = " in line).strip()
            xspace.tpu_op(
                plane,
                f"%{text.removeprefix('ROOT ')}",
                _ps(start),
                _ps(length),
                hlo_category="fusion",
            )

    def run(self, device: int, start: float, end: float, step: int) -> None:
        """Draw a run of the module, which only TPUs record."""
        if self.way == "tpu":
            stats = {"run_id": step}
            name = f"{_MODULE[0]}({_MODULE[1]})"
            self.devices[device].add("XLA Modules", name, _ps(start), _ps(end - start), stats)

    def write(self, out: Path) -> None:
        """Write the profile as JAX does."""
        module = _hlo.hlo_module_from_text(self.text)
        proto = xspace.field_bytes(1, module.as_serialized_hlo_module_proto())
        place = out / "profile" / "plugins" / "profile" / "made"
        place.mkdir(parents=True, exist_ok=True)
        metadata = xspace.metadata({_MODULE: proto})
        space = xspace.xspace(*self.devices, self.hosts, metadata)
        (place / "made.xplane.pb").write_bytes(space)


def _ps(ms: float) -> int:
    return round(ms * 1e9)


def _text(way: str, reduced: int) -> str:
    return _HLO.replace("SENT", _REDUCE[way]).replace("REDUCED", str(reduced))


def _draw(recorder: Recorder, made: Made, lost: Callable[[int], float]) -> None:
    """Draw the steps, and write what they lose."""
    drawn = _Drawn(recorder.way, _text(recorder.way, made.reduced))
    ends = [0.0] * _DEVICES
    done: list[float] = []
    now = 1.0
    for step in range(_STEPS):
        now = max([now, *done[-_AHEAD:][:1]]) if len(done) >= _AHEAD else now
        began = now
        for name, length in made.host_of(step):
            drawn.event(name, now, length)
            now += length
        drawn.event("PjitFunction(train_step)", now, _CALL_MS)
        drawn.event("PjRtStreamExecutorLoadedExecutable::Execute", now + 0.02, _CALL_MS - 0.04)
        now += _CALL_MS
        xspace.step_marker(
            drawn.hosts, "python", step, _ps(began - 0.001), _ps(now - began + 0.002)
        )
        ends = _draw_step(drawn, made, step, [max(end, now) + _LAUNCH_MS for end in ends])
        done.append(max(ends))
        now += 0.01
    steps = [after - before for before, after in zip(drawn.starts, drawn.starts[1:], strict=False)]
    drawn.write(recorder.out)
    truth = {
        "steps": [*steps, statistics.median(steps)],
        "lost": [lost(step) for step in range(_STEPS)],
        "profiled": [1, _STEPS - 1],
    }
    (recorder.out / "truth.json").write_text(json.dumps(truth))


def _draw_step(drawn: _Drawn, made: Made, step: int, begin: Sequence[float]) -> list[float]:
    """Draw one step on all devices; an all-reduce ends when the last device has arrived."""
    arrived: list[float] = []
    for device, start in enumerate(begin):
        at = start
        if made.copy and drawn.way == "gpu":
            size = 64 << 20
            plane = drawn.devices[device]
            xspace.memcpy(plane, _COPIES, "H2D", _ps(at), _ps(made.copy), size)
            at += made.copy
        if device == 0:
            drawn.starts.append(at)
        more = made.slow_device_by if device == _DEVICES - 2 else 0.0
        for name, length in (
            ("forward", _PRODUCT_MS),
            ("scatter", made.scatter),
            ("backward", _PRODUCT_MS),
            ("weights", _PRODUCT_MS + more),
        ):
            drawn.op(device, name, at, length, step)
            at += length + 0.002
        arrived.append(at)
    met, update = max(arrived) + made.reduce, _UPDATE_MS[drawn.way]
    reduce = "all-reduce-start" if drawn.way == "gpu" else "reduced"
    for device, at in enumerate(arrived):
        drawn.op(device, reduce, at, met - at, step)
        drawn.op(device, "update", met + 0.002, update, step)
        drawn.run(device, begin[device], met + 0.002 + update, step)
    return [met + 0.002 + update] * _DEVICES


def clean(recorder: Recorder) -> None:
    """Devices that compute all the time."""
    _draw(recorder, Made(), lambda _: 0.0)


def exposed_reduce(recorder: Recorder) -> None:
    """An all-reduce that nothing overlaps."""
    _draw(recorder, Made(reduce=5.0, reduced=_MUCH), lambda _: 5.0)


def late_device(recorder: Recorder) -> None:
    """One device of four takes longer for its backward pass."""
    _draw(recorder, Made(slow_device_by=4.0), lambda _: 4.0)


def slow_scatter(recorder: Recorder) -> None:
    """A scatter of two megabytes that takes a third of the step."""
    _draw(recorder, Made(scatter=6.0), lambda _: 6.0)


def host_bound(recorder: Recorder) -> None:
    """Python works longer than the devices."""
    host = (("$train.py:41 augment_labels", 20.0),)
    made = Made(host=host)
    _draw(recorder, made, lambda _: 20.0 + _CALL_MS + 0.01 - _busy(recorder.way, made))


def waits_for_input(recorder: Recorder) -> None:
    """The next batch takes longer than the devices."""
    host = (("$loader.py:12 next_batch", 20.0),)
    made = Made(host=host)
    _draw(recorder, made, lambda _: 20.0 + _CALL_MS + 0.01 - _busy(recorder.way, made))


def copied_batch(recorder: Recorder) -> None:
    """A batch that is copied to the device while no kernel runs."""
    _draw(recorder, Made(copy=4.0), lambda _: 4.0)


def slow_every_fifth(recorder: Recorder) -> None:
    """The host saves something in every fifth step, while the devices wait."""
    made = Made(host=(("$checkpoint.py:9 save", 60.0),), every=5)
    _draw(recorder, made, lambda step: 60.0 - _busy(recorder.way, made) if step % 5 == 4 else 0.0)


def _busy(way: str, made: Made) -> float:
    """Return what the devices need for a step."""
    return 3 * _PRODUCT_MS + made.scatter + made.reduce + _UPDATE_MS[way] + 0.03
