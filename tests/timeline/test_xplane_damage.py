"""Files that are cut off or damaged: a Recording or one clear error, never more memory or time."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xspace_builder import (
    US,
    Plane,
    Ref,
    cpu_op,
    field_bytes,
    hlo_proto,
    host,
    kernel,
    message,
    metadata,
    nvidia,
    step_marker,
    task_environment,
    tpu,
    tpu_op,
    varint,
    xspace,
)

from counterpoint.core.errors import InputError
from counterpoint.timeline.reading import read
from counterpoint.timeline.recording import Recording
from counterpoint.timeline.storage.parquet import write_parquet
from counterpoint.timeline.xplane.reader import is_xplane, read_xplane

MODULE = ("jit_step", 7)
DAMAGED_COPIES = 60


def small_file() -> bytes:
    """A bit of everything, so that damage can hit everything."""
    gpu = nvidia(0)
    kernel(gpu, "Stream #20(Compute)", "fusion_3", 0, US, op="fusion.3", module=MODULE)
    threads = host()
    step_marker(threads, "python", 3, 0, 4 * US)
    cpu_op(threads, "worker", "dot.1", 0, US, module=MODULE, run=-5, device=0)
    core = tpu(0)
    core.add("XLA Modules", "jit_step(7)", 0, 3 * US, {"run_id": 1})
    core.add("Steps", "5", 0, 3 * US)
    tpu_op(core, "%copy.1 = f32[] copy()", 0, US, stats={"hlo_op": Ref("copy.1")}, flops=1)
    program = metadata({MODULE: hlo_proto("jit_step", {"fusion.3": "fusion"})}, jax_version="0.10")
    return xspace(gpu, threads, core, program, task_environment(1, 2), warnings=["careful"])


SMALL = small_file()


def read_or_refuse(data: bytes | bytearray) -> Recording | None:
    try:
        return read_xplane(memoryview(data), "damaged.xplane.pb")
    except InputError:
        return None


def test_a_file_cut_off_anywhere_is_read_to_the_last_whole_plane_or_refused() -> None:
    whole = read_xplane(memoryview(SMALL), "whole")
    for size in range(len(SMALL)):
        found = read_or_refuse(SMALL[:size])
        assert found is None or len(found.spans) <= len(whole.spans)


@given(
    st.lists(st.tuples(st.integers(0, len(SMALL) - 1), st.integers(0, 255)), min_size=1, max_size=5)
)
def test_bytes_that_were_changed_crash_nothing(changes: list[tuple[int, int]]) -> None:
    data = bytearray(SMALL)
    for at, value in changes:
        data[at] = value
    read_or_refuse(data)


@given(st.integers(0, len(SMALL)), st.binary(min_size=1, max_size=30))
def test_bytes_that_were_put_in_crash_nothing(at: int, extra: bytes) -> None:
    read_or_refuse(SMALL[:at] + extra + SMALL[at:])


@given(st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    read_or_refuse(b"\x0a" + varint(len(data)) + data)
    read_or_refuse(data)


@pytest.mark.parametrize(
    "name",
    [
        "jax_conv_mi300x_8gpu.xplane.pb",
        "jax_gemm_mi300x.xplane.pb",
        "jax_inference_v6e_4tpu.xplane.pb",
    ],
)
def test_damage_to_real_files_crashes_nothing(shared: Path, name: str) -> None:
    whole = (shared / "data" / "traces" / name).read_bytes()
    random = np.random.default_rng(len(whole))
    for _ in range(DAMAGED_COPIES):
        data = bytearray(whole)
        for at in random.integers(len(data), size=3):
            data[at] = random.integers(256)
        read_or_refuse(data[: random.integers(len(data) // 2, len(data) + 1)])


def test_a_file_mangled_as_text_is_refused_and_told_why(shared: Path) -> None:
    data = (shared / "data" / "traces" / "corrupt_utf8_mangled.xplane.pb").read_bytes()
    with pytest.raises(InputError) as refused:
        read_xplane(memoryview(data), "mangled.xplane.pb")
    assert "text conversion" in str(refused.value)


EXABYTE = varint(1 << 60)


@pytest.mark.parametrize(
    "claim",
    [
        b"\x0a" + EXABYTE,  # a plane
        field_bytes(1, message((2, "/host:CPU")) + b"\x1a" + EXABYTE),  # a line
        field_bytes(1, message((2, "/host:CPU")) + b"\x2a" + EXABYTE),  # a stat's name
        field_bytes(1, message((2, "/host:CPU"), (3, b"\x12" + EXABYTE))),  # a line's name
        field_bytes(1, message((2, "/host:CPU"), (3, b"\x22" + EXABYTE))),  # an event
        field_bytes(1, message((2, "/host:CPU"), (4, b"\x12" + EXABYTE))),  # an event's name
        field_bytes(
            1, message((2, "/host:CPU"), (5, message((1, 1 << 60), (2, b"\x12\x06hlo_op"))))
        ),
    ],
)
def test_claims_of_exabytes_allocate_nothing(claim: bytes) -> None:
    tracemalloc.start()
    read_or_refuse(claim)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10 << 20


@pytest.mark.parametrize(
    "strange",
    [
        message((2, "Steps"), (3, 5), (4, message((1, 1), (2, 1), (3, 1)))),  # a 5000-digit step
        message((2, "XLA Modules"), (4, message((1, 1), (2, -(2**63)), (3, 2**63 - 1)))),
        message((2, "XLA Ops"), (3, -(2**63)), (4, message((1, 1)))),
        message((2, "XLA Ops"), (3, 2**63 - 1), (4, message((1, 1)))),
        b"\x12\x07XLA Ops\x19\x01\x01\x01\x01\x01\x01\x01\x01",  # a timestamp that is a double
        b"\x12\x07XLA Ops\x18" + b"\xff" * 9 + b"\x7f",  # a number of 70 bits
        message((2, "XLA Ops"), (4, message((1, 1), (2, 5))), (3, 1000)),  # a head behind events
    ],
)
def test_numbers_out_of_all_bounds_are_read_or_refused(strange: bytes) -> None:
    digits = message((1, 1), (2, message((2, "9" * 5000))))
    read_or_refuse(field_bytes(1, message((2, "/device:TPU:0"), (3, strange), (4, digits))))


@pytest.mark.parametrize(
    "head", [b"", b"\x0a", b"<!DOCTYPE html>", b"\nplain text\n" * 9, b"PK\x03\x04"]
)
def test_what_is_no_profile_is_seen_at_its_head(head: bytes) -> None:
    assert not is_xplane(head)


@pytest.mark.parametrize("number", [float("inf"), float("nan"), -5.0, 1e308, -(1 << 63)])
def test_work_and_peaks_that_are_no_numbers_are_unknown(number: float, tmp_path: Path) -> None:
    core = Plane(
        "/device:TPU:0",
        peak_teraflops_per_second=number,
        peak_hbm_bw_gigabytes_per_second=number,
    )
    tpu_op(core, "%copy.1 = f32[] copy()", 0, US, flops=number, bytes_accessed=number)
    path = tmp_path / "h.xplane.pb"
    path.write_bytes(xspace(core))
    timeline = read(path)
    assert (timeline.devices[0].peak_flops, timeline.devices[0].peak_bytes) == (None, None)
    work = (number, number) if number == 1e308 else (0.0, 4.0)  # what its text says
    assert timeline.ops.select("flops", "bytes_accessed").row(0) == work
    again = read(write_parquet(timeline, tmp_path / "t"))
    assert again.ops.equals(timeline.ops)
