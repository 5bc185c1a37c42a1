"""Provides as many CPU devices as the target has, whatever devices the program requests.

A program for GPUs requests them by name, sets XLA_FLAGS and JAX_PLATFORMS and joins a cluster. Here
none of that takes effect: it gets CPU devices, its flags are kept for the prediction, and it is the
only process.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from types import ModuleType

from . import jax_internals as inside
from .absent_gpu import absent_gpu
from .function import JaxObject
from .gpu_attributes import VirtualGpu, describe_devices

_GPU = ("gpu", "cuda", "rocm", "tpu")
_KEPT = ("XLA_PYTHON_CLIENT_", "NCCL_", "CUDA_DEVICE_MAX_CONNECTIONS")
_QUICK = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
"""Compile fast: code here runs only once."""
_COUNT = "--xla_force_host_platform_device_count={} "
"""Read by `chex.set_n_cpu_devices`, which accepts the count that there is."""

_ANSWERS = {
    "tpu": 'jax.default_backend() returned "tpu", so that the program chooses as on TPUs',
    "gpu": 'jax.default_backend() returned "gpu", so that the program chooses as on GPUs',
    "cpu": 'jax.default_backend() returned "cpu", because the program fails here with another;'
    " on the target it may choose differently",
}
_replaced = ExitStack()
_PLACES = ("partition_index", "slice_index")  # arguments of `jax.distributed.initialize`
_devices = 1
_backend = "gpu"
_gpu: VirtualGpu


class ChangedRequests:
    """Requests of the program that were changed, and the variables that it set."""

    def __init__(self, on_backend_query: Callable[[], None]) -> None:
        self.on_backend_query = on_backend_query
        self.notes: list[str] = []
        self.variables: dict[str, str] = {}

    def note(self, what: str) -> None:
        """Add a note, once."""
        if what not in self.notes:
            self.notes.append(what)

    def given_flags(self) -> dict[str, str | None]:
        """Return the program's own XLA_FLAGS, in whose place the emulator's are."""
        return {"XLA_FLAGS": self.variables.get("XLA_FLAGS", "").strip() or None}


def prepare(devices: int, backend: str, gpu: VirtualGpu) -> None:
    """Set the devices and the backend, before jax is imported."""
    global _devices, _backend, _gpu
    _devices, _backend, _gpu = devices, backend, gpu


def note_of_mesh(module: str) -> str | None:
    """Return a doubt about the mesh of the step, if there is one."""
    return _gpu.note_of_mesh(module)


def install_hooks(jax: ModuleType, remarks: ChangedRequests) -> None:
    """Install the hooks, after jax is imported and before it looks for devices."""
    bridge: JaxObject = import_module(inside.BRIDGE)
    _force(jax, remarks)
    own = bridge.backends
    ready: list[bool] = []

    def backends() -> JaxObject:
        if not ready:
            ready.append(True)
            _force(jax, remarks)
        return own()

    bridge.backends = backends
    _answer_for_gpus(jax, bridge, remarks)
    _stay_alone(jax, remarks)
    # Until the program ends.
    _replaced.enter_context(
        absent_gpu(_gpu.capability if _gpu.platform == "gpu" else None, remarks.note)
    )
    asks = remarks.on_backend_query if _backend != "cpu" else None
    describe_devices(jax, _gpu, remarks.note, asks)


def _force(jax: ModuleType, remarks: ChangedRequests) -> None:
    """Override the program's options, and keep its variables."""
    remarks.variables.update(
        (name, value) for name, value in os.environ.items() if name.startswith(_KEPT)
    )
    given = os.environ.get("XLA_FLAGS", "")
    # Perhaps between flags that the program has added since, as `chex.set_n_cpu_devices` does.
    given = _with_given(given, remarks.variables.get("XLA_FLAGS", ""))
    remarks.variables["XLA_FLAGS"] = given
    os.environ["XLA_FLAGS"] = _COUNT.format(_devices) + _QUICK
    for name, value in inside.OPTIONS:
        try:
            jax.config.update(name, _devices if value is None else value)
        except (AttributeError, ValueError, RuntimeError):  # missing in this release, or too late
            continue


def _with_given(flags: str, given: str) -> str:
    """Return XLA_FLAGS with the given flags in place of the emulator's."""
    return flags.replace(_COUNT.format(_devices), "", 1).replace(_QUICK, given, 1)


def _answer_for_gpus(jax: JaxObject, bridge: JaxObject, remarks: ChangedRequests) -> None:
    """Return the virtual devices from `jax.devices("gpu")`."""
    find = bridge._get_backend_uncached  # noqa: SLF001

    def _get_backend_uncached(platform: JaxObject = None) -> JaxObject:
        if isinstance(platform, str) and platform.lower() in _GPU:
            platform = "cpu"
        return find(platform)

    def default_backend() -> str:
        remarks.on_backend_query()
        remarks.note(_ANSWERS[_backend])
        return _backend

    bridge._get_backend_uncached = _get_backend_uncached  # noqa: SLF001
    jax.default_backend = default_backend


def _stay_alone(jax: ModuleType, remarks: ChangedRequests) -> None:
    """Skip joining a cluster: all devices are here."""
    place: JaxObject = jax.distributed
    joined: list[bool] = []

    def initialize(*_: object, **named: object) -> None:
        joined.append(True)
        given = next((named[name] for name in _PLACES if named.get(name) is not None), None)
        if isinstance(given, int):
            _gpu.slice = given
        remarks.note("jax.distributed.initialize did nothing: one process has all the devices")

    place.initialize = initialize
    if hasattr(place, "is_initialized"):
        place.is_initialized = _bool(joined)
    place.shutdown = lambda: None


def _bool(joined: list[bool]) -> Callable[[], bool]:
    return lambda: bool(joined)
