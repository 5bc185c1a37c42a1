"""Settings: XLA flags, JAX options and environment variables as one validated value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

from counterpoint.core import UsageError
from counterpoint.core.field import Field
from counterpoint.flags.text import (
    SPACE,
    Pairs,
    expand_xla_flags,
    names,
    parse_xla_flags,
    render_xla_flags,
)


class Channel(StrEnum):
    """A source from which a setting is read."""

    XLA_FLAGS = "XLA_FLAGS"  # once per process
    COMPILER_OPTIONS = "compiler_options"  # per compile, of jax.jit or lowered.compile
    LIBTPU_INIT_ARGS = "LIBTPU_INIT_ARGS"  # libtpu's own flags, once per process
    ENVIRONMENT = "environment"  # JAX, NCCL, CUDA, the allocator, logging
    JAX_CONFIG = "jax.config"  # jax.config.update in the program
    TRAINER = "trainer"  # the trainer's own options, on its command line or in its YAML


FLAG_VARIABLES: Final = {
    "XLA_FLAGS": Channel.XLA_FLAGS,
    "LIBTPU_INIT_ARGS": Channel.LIBTPU_INIT_ARGS,
}
"""Variables that hold flags."""

_FAMILIES: Final = (
    *("XLA_", "JAX_", "JAXLIB_", "LIBTPU_", "TPU_", "MEGASCALE_", "TSL_", "PJRT_"),
    *("TF_CPP_", "TF_GPU_", "TF_XLA_", "TF_FORCE_", "TF_ENABLE_", "TF_DISABLE_"),
    *("NCCL_", "RCCL_", "NVTE_", "NVSHMEM_", "UCX_", "GLOO_", "MPI4JAX_"),
    *("CUDA_", "CUDNN_", "CUBLAS", "NVIDIA_", "HIP_", "HSA_", "ROCR_", "GPU_"),
)


def is_setting(name: str) -> bool:
    """Return whether a variable is one of JAX, XLA, the communication libraries or the driver."""
    return name.startswith(_FAMILIES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The processes of a run and their resources; None means unspecified."""

    hosts: Annotated[int | None, Field("the number of hosts; null: unspecified")] = None
    processes_per_host: Annotated[
        int | None, Field("processes on each host; null: unspecified")
    ] = None
    gpus_per_process: Annotated[int | None, Field("GPUs of each process; null: unspecified")] = None
    cpus_per_process: Annotated[
        int | None, Field("CPU cores of each process; null: unspecified")
    ] = None


LIST_TYPES: Final = frozenset({"enums", "map", "strings"})
"""Types whose value is a comma-separated list."""


def is_list(name: str) -> bool:
    """Return whether a flag's value is a comma-separated list."""
    return _type(name) in LIST_TYPES


def combine(name: str, earlier: str, later: str) -> str:
    """Combine two values of a flag, given in this order, into one, as XLA does.

    For most flags the last value wins. Three types differ, which matters when appending to
    inherited flags:

        lists of strings      each adds to what was there; nothing removes an entry
        maps                  each adds its keys; the last value of a key wins
        lists of enum names   the last one replaces; `+NAME` and `-NAME` change what was there,
                              where the flag and the version know that form
    """
    kind = _type(name)
    if kind == "strings":
        return _union(earlier, later)
    if kind == "map":
        return _merged_map(earlier, later)
    if kind == "enums" and _is_change(later):
        return _changed(earlier, later)
    return later


def is_combined(name: str) -> bool:
    """Return whether XLA may combine several values of a flag, rather than take the last one."""
    return _type(name) in ("strings", "map", "enums")


