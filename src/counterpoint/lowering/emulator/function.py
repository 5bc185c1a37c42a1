"""A function that the program lowered: its weight, its owner, and its text for the target."""

from __future__ import annotations

import inspect
import math
import os
import re
import sys
from collections.abc import Callable
from typing import Any

JaxObject = Any  # objects of JAX, which have no types here
_PLATFORMS = {"gpu": "cuda", "tpu": "tpu"}
"""Of each kind of device, what JAX lowers for."""
_lowered_for = ["cuda"]


def lower_for(devices: str) -> None:
    """Set the kind of device, before anything is lowered."""
    _lowered_for[:] = [_PLATFORMS[devices]]


def lowered_for() -> tuple[str, ...]:
    """Return the platform that steps are lowered for."""
    return tuple(_lowered_for)


# Copied from counterpoint.compile.inputs.candidates, which the program's interpreter may lack.
_DOT = re.compile(
    r"stablehlo\.(?:dot_general|convolution)\b[^\n]*: \(tensor<((?:\d+x)*+)[a-z]\w*>, "
    r"tensor<((?:\d+x)*+)[a-z]\w*>\) -> tensor<((?:\d+x)*+)[a-z]\w*>"
)
_COUNT = re.compile(r"mhlo\.num_(?:replicas|partitions) = (\d+)")
_HEAD = 1 << 20
LARGE_FLOPS = 1e10
"""More than a function computes that only prepares the step."""
_PMAP = "pmap.py"
_WRAPPERS = (_PMAP, "linear_util.py")  # of JAX, around the program's functions
_OPERATIONS = os.path.join("_src", "dispatch.py")  # noqa: PTH118
"""The file of JAX whose functions are operations called outside of `jax.jit`."""
_CONTROL = {"scan": "lax.scan", "while": "lax.while_loop", "cond": "lax.cond"}
"""Operations that run code of the program, and JAX's names for them."""
_KERNELS = re.compile(r"custom_call @(?:__cudnn|__cublas|triton|__gpu|mosaic_gpu|te_)")
_CUSTOM = "@CustomSPMDPartitioning"
_COMPUTED = re.compile(r"stablehlo\.\w+|tensor<[^>]*>|dense<[^>]{0,64}>")
"""What a program computes, without how its arrays are sharded."""
_BACKWARD = "transpose(jvp("  # in the scopes that jax.grad derives
_ARGUMENT = re.compile(r"%arg\d+: tensor<((?:\d+x)*)[a-z]+(\d+)")
_DONATED = ("tf.aliasing_output", "jax.buffer_donor")
_WHOLE = 0.75
"""Minimum share of its arguments' bytes that a step donates: weights and optimizer state.

A function that accumulates gradients donates these, and reads weights of as many bytes.
"""


class LoweredFunction:
    """A function that was lowered."""

    def __init__(
        self,
        name: str,
        text: str,
        file: str | None,
        again: Callable[[], JaxObject] | None,
        order: tuple[int, ...] = (),
        jaxpr: JaxObject = None,
        place: str = "",
    ) -> None:
        self.inner = name.partition("_")[2]  # JAX's name of the wrapped function
        home = _within_jax(file)
        is_wrapper = home is not None and os.path.basename(home) in _WRAPPERS  # noqa: PTH119
        mapped = _mapped() if is_wrapper else None
        self.name = f"pmap_{mapped}" if mapped else name
        self.key = (self.name, place)
        """One function, for whatever shapes it is lowered."""
        self._control = _control(jaxpr, home)
        self.is_own = home is None or is_wrapper or self._control is not None
        """True unless it is one of JAX's own, such as `jnp.add` of two arrays."""
        self.computation = hash("".join(_COMPUTED.findall(text)))
        """Equal if only the shardings of arrays differ."""
        if not self.is_own:  # for these, other shapes are another function
            self.key = (self.name, f"{place} {self.computation}")
        self.flops = _flops(text)
        self.size = len(text)
        self.has_backward = _BACKWARD in text
        self.is_for_gpu = _KERNELS.search(text) is not None
        self.is_custom = _CUSTOM in text  # partitioned by Python code, which a file can't hold
        self.tied: str | None = None  # why that code could not be replaced
        self.devices = math.prod(int(count) for count in _COUNT.findall(text[:_HEAD]))
        self.is_whole = _donated(text) >= _WHOLE  # it updates its arguments
        self.module: JaxObject = None
        self._text = text
        self._again = again
        self._order = order

    @property
    def weight(self) -> tuple[bool, float, int]:
        """The order of preference for the step."""
        return self.is_training, self.flops, self.size

    @property
    def is_training(self) -> bool:
        """True if it has a backward pass with FLOPs."""
        return self.has_backward and (self.flops > 0 or self.is_custom)

    def is_called(self, wanted: str) -> bool:
        """Return whether it has the user's name: `step`, `jit_step` or `jit(step)`."""
        plain = re.sub(r"\W+", "_", wanted).strip("_")
        return plain in (self.name, self.name.partition("_")[2], self.inner)

    @property
    def remark(self) -> str | None:
        """Say what it is, if the program did not put it in `jax.jit` itself."""
        if self._control is None:
            return None
        return (
            f"{self.name} is one call of {self._control} outside of jax.jit, with all its"
            " iterations; the operations around it are left out"
        )

    def for_target(self) -> tuple[str, str, str | None]:
        """Return its text, its platform, and the reason if that is not the target's."""
        platform = lowered_for()[0]
        if self._again is None:
            return self._text, "cpu", "it is lowered for CPU: this JAX can lower it only once"
        try:
            module = self._again()
            self.tied = _replaced(module) if self.is_custom else None
            return module_text(module) + _order_line(self._order), platform, None
        except Exception as error:  # noqa: BLE001  whatever a rule of another platform may raise
            why = str(error).strip().partition("\n")[0][:200]
            wanted = platform.upper()
            return self._text, "cpu", f"it is lowered for CPU: JAX can't for {wanted} here ({why})"

    def let_go(self) -> None:
        """Release everything but its facts."""
        self._text, self._again, self.module = "", None, None

    def facts(self) -> dict[str, Any]:
        """Return the facts for the journal."""
        return {
            "name": self.name,
            "flops": self.flops,
            "backward": self.has_backward,
            "devices": self.devices,
            "tied": self.tied,
        }


