"""XLA_FLAGS that a program rewrites while the lowering's own flags stand in their place."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from counterpoint.lowering.emulator import virtual_devices
from counterpoint.lowering.emulator.virtual_devices import ChangedRequests

COUNT = "--xla_force_host_platform_device_count=2"  # as `chex.set_n_cpu_devices(2)` puts it first


@pytest.mark.parametrize("given", ["", "--xla_gpu_autotune_level=4"])
def test_flags_put_in_front_leave_the_users(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    jax = SimpleNamespace(config=SimpleNamespace(update=lambda *_: None))
    remarks = ChangedRequests(lambda: None)
    monkeypatch.setenv("XLA_FLAGS", given)
    virtual_devices._force(jax, remarks)  # type: ignore[arg-type]
    quick = virtual_devices.os.environ["XLA_FLAGS"]
    assert quick != given
    monkeypatch.setenv("XLA_FLAGS", f"{COUNT} {quick} --xla_gpu_enable_pipelined_p2p=true")
    virtual_devices._force(jax, remarks)  # type: ignore[arg-type]
    kept = [COUNT, *given.split(), "--xla_gpu_enable_pipelined_p2p=true"]
    assert remarks.variables["XLA_FLAGS"].split() == kept


def test_a_program_that_asks_for_the_devices_that_there_are_finds_their_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """AXLearn's run_aot_compilation calls `chex.set_n_cpu_devices` after it has seen devices."""
    jax = SimpleNamespace(config=SimpleNamespace(update=lambda *_: None))
    monkeypatch.setattr(virtual_devices, "_devices", 512)
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_autotune_level=4")
    remarks = ChangedRequests(lambda: None)
    virtual_devices._force(jax, remarks)  # type: ignore[arg-type]
    flags = virtual_devices.os.environ["XLA_FLAGS"]
    # as in chex 0.1.91
    count = re.match(r"[-]{0,2}xla_force_host_platform_device_count=(\d+)?(\s|$)", flags)
    assert count is not None
    assert count[1] == "512"
    virtual_devices._force(jax, remarks)  # type: ignore[arg-type]
    assert remarks.variables["XLA_FLAGS"] == "--xla_gpu_autotune_level=4"