def fold_repeated(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return one value per flag, in the order of the last occurrences."""
    flags: dict[str, str] = {}
    for name, value in pairs:
        earlier = flags.pop(name, None)
        flags[name] = value if earlier is None else combine(name, earlier, value)
    return flags


def add_to_list(earlier: str | None, value: str) -> str:
    """Return the value of a list flag with one more entry."""
    return value if not earlier else _union(earlier, value)


def _type(name: str) -> str:
    known = names().get(name)
    return known.type if known else ""


def _items(text: str) -> list[str]:
    return text.split(",") if text else []


def _union(earlier: str, later: str) -> str:
    return ",".join(dict.fromkeys([*_items(earlier), *_items(later)]))


def _merged_map(earlier: str, later: str) -> str:
    entries = {item.partition("=")[0]: item for item in [*_items(earlier), *_items(later)]}
    return ",".join(entries.values())


def _is_change(text: str) -> bool:
    items = _items(text)
    return bool(items) and all(item[:1] in ("+", "-") for item in items)


def _changed(earlier: str, later: str) -> str:
    """Apply changes to a list; changes to changes stay changes, since they apply to the default."""
    if _is_change(earlier):
        return ",".join([*_items(earlier), *_items(later)])
    names = dict.fromkeys(_items(earlier))
    for item in _items(later):
        if item[0] == "+":
            names[item[1:]] = None
        else:
            names.pop(item[1:], None)
    return ",".join(names)


NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NEXT: Final = "write flags and variables as NAME=value"


class NotASettingError(UsageError, ValueError):
    """A name or a value that can't be given to any environment or compiler."""


def why_invalid(name: str, value: str) -> str | None:
    """Return why a pair can't be a setting; None if it can.

    Names are written into scripts unquoted, so no other characters are allowed in them.
    """
    if not NAME.fullmatch(name):
        return "a name consists of the letters A to Z and a to z, digits and underscores"
    if "\0" in value:
        return "an environment can't hold a zero byte"
    try:
        value.encode()
    except UnicodeEncodeError:
        return "the value is not text"
    return None


def valid_pairs(pairs: Iterable[tuple[str, str]]) -> Pairs:
    """Return the pairs, of a file or an environment, that can be settings."""
    return tuple(pair for pair in pairs if why_invalid(*pair) is None)


@dataclass(frozen=True, slots=True)
class Settings:
    """XLA's flags and the environment of one run, in the order in which they are given.

    Names of flags have no dashes. A flag may occur twice, as in XLA_FLAGS: `flags` has the values
    that XLA uses. JAX, NCCL, CUDA and the allocator are set through `env`. `options` are compiler
    options: they apply to one compile, and take precedence there.
    """

    xla: Pairs = ()
    env: Pairs = ()
    options: Pairs = ()
    layout: Layout | None = None

    def __post_init__(self) -> None:
        if "XLA_FLAGS" in self.variables:
            raise ValueError("XLA_FLAGS belongs into Settings.xla, parsed")
        for name, value in (*self.xla, *self.env, *self.options):
            if why := why_invalid(name, value):
                raise NotASettingError(f"{name!r}: not a setting", why=why, next=_NEXT)

    @property
    def flags(self) -> dict[str, str]:
        """One value per flag: the last one, or the union for lists that XLA accumulates."""
        return fold_repeated(self.xla)

    @property
    def variables(self) -> dict[str, str]:
        """One value per variable: the last one."""
        return dict(self.env)

    def merged(self, other: Settings) -> Settings:
        """Return both combined; the other takes precedence."""
        flags = fold_repeated([*self.xla, *other.xla])
        return Settings(
            tuple(flags.items()),
            tuple({**self.variables, **other.variables}.items()),
            tuple({**dict(self.options), **dict(other.options)}.items()),
            other.layout or self.layout,
        )

    def followed_by(self, other: Settings) -> Settings:
        """Return both combined as `merged` does, with the earlier values of repeated flags.

        XLA resolves such repeats itself. Values that it would combine are combined here, since a
        release may not know `+NAME`.
        """
        both = [*self.xla, *other.xla]
        folded = fold_repeated(both)
        last = {name: at for at, (name, _) in enumerate(both)}
        flags = (
            (name, folded[name] if at == last[name] else value)
            for at, (name, value) in enumerate(both)
            if at == last[name] or not is_combined(name)
        )
        return replace(self.merged(other), xla=tuple(flags))

    def joined(self, name: str, value: str, *, under: Settings | None = None) -> Settings:
        """Add an entry to a list flag, keeping the user's entries.

        `under` is what the child inherits: a list of enum names would replace the inherited one, so
        its entries are repeated.
        """
        if not is_list(name):
            raise ValueError(f"{name} is not a list")
        given = (under.merged(self) if under else self).flags.get(name)
        flags = {**self.flags, name: add_to_list(given, value)}
        return replace(self, xla=tuple(flags.items()))


@dataclass(frozen=True, slots=True)
class SettingDifference:
    """One setting that differs; None if it is not given."""

    channel: Annotated[Channel, Field("`XLA_FLAGS`, `compiler_options` or `environment`")]
    name: Annotated[str, Field("the setting")]
    before: Annotated[str | None, Field("its value before; null: not given")]
    after: Annotated[str | None, Field("its value after; null: not given")]


def difference(before: Settings, after: Settings) -> tuple[SettingDifference, ...]:
    """Return all differences, flags first, after merging repeated flags as XLA does; by name."""
    return (
        *_changes(Channel.XLA_FLAGS, before.flags, after.flags),
        *_changes(Channel.COMPILER_OPTIONS, dict(before.options), dict(after.options)),
        *_changes(Channel.ENVIRONMENT, before.variables, after.variables),
    )


def _changes(
    channel: Channel, before: Mapping[str, str], after: Mapping[str, str]
) -> Iterator[SettingDifference]:
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield SettingDifference(channel, name, before.get(name), after.get(name))


def environment(
    settings: Settings, inherited: Mapping[str, str], *, directory: Path | None = None
) -> dict[str, str]:
    """Return the child's whole environment.

    Its XLA_FLAGS are the inherited ones, unchanged, followed by ours. If they name a file (relative
    to `directory`), the file's content replaces them, since XLA reads only one of both.
    """
    child = {**inherited, **settings.variables}
    text = expand_xla_flags(inherited.get("XLA_FLAGS", ""), directory=directory)
    parse_xla_flags(text)  # a text at which XLA stops would hide our flags
    whole = " ".join(part for part in (text.strip(SPACE), render_xla_flags(settings.xla)) if part)
    child.pop("XLA_FLAGS", None)
    if whole:
        child["XLA_FLAGS"] = whole
    return child


def inherited_settings(inherited: Mapping[str, str], *, directory: Path | None = None) -> Settings:
    """Return the flags of an environment as Settings; its variables are not included."""
    text = expand_xla_flags(inherited.get("XLA_FLAGS", ""), directory=directory)
    return Settings(parse_xla_flags(text))
