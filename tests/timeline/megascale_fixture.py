"""Profiles of a training step on two TPU slices of four chips, made up from the schemas.

There is no public one. One host per slice; every step sums gradients over the slices, one of
8 MiB per chip, in milliseconds from the step's start:

    fusion.1     0    to  4        compute
    send         4    to  4.01     hands the gradients to the host
    recv         4.01 to  4.02
    fusion.2     4.02 on           compute, `slack_ms` long
    send-done, recv-done           0.01 each, longer where what is awaited has not come
    fusion.3     4                 compute
    (0.01 between steps)

The host takes 0.5 to fetch from the chip (DeviceToHost) and 0.5 to put what came (HostToDevice);
between them the network takes `network_ms` from the later of the two sends. So data is there
1 + network_ms after that, and with 10 of slack and 4 of network nothing waits.

`Scene` says what else goes on; `files(scene)` gives the bytes of one XSpace per slice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from xspace_builder import MS, US, Plane, Unsigned, host, metadata, tpu, tpu_op, xspace

CHIPS: Final = 4
SLICES: Final = (1, 2)
BYTES: Final = 8 << 20
RENDEZVOUS: Final = "psum.7_0"
MODULE: Final = ("jit_train_step", 7)
WARM_UP_MS: Final = 100

_ATTRIBUTES: Final = (
    'frontend_attributes={_xla_host_transfer_handler_name="xla_megascale_runtime",'
    f'_xla_host_transfer_rendezvous="{RENDEZVOUS}",'
    '_xla_megascale_reduce_operation="SUM",'
    '_xla_megascale_target="{1,2}x{0:3}",'
    '_xla_megascale_transfer_type="ALL_REDUCE"}'
)
_BUFFER: Final = "bf16[4194304]{0}"
_INSTRUCTIONS: Final = {
    "fusion.1": f"%fusion.1 = {_BUFFER} fusion({_BUFFER} %p), kind=kLoop, calls=%double.1",
    "send.3": (
        f"%send.3 = ({_BUFFER}, u32[], token[]) send({_BUFFER} %fusion.1, token[] %after),"
        f" channel_id=3, is_host_transfer=true, {_ATTRIBUTES}"
    ),
    "recv.4": (
        f"%recv.4 = ({_BUFFER}, u32[], token[]) recv(token[] %after), channel_id=4,"
        f" is_host_transfer=true, {_ATTRIBUTES}"
    ),
    "fusion.2": f"%fusion.2 = {_BUFFER} fusion({_BUFFER} %p), kind=kLoop, calls=%double.2",
    "send-done.3": (
        f"%send-done.3 = token[] send-done(({_BUFFER}, u32[], token[]) %send.3), channel_id=3,"
        " is_host_transfer=true"
    ),
    "recv-done.4": (
        f"%recv-done.4 = ({_BUFFER}, token[]) recv-done(({_BUFFER}, u32[], token[]) %recv.4),"
        " channel_id=4, is_host_transfer=true"
    ),
    "fusion.3": f"%fusion.3 = {_BUFFER} fusion({_BUFFER} %fusion.2), kind=kLoop, calls=%double.3",
}
_CATEGORIES: Final = {
    "send": "host send",
    "send-done": "host send-done",
    "recv": "host recv",
    "recv-done": "host recv-done",
    "fusion": "loop fusion",
}
_DOUBLE: Final = """\
%double.{n} (x.{n}: bf16[4194304]) -> bf16[4194304] {{
  %x.{n} = bf16[4194304]{{0}} parameter(0)
  ROOT %sum.{n} = bf16[4194304]{{0}} add(%x.{n}, %x.{n})
}}

