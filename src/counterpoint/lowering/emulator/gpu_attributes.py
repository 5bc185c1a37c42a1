"""Lets virtual CPU devices describe themselves as the target's GPUs or TPUs do.

Programs choose a mesh, an attention kernel and block sizes by what a device says of itself. The
attributes and their values are those of XLA's GPU client. `slice_index` numbers the domains of
fast links: hosts, or NVLink domains where these span hosts.

JAX itself runs on CPU devices and gets the truth, except where it chooses for a GPU: in
`mesh_utils`, and in kernels of Pallas. `jax.make_mesh` gets no `slice_index`: it refuses devices of
several slices, so that a program that is to be predicted would end here; a note says so.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

from . import jax_internals as inside
from .function import JaxObject

_MESH = re.compile(r"sdy\.mesh @\w+ = <\[(.*?)\]")
_PARTITION = ("JAX_PARTITION_INDEX", "JAX_SLICE_INDEX")


class VirtualGpu:
    """The attributes of the target's GPUs: an entry of the task."""

    def __init__(self, facts: dict[str, Any], devices: int) -> None:
        self.platform: str = facts["platform"]  # "gpu" or "tpu"
        self.kind: str = facts["kind"]
        self.compute_capability: str = facts.get("compute_capability", "0.0")
        self.core_count: int = facts.get("core_count", 0)
        self.shared_memory: int = facts.get("shared_memory", 0)
        self.shape: list[int] = facts.get("shape", [])  # of a slice of TPUs, in chips
        self.cores: int = facts.get("cores", 1)  # devices of one chip
        self.memory: int = facts["memory"]
        self.per_host: int = facts["per_host"]
        self.per_slice: int = facts["per_slice"]
        self.hosts = -(-devices // self.per_host)
        self.slice: int | None = None  # one for all, if the program or its environment says so
        self.local_count = 0  # what the program was told of its process's devices

    @property
    def capability(self) -> tuple[int, ...]:
        return tuple(int(part) for part in self.compute_capability.split("."))

    def coords_of(self, device: JaxObject) -> list[int]:
        """Return the place of a device: in its slice's torus, or on its host.

        libtpu numbers the chips of a slice along x, then y, then z.
        """
        number = int(device.id)
        if not self.shape:
            return [number % self.per_host]
        chip = number % self.per_slice // self.cores
        wide, high, _ = self.shape
        return [chip % wide, chip // wide % high, chip // (wide * high)]

    def slice_of(self, device: JaxObject) -> int:
        return int(device.id) // self.per_slice if self.slice is None else self.slice

    def note_of_slices(self, devices: int) -> str | None:
        """Say how devices are numbered where it matters."""
        if self.slice is not None:
            return (
                f"all devices have slice_index {self.slice}, as {_PARTITION[0]} or"
                " jax.distributed.initialize asks: one domain of fast links"
            )
        slices = -(-devices // self.per_slice)
        if slices == 1 or self.platform == "tpu":  # a target names its slices
            return None
        return (
            f"devices have {slices} values of slice_index, {self.per_slice} devices each, as XLA's"
            f" GPU client numbers hosts and NVLink domains; with {_PARTITION[0]}=0 it is one"
        )

    def note_of_mesh(self, module: str) -> str | None:
        """Doubt a mesh that may be built from the number of a process's devices."""
        count = self.local_count
        if not count or f"={count}" not in "".join(_MESH.findall(module)):
            return None
        return (
            f"jax.local_device_count() returned {count}, because one process has all devices here,"
            f" and the mesh has an axis of that size; on your cluster a process has {self.per_host}"
            " or fewer: if the program derives the axis from it, the mesh differs there"
        )


def describe_devices(
    jax: ModuleType,
    gpu: VirtualGpu,
    note: Callable[[str], None],
    on_query: Callable[[], None] | None,
) -> None:
    """Add the attributes; with `on_query`, a program also gets the GPU's platform."""
    device: JaxObject = jax.Device  # type: ignore[attr-defined]
    client: JaxObject = getattr(import_module(inside.JAXLIB), "Client")  # noqa: B009
    gpu.slice = _given_slice()
    if on_query is not None:
        _tell_platform(device, client, gpu, on_query)
    _tell(device, "process_index", lambda it: int(it.id) // gpu.per_host, only_meshes=True)
    _tell(device, "local_hardware_id", lambda it: int(it.id) % gpu.per_host)
    _add_slices(device, gpu, note, jax)
    device.coords = property(gpu.coords_of)
    if gpu.platform == "tpu":
        device.core_on_chip = property(lambda it: int(it.id) % gpu.cores)
    for name, value in (
        ()
        if gpu.platform == "tpu"
        else (
            ("device_vendor", "NVIDIA Corporation"),
            ("compute_capability", gpu.compute_capability),
            ("core_count", gpu.core_count),
            ("shared_memory_per_block_optin", gpu.shared_memory),
        )
    ):
        setattr(device, name, property(_constant(value)))
    _tell_memory(device, gpu)
    _watch_local_devices(jax, gpu)


def _given_slice() -> int | None:
    """Return the slice that the environment gives to a process."""
    given = next((os.environ[name] for name in _PARTITION if os.environ.get(name)), "")
    return int(given) if given.isdecimal() else None


def _constant(value: JaxObject) -> Callable[[JaxObject], JaxObject]:
    return lambda _: value


def _tell_platform(
    device: JaxObject, client: JaxObject, gpu: VirtualGpu, on_query: Callable[[], None]
) -> None:
    def platform(_: JaxObject) -> str:
        on_query()
        return gpu.platform

    _tell(device, "platform", platform)
    _tell(device, "device_kind", _constant(gpu.kind))
    _tell(client, "platform", platform)
    version = "cuda 12090" if gpu.platform == "gpu" else "libtpu"
    _tell(client, "platform_version", _constant(version))


def _tell(
    kind: JaxObject,
    name: str,
    answer: Callable[[JaxObject], JaxObject],
    *,
    only_meshes: bool = False,
) -> None:
    """Replace an attribute for callers outside of JAX, or only for JAX's choice of a mesh."""
    own = getattr(kind, name)

    def get(it: JaxObject) -> JaxObject:
        caller = _caller()
        told = caller == inside.MESHES if only_meshes else _is_for_gpu(caller)
        return answer(it) if told else own.fget(it)

    setattr(kind, name, property(get))


def _add_slices(
    device: JaxObject, gpu: VirtualGpu, note: Callable[[str], None], jax: JaxObject
) -> None:
    def get(it: JaxObject) -> int:
        caller = _caller()
        devices = int(jax.device_count())
        if caller == inside.SHARDINGS:  # `jax.make_mesh`
            if gpu.platform == "gpu" and gpu.slice is None and devices > gpu.per_slice:
                note(
                    f"jax.make_mesh of JAX {jax.__version__} refuses GPUs of several hosts, so on"
                    " your cluster this program fails there: build the mesh with"
                    " jax.experimental.mesh_utils.create_hybrid_device_mesh, or set"
                    f" {_PARTITION[0]}=0"
                )
            raise AttributeError("slice_index")
        said = gpu.note_of_slices(devices)
        if said:
            note(said)
        return gpu.slice_of(it)

    device.slice_index = device.partition_index = property(get)


def _tell_memory(device: JaxObject, gpu: VirtualGpu) -> None:
    own = device.memory_stats

    def memory_stats(self: JaxObject) -> JaxObject:
        if not _is_for_gpu(_caller()):
            return own(self)
        usual = 0.75 if gpu.platform == "gpu" else 1.0
        share = float(os.environ.get("XLA_PYTHON_CLIENT_MEM_FRACTION") or usual)
        limit = int(gpu.memory * share)
        used = ("bytes_in_use", "peak_bytes_in_use", "num_allocs", "largest_alloc_size")
        return {
            **dict.fromkeys((*used, "bytes_reserved", "peak_bytes_reserved"), 0),
            "bytes_limit": limit,
            "bytes_reservable_limit": 0,
            "largest_free_block_bytes": limit,
        }

    device.memory_stats = memory_stats


def _watch_local_devices(jax: JaxObject, gpu: VirtualGpu) -> None:
    own = jax.local_device_count

    def local_device_count(*args: JaxObject, **named: JaxObject) -> int:
        count = int(own(*args, **named))
        if gpu.hosts > 1 and _is_for_gpu(_caller()):
            gpu.local_count = count
        return count

    jax.local_device_count = local_device_count


def _caller() -> str:
    """Return the module that asks: the caller of the function that asks this."""
    frame: JaxObject = inspect.currentframe()
    return str(frame.f_back.f_back.f_globals.get("__name__", ""))


def _is_for_gpu(caller: str) -> bool:
    if caller.startswith(inside.FOR_GPUS):
        return True
    return not re.match(r"jax(lib)?(\.|$)", caller)
