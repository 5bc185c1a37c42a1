"""Lets JAX trace and lower for a GPU or TPU that this machine lacks.

Neither computes anything, but JAX asks for the version of cuDNN, for the capability of the GPU, and
for the client that would call Python. Each gets an answer here. What the author of a Pallas kernel
states of its work (`pl.CostEstimate`), JAX leaves out for GPUs: it is added to the kernel's call,
where the prices find it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any

from . import jax_internals as inside
from .function import JaxObject

_CUDNN = 91200
_SETTINGS = "mhlo.backend_config"
_STATED = ("flops", "bytes_accessed", "transcendentals")


@contextmanager
def absent_gpu(
    capability: tuple[int, ...] | None, note: Callable[[str], None] = lambda _: None
) -> Generator[None, None, None]:
    """Answer for a GPU of this capability, or for a TPU (None), within the context."""
    with ExitStack() as replaced:
        if capability is not None:
            _answer_for_cudnn(replaced, capability, note)
        _answer_for_callbacks(replaced)
        _keep_stated_costs(replaced)
        yield


def _replace(replaced: ExitStack, home: JaxObject, name: str, new: JaxObject) -> None:
    replaced.callback(setattr, home, name, getattr(home, name))
    setattr(home, name, new)


def _answer_for_cudnn(
    replaced: ExitStack, capability: tuple[int, ...], note: Callable[[str], None]
) -> None:
    """Pretend that cuDNN exists on the target's GPU, for attention on a machine without it."""
    home: JaxObject = import_module(inside.CUDNN)

    def check_cudnn_version() -> int:
        note(f"attention is lowered for cuDNN {_CUDNN // 10000}.{_CUDNN // 100 % 100}")
        return _CUDNN

    def check_compute_capability(needed: str) -> bool:
        return _parsed(needed) <= capability

    def is_cuda_compute_capability_equal(wanted: str) -> bool:
        return _parsed(wanted) == capability

    _replace(replaced, home, "check_cudnn_version", check_cudnn_version)
    _replace(replaced, home, "check_compute_capability", check_compute_capability)
    _replace(replaced, home, "is_cuda_compute_capability_equal", is_cuda_compute_capability_equal)


def _parsed(capability: str) -> tuple[int, ...]:
    return tuple(int(part) for part in capability.split("."))


class AbsentClient:
    """The client of a device that is not here: of the calls into Python, it keeps none."""

    def __init__(self, local: JaxObject) -> None:
        self._local = local

    def __getattr__(self, name: str) -> JaxObject:
        return getattr(self._local, name)

    def make_python_callback_from_host_send_and_recv(self, *_: object) -> JaxObject:
        return self


def _answer_for_callbacks(replaced: ExitStack) -> None:
    """Lower `pure_callback`, `io_callback` and `debug.print` for a device without a client."""
    context: JaxObject = import_module(inside.MLIR).ModuleContext
    own = context.get_backend
    bridge: JaxObject = import_module(inside.BRIDGE)

    def get_backend(self: JaxObject, *args: JaxObject, **named: JaxObject) -> JaxObject:
        try:
            return own(self, *args, **named)
        except NotImplementedError:  # for several platforms at once
            raise
        except (ValueError, RuntimeError):
            return AbsentClient(self.backend or bridge.get_backend("cpu"))

    _replace(replaced, context, "get_backend", get_backend)


def _keep_stated_costs(replaced: ExitStack) -> None:
    """Add the cost estimate of a Pallas kernel to its call."""
    home: JaxObject = import_module(inside.MLIR)
    own = home.lower_per_platform

    def lower_per_platform(*args: JaxObject, **named: JaxObject) -> JaxObject:
        results = own(*args, **named)
        cost = named.get("cost_estimate")
        if cost is not None:
            _state(results, {name: int(getattr(cost, name)) for name in _STATED})
        return results

    _replace(replaced, home, "lower_per_platform", lower_per_platform)


def _state(results: JaxObject, costs: dict[str, int]) -> None:
    """Write costs to the call that has these results, if its settings are a dictionary."""
    ir: JaxObject = import_module(inside.IR)
    call: Any = getattr(next(iter(results), None), "owner", None)
    attributes: Any = getattr(call, "attributes", {})
    settings: Any = attributes[_SETTINGS] if _SETTINGS in attributes else ()  # noqa: SIM401
    if isinstance(settings, ir.DictAttr):
        kind = ir.IntegerType.get_signless(64)
        whole = {it.name: it.attr for it in settings}
        whole |= {name: ir.IntegerAttr.get(kind, count) for name, count in costs.items()}
        attributes[_SETTINGS] = ir.DictAttr.get(whole)