"""
HLO: Final = (
    f"HloModule {MODULE[0]}, is_scheduled=true\n\n"
    + "".join(_DOUBLE.format(n=n) for n in (1, 2, 3))
    + f"ENTRY %main (p: bf16[4194304]) -> bf16[4194304] {{\n  %p = {_BUFFER} parameter(0)\n"
    "  %after = token[] after-all()\n"
    + "".join(
        f"  {'ROOT ' if name == 'fusion.3' else ''}{text}\n" for name, text in _INSTRUCTIONS.items()
    )
    + "}\n"
)


def _nothing(step: int) -> float:
    del step
    return 0.0


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What goes on. Functions give milliseconds, or counts, of a step by its number."""

    steps: int = 8
    slack_ms: float = 10.0
    network_ms: float = 4.0
    extra_network_ms: Callable[[int], float] = _nothing
    late_ms: float = 0.0  # by which slice 2 computes longer before it sends
    registered: Callable[[int], float] = _nothing  # buffers of 8 MiB per chip, 0.4 ms each
    copied: Callable[[int], float] = _nothing  # copies of 8 MiB per chip, 0.3 ms each
    sized: bool = True  # registrations in steps tell their size
    skewed: bool = False  # the hosts' clocks differ by more than a message takes
    loopback: bool = False  # each slice also sends itself what it sends the other
    plane: bool = True  # Megascale's own plane
    messages: bool = False  # what older versions leave on host threads
    hlo: bool = True
    chips: tuple[int, ...] = field(default=(0, 1, 2, 3))


@dataclass(frozen=True)
class _Step:
    """When things happen in one step of one slice, in ms from the profile's start."""

    number: int
    start: float
    send: float
    peer_sends: float
    arrives: float  # what the network brings
    waits: float  # recv-done starts
    ready: float  # recv-done ends
    end: float


def files(scene: Scene) -> tuple[bytes, ...]:
    """One XSpace per slice."""
    return tuple(_file(scene, slice_id) for slice_id in SLICES)


def write(scene: Scene, into: Path) -> list[Path]:
    """The same as files."""
    paths = [into / f"slice-{slice_id}.xplane.pb" for slice_id in SLICES]
    for path, data in zip(paths, files(scene), strict=True):
        path.write_bytes(data)
    return paths


def _steps(scene: Scene, slice_id: int) -> Iterator[_Step]:
    """Both slices begin a step together: the next begins when the slower has ended."""
    start = float(WARM_UP_MS)
    for number in range(scene.steps):
        sends = {one: start + 4 + (scene.late_ms if one == SLICES[1] else 0) for one in SLICES}
        network = scene.network_ms + scene.extra_network_ms(number)
        # Buffers that are registered or copied first delay what is sent.
        work = 0.4 * scene.registered(number) + 0.3 * scene.copied(number)
        arrives = max(sends.values()) + 0.5 + work + network
        found = {
            one: _Step(
                number,
                start,
                sends[one],
                max(sends.values()),
                arrives,
                (waits := sends[one] + 0.03 + scene.slack_ms),
                (ready := max(waits + 0.01, arrives + 0.5)),
                ready + 4,
            )
            for one in SLICES
        }
        yield found[slice_id]
        start = max(step.end for step in found.values()) + 0.01


def _file(scene: Scene, slice_id: int) -> bytes:
    steps = list(_steps(scene, slice_id))
    cores = [_core(chip, steps, 0.001 * slice_id) for chip in scene.chips]
    planes = [*cores, _threads(scene, slice_id, steps)]
    if scene.plane:
        planes.append(_actions(scene, slice_id, steps))
    if scene.hlo:
        planes.append(metadata({MODULE: HLO.encode()}))
    return xspace(*planes, hostnames=[f"slice-{slice_id}"])


def _core(chip: int, steps: list[_Step], pause: float) -> Plane:
    """`pause` before the first op tells the slices' profiles apart."""
    core = tpu(chip)
    module = f"{MODULE[0]}({MODULE[1]})"
    for step in steps:
        core.add("XLA Modules", module, *_ps(step.start, step.end), {"run_id": step.number + 1})
    for step in steps:
        for op, start, end in (
            ("fusion.1", step.start + pause, step.send),
            ("send.3", step.send, step.send + 0.01),
            ("recv.4", step.send + 0.01, step.send + 0.02),
            ("fusion.2", step.send + 0.02, step.waits - 0.01),
            ("send-done.3", step.waits - 0.01, step.waits),
            ("recv-done.4", step.waits, step.ready),
            ("fusion.3", step.ready, step.end),
        ):
            category = _CATEGORIES[op.partition(".")[0]]
            text = _INSTRUCTIONS[op]
            tpu_op(core, text, *_ps(start, end), hlo_category=category, program_id=MODULE[1])
    return core


