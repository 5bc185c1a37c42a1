"""Profiles are made under the names that XLA asks for, also where a later pass has renamed."""

from __future__ import annotations

from pathlib import Path

from xspace_builder import US, field_bytes, kernel, message, metadata, nvidia, varint, xspace

from counterpoint.pgle.lookups import costs_found
from counterpoint.pgle.making.make import make_profile
from counterpoint.pgle.making.samples import MeasuredTimes, measured_times
from counterpoint.timeline.reading import read

FINGERPRINT = "0123456789abcdef" * 2
STEP = ("jit_step", 7)
# (name, opcode, name when it was scheduled), as a program of 0.12 has them
OPS = (
    ("p", "parameter", "p"),
    ("all-gather.10", "all-gather", "all-gather-start"),
    ("fusion.3", "fusion", "fusion.3"),
    ("fusion.3.remat", "fusion", "fusion.3"),
)


def hlo() -> bytes:
    """A scheduled module that bears its fingerprint, and the old names beside the new."""
    shape = message((2, 11), (3, 1024), (5, b""))
    instructions = b"".join(
        field_bytes(
            2,
            message((1, name), (2, opcode), (3, shape), (7, message((16, before))))
            + message((35, key), *(((36, key - 1),) if key > 1 else ())),
        )
        for key, (name, opcode, before) in enumerate(OPS, start=1)
    )
    entry = message((1, "main"), (5, 1), (6, len(OPS))) + instructions
    order = b"".join(varint(key) for key in range(1, len(OPS) + 1))
    schedule = message((1, message((1, 1), (2, message((1, order))))))
    attributes = message((1, message((1, "fingerprint_before_lhs"), (2, FINGERPRINT))))
    module = message((1, "jit_step"), (2, "main"), (3, entry), (5, 1), (6, 1), (7, schedule))
    return field_bytes(1, module + field_bytes(19, attributes))


def recorded(path: Path) -> Path:
    gpu, at = nvidia(0), 0
    for _ in range(4):
        for op, us in (("all-gather.10", 30), ("fusion.3", 10), ("fusion.3.remat", 20)):
            kernel(gpu, "Stream #20(Compute)", f"k_{op}", at, us * US, op=op, module=STEP)
            at += (us + 1) * US
        at += 200 * US
    path.write_bytes(xspace(gpu, metadata({STEP: hlo()})))
    return path


def test_costs_bear_the_names_of_before_later_passes(tmp_path: Path) -> None:
    timeline = read(recorded(tmp_path / "a.xplane.pb"))
    profile = make_profile(timeline).profile
    costs = {cost.name: cost.us for cost in profile.costs}
    assert costs == {"all-gather-start": 30.0, "fusion.3": 10.0, "fusion.3.remat": 20.0}
    assert costs_found(profile.costs, FINGERPRINT)["fusion.3"] == 15.0  # as XLA averages


def test_times_come_under_them_too(tmp_path: Path) -> None:
    timeline = read(recorded(tmp_path / "a.xplane.pb"))
    measured = measured_times(timeline, 0)
    assert isinstance(measured, MeasuredTimes)
    assert measured.us == {"all-gather-start": 30.0, "fusion.3": 10.0, "fusion.3.remat": 20.0}
