"""XLA_FLAGS that a program rewrites while the lowering's own flags stand in their place."""

from __future__ import annotations

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