def _actions(scene: Scene, slice_id: int, steps: list[_Step]) -> Plane:
    """Megascale's own plane: what each chip's graph did, a START and an END per action."""
    plane = Plane("/device:CUSTOM:Megascale Trace")
    peer = SLICES[0] if slice_id == SLICES[1] else SLICES[1]
    for chip in scene.chips:
        me, other = slice_id * 100_000 + chip, peer * 100_000 + chip
        line = f"device {me}"
        for step in steps:
            key = f"device_{me}_gid_{RENDEZVOUS}$l{step.number}^i0"
            graph = {"graph_key": key, "input_size": BYTES}
            plane.add(line, key.partition("$")[0], *_ps(step.send, step.arrives + 0.5), graph)
            fetched = step.send + 0.5
            network = step.arrives - step.peer_sends - 0.5
            actions = (
                _Action("DeviceToHost", step.send, fetched),
                _Action("NetworkSend", fetched, step.arrives, f"s{me}->{other}"),
                _Action("NetworkReceive", fetched, step.arrives, f"s{other}->{me}", network),
                _Action("HostToDevice", step.arrives, step.arrives + 0.5),
            )
            itself = _Action("NetworkSend", fetched, fetched + 1, f"s{me}->{me}")
            for index, action in enumerate((*actions, itself) if scene.loopback else actions):
                begun = {"graph_key": key, "action_index": index}
                plane.add(line, f"{action.name} START", *_ps(action.start, action.start), begun)
                told = begun | action.told
                plane.add(line, f"{action.name} END", *_ps(action.end - 0.02, action.end), told)
    return plane


@dataclass(frozen=True)
class _Action:
    """An end's own event is short: the line shows one action at a time."""

    name: str
    start: float
    end: float
    ends: str = ""
    latency: float | None = None

    @property
    def told(self) -> dict[str, int | str]:
        told: dict[str, int | str] = {"action_duration_ns": round((self.end - self.start) * 1e6)}
        if self.ends:
            told["buffer_sizes"] = f"{self.ends}d|$c0={BYTES}"
        if self.latency is not None:
            told["network_transport_latency_us"] = Unsigned(round(self.latency * 1e3))
        return told


def _threads(scene: Scene, slice_id: int, steps: list[_Step]) -> Plane:
    threads = host()
    thread = "megascale-transport"
    for chip in scene.chips:  # at start-up buffers are registered, as they should be
        threads.add(f"{thread}/{chip}", "MapDmaBuffer", *_ps(10, 60), {"size": "4.29GB"})
    for step in steps:
        for chip in scene.chips:
            line = f"{thread}/{chip}"
            at = step.send + 0.5
            for _ in range(round(scene.registered(step.number))):
                told = {"size": "8.39MB"} if scene.sized else {}
                threads.add(line, "MapDmaBuffer", *_ps(at, at + 0.4), told)
                at += 0.4
            for _ in range(round(scene.copied(step.number))):
                sized = {"payload_size_bytes": BYTES}
                threads.add(line, "MegaScale: Memory Copy", *_ps(at, at + 0.3), sized)
                at += 0.3
            if scene.messages:
                _message(threads, scene, slice_id, chip, step)
    return threads


def _message(threads: Plane, scene: Scene, slice_id: int, chip: int, step: _Step) -> None:
    peer = SLICES[0] if slice_id == SLICES[1] else SLICES[1]
    for source in (peer, slice_id) if scene.loopback else (peer,):
        took = step.arrives - step.peer_sends - 0.5
        threads.add(
            "Communication Transport",
            "MegaScale: Communication Transport Receive",
            *_ps(step.arrives, step.arrives + 0.005),
            {
                "dcn_label": RENDEZVOUS,
                "dcn_source_slice_id": source,
                "dcn_source_per_slice_device_id": chip,
                "dcn_destination_slice_id": slice_id,
                "dcn_destination_per_slice_device_id": chip,
                "dcn_chunk": 0,
                "dcn_loop_index": step.number,
                "payload_size_bytes": BYTES,
                "duration_us": 0 if scene.skewed else round(took * 1e3),
            },
        )


def _ps(start_ms: float, end_ms: float) -> tuple[int, int]:
    """Start and duration, in whole microseconds."""
    start = round(start_ms * 1e3) * US
    return start, round(end_ms * 1e3) * US - start


assert MS == 1_000 * US
