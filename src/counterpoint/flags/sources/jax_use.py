"""Where a Python program first makes JAX read its settings: behind that, they come too late.

JAX reads its own variables when it is imported, and XLA_FLAGS when it first needs a device or
compiles. A call that only wraps a function or sets an option needs neither.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Final

from counterpoint.flags.sources.python_values import dotted

_STARTS: Final = (
    *("devices", "local_devices", "device_count", "local_device_count", "default_backend"),
    *("process_index", "process_count", "device_put", "device_get", "block_until_ready"),
    *("make_mesh", "make_array_from_callback", "make_jaxpr", "eval_shape"),
)
_STARTING_MODULES: Final = ("jax.numpy.", "jax.random.", "jax.lax.", "jax.nn.", "jax.scipy.")
_HARMLESS: Final = ("dtype", "finfo", "iinfo", "result_type", "promote_types")
_NEEDS_NO_DEVICE: Final = ("eval_shape", "make_jaxpr")


@dataclass(slots=True)
class JaxUse:
    """What JAX is called in a program, and the lines of its import and its first use."""

    imported: int | None = None
    used: int | None = None
    used_as: str = ""
    names: dict[str, str] = field(default_factory=dict[str, str])

    def see_import(self, node: ast.Import | ast.ImportFrom) -> None:
        module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            whole = f"{module}.{alias.name}" if module else alias.name
            if whole.partition(".")[0] != "jax":
                continue
            self.imported = self.imported or node.lineno
            bound = alias.asname or (alias.name if module else "jax")
            self.names[bound] = whole if alias.asname or module else "jax"

    def see_call(self, node: ast.Call) -> None:
        if self.used is not None:
            return
        name = self.full_name(node.func)
        last = name.rpartition(".")[2]
        if not name.startswith("jax.") or last in _HARMLESS or last in _NEEDS_NO_DEVICE:
            return
        if last in _STARTS or name.startswith(_STARTING_MODULES):
            self.used, self.used_as = node.lineno, ast.unparse(node.func)

    def full_name(self, node: ast.expr) -> str:
        """`jax.numpy.zeros` of `jnp.zeros`."""
        head, dot, rest = dotted(node).partition(".")
        return self.names.get(head, head) + dot + rest

    def inner(self) -> JaxUse:
        """The same within a function, which runs nobody knows when."""
        return JaxUse(names=dict(self.names))