def describe_function(
    module: JaxObject,
    jaxpr: JaxObject,
    again: Callable[[], JaxObject] | None,
    order: tuple[int, ...] = (),
) -> LoweredFunction:
    """Return the LoweredFunction of a module and of the jaxpr it was made from.

    `order` has the devices of its mesh in the mesh's order.
    """
    about = getattr(getattr(jaxpr, "jaxpr", None), "debug_info", None)
    source = getattr(about, "func_src_info", None) or ""
    file = source.partition(" at ")[2].rpartition(":")[0] or None
    name = str(module.operation.attributes["sym_name"]).strip('"')
    return LoweredFunction(name, module_text(module), file, again, order, jaxpr, source)


def _control(jaxpr: JaxObject, home: str | None) -> str | None:
    """Return the control flow to which a program gave its code outside of `jax.jit`."""
    if home != _OPERATIONS:
        return None
    names = (str(equation.primitive.name) for equation in jaxpr.jaxpr.eqns)
    return next((_CONTROL[name] for name in names if name in _CONTROL), None)


def _within_jax(file: str | None) -> str | None:
    """Return the path of a file of the installed JAX, from JAX's directory on; else None.

    Other packages, and programs, may have a directory of that name.
    """
    home = os.path.dirname(os.path.abspath(str(sys.modules["jax"].__file__)))  # noqa: PTH100, PTH120
    path = os.path.abspath(file) if file else ""  # noqa: PTH100
    return path[len(home) + 1 :] if path.startswith(home + os.sep) else None


def _replaced(module: JaxObject) -> str | None:
    """Replace each custom_partitioning by its computation; return why that is not possible."""
    from .custom_partitioning import replace_custom_partitioning

    try:
        replace_custom_partitioning(module)
    except Exception as error:  # noqa: BLE001  whatever the program's own code may raise
        return str(error).strip().partition("\n")[0][:200] or type(error).__name__
    return None


def module_text(module: JaxObject) -> str:
    """Return the module's text with scopes and source lines."""
    return str(module.operation.get_asm(enable_debug_info=True))


def _order_line(order: tuple[int, ...]) -> str:
    """Return a comment with the order of a mesh, which StableHLO does not hold.

    `counterpoint.compile` passes it to the compiler.
    """
    if order == tuple(range(len(order))):
        return ""
    return f"// counterpoint.device_order = {','.join(map(str, order))}\n"


def _flops(text: str) -> float:
    """Estimate FLOPs, counting each loop once: the root of M*K, K*N and M*N is M*N*K."""
    total = 0.0
    for match in _DOT.finditer(text):
        total += 2 * math.sqrt(math.prod(_elements(part) for part in match.groups()))
    return total


def _elements(shape: str) -> int:
    return math.prod(int(size) for size in shape.split("x") if size)


def _donated(text: str) -> float:
    """Return the share of its arguments' bytes that may be overwritten by results."""
    _, _, head = text.partition(" @main(")
    whole = donated = 0
    for part in re.split(r"(?=%arg\d+: )", head.partition("\n")[0].partition(") -> ")[0]):
        match = _ARGUMENT.match(part)
        if match:
            size = _elements(match[1].rstrip("x")) * int(match[2])
            whole += size
            donated += size if any(mark in part for mark in _DONATED) else 0
    return donated / whole if whole else 0.0


def _mapped() -> str | None:
    """Return the function being lowered within `jax.pmap`, which names all of them `_fun`."""
    frame: JaxObject = inspect.currentframe()
    while frame is not None:
        home = _within_jax(frame.f_code.co_filename) or ""
        if os.path.basename(home) == _PMAP and "infer_params" in frame.f_locals:  # noqa: PTH119
            infer = frame.f_locals["infer_params"]
            cells = dict(zip(infer.__code__.co_freevars, infer.__closure__ or ()))  # noqa: B905
            for name in ("fun", "f", "wrapped_fun"):
                called = getattr(cells[name].cell_contents, "__name__", "") if name in cells else ""
                if called:
                    return re.sub(r"\W+", "_", called).strip("_")
        frame = frame.f_back
    return None
