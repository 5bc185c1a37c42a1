"""The use of JAX in a Python program: when JAX reads the settings, and for which chip they are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from counterpoint.flags.parse.python_values import Entries, Value, dotted
from counterpoint.flags.parse.traced import TracedText
from counterpoint.flags.parsed import Branch, IssueKind, Location, Occurrence, SyntaxIssue
from counterpoint.flags.settings import FLAG_VARIABLES, Channel
from counterpoint.flags.text import LIBTPU

_FLAG_NAME: Final = re.compile(r"(?:xla|megascale)_[a-z0-9_]+")
_USES_DEVICE: Final = re.compile(
    r"jax\.(?:(?:numpy|random|lax|nn|scipy)\..*|(?:.*\.)?(?:devices|local_devices|device_count"
    r"|local_device_count|default_backend|process_index|process_count|device_put|device_get"
    r"|block_until_ready|make_mesh|make_array_from_callback))"
)
_OF_CLIENT: Final = ("XLA_PYTHON_CLIENT_", "XLA_CLIENT_MEM_FRACTION")
"""What JAX reads when it makes the client of a device; NCCL's are read later, by the first
collective."""
_CLOSE: Final = 0.9
_NEEDS_NO_DEVICE: Final = ("dtype", "finfo", "iinfo", "result_type", "promote_types", "eval_shape")


@dataclass(slots=True)
class JaxUse:
    """The names for JAX in a program, and the lines of its import and its first use.

    JAX reads its own variables when it is imported, and XLA_FLAGS and the allocator's when it first
    needs a device.
    """

    imported: int = 0
    used: int = 0
    used_as: str = ""
    used_in: Branch = ()
    names: dict[str, str] = field(default_factory=dict[str, str])

    def see_import(self, node: ast.Import | ast.ImportFrom) -> None:
        module = f"{node.module or ''}." if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            whole = module + alias.name
            if whole.partition(".")[0] == "jax":
                self.imported = self.imported or node.lineno
                renamed = alias.asname or (alias.name if module else "")
                self.names[renamed or "jax"] = whole if renamed else "jax"

    def see_call(self, node: ast.Call, branch: Branch) -> None:
        name = self.full_name(node.func)
        harmless = name.rpartition(".")[2] in _NEEDS_NO_DEVICE
        if not self.used and not harmless and _USES_DEVICE.fullmatch(name):
            self.used, self.used_as, self.used_in = node.lineno, ast.unparse(node.func), branch

    def too_late(
        self, name: str, value: TracedText, place: Location, branch: Branch
    ) -> SyntaxIssue | None:
        """Return the issue with a variable that was already read, so that it has no effect.

        A use in a branch that the variable is not in may not have come first.
        """
        instead = None
        used = self.used and branch[: len(self.used_in)] == self.used_in
        if used and (name in FLAG_VARIABLES or name.startswith(_OF_CLIENT)):
            reader = "XLA" if name in FLAG_VARIABLES else "JAX"
            why = f"{reader} has already read it in line {self.used} (`{self.used_as}`)"
        elif self.imported and name.startswith("JAX_") and is_config(name):
            why = f"JAX has already read it in line {self.imported}, on import"
            instead = f'jax.config.update("{name.lower()}", ...)'
        else:
            return None
        return SyntaxIssue(
            kind=IssueKind.TOO_LATE,
            channel=FLAG_VARIABLES.get(name, Channel.ENVIRONMENT),
            text=f"{name}={value.shown}",
            why=why,
            place=place,
            suggestion=instead,
        )

    def full_name(self, node: ast.expr) -> str:
        """Return `jax.numpy.zeros` for `jnp.zeros`."""
        head, dot, rest = dotted(node).partition(".")
        return self.names.get(head, head) + dot + rest


def is_config(name: str) -> bool:
    """Return whether JAX has a configuration option of that name."""
    from counterpoint.flags.catalogue.lookup import release  # slow to import, and rarely needed

    return name.upper() in release(None).jax


def is_nearly_config(name: str) -> bool:
    """Return whether JAX has a configuration option of nearly that name."""
    import difflib

    from counterpoint.flags.catalogue.lookup import release

    near = difflib.get_close_matches(name.upper(), list(release(None).jax), n=1, cutoff=_CLOSE)
    return bool(near)


def flag_entries(value: Entries) -> Entries | None:
    """Return the flags among the entries, if several look like flags or one is known."""
    from counterpoint.flags.history import history  # slow to import, and rarely needed

    flags: dict[str, Value] = {
        name: inner
        for name, inner in value.entries.items()
        if _FLAG_NAME.fullmatch(name)
        and isinstance(inner, TracedText)
        and not inner.text.lstrip().startswith("-")
    }
    known = (name.startswith(LIBTPU) or history(name) is not None for name in flags)
    return Entries(flags) if len(flags) > 1 or any(known) else None


def for_their_chip(given: Iterable[Occurrence]) -> Iterator[Occurrence]:
    """Move TPU flags to libtpu's channel; flags of both go with them if there are no GPU flags."""
    occurrences = list(given)
    gpu = any(occurrence.name.startswith("xla_gpu_") for occurrence in occurrences)
    tpu = any(occurrence.name.startswith(LIBTPU) for occurrence in occurrences) and not gpu
    for occurrence in occurrences:
        libtpu = tpu or occurrence.name.startswith(LIBTPU)
        yield replace(occurrence, channel=Channel.LIBTPU_INIT_ARGS) if libtpu else occurrence
