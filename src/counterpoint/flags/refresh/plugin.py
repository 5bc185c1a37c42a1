"""A plugin's compiler: the options it was compiled with, compared with the known releases.

A plugin is a library with its own XLA, and compiles with its own DebugOptions. It should have its
jaxlib's version; otherwise, options of one are unknown to the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from counterpoint.flags.catalogue.flag import Flag, Release
from counterpoint.flags.catalogue.lookup import release, releases
from counterpoint.flags.refresh.descriptor import OptionField, read_fields


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginComparison:
    """A plugin compared with a release: options that only one of them has, or that differ."""

    shared_object: Path
    release: Release
    fields: int
    more: tuple[str, ...]  # options that only the plugin has
    fewer: tuple[str, ...]  # options that only the release has
    other: tuple[str, ...]  # of another type, or with other values

    @property
    def differences(self) -> int:
        """The number of options that differ."""
        return len(self.more) + len(self.fewer) + len(self.other)


def compare_plugin(
    library: Path, version: str | None = None, tell: Callable[[str], None] = lambda _: None
) -> PluginComparison:
    """Compare a plugin with a release; None: with the most similar known one."""
    tell(f"reading {library.name}")
    fields = read_fields(library)
    known = releases() if version is None else (version,)
    found = (_compare(library, fields, release(candidate)) for candidate in reversed(known))
    return min(found, key=lambda plugin: plugin.differences)  # the newest of equally similar ones


def _compare(library: Path, fields: tuple[OptionField, ...], known: Release) -> PluginComparison:
    plugin_fields = {field.name: field for field in fields}
    options = {name: flag for name, flag in known.flags.items() if _is_field(flag)}
    return PluginComparison(
        shared_object=library,
        release=known,
        fields=len(fields),
        more=tuple(sorted(plugin_fields.keys() - known.flags.keys())),
        fewer=tuple(sorted(options.keys() - plugin_fields.keys())),
        other=tuple(
            sorted(
                name
                for name in plugin_fields.keys() & options.keys()
                if _differs(plugin_fields[name], options[name])
            )
        ),
    )


def _is_field(flag: Flag) -> bool:
    return flag.compile_option or flag.type in ("message", "map")


def _differs(field: OptionField, flag: Flag) -> bool:
    kind = field.type.removesuffix("s") if field.type == "messages" else field.type
    return kind != flag.type or not set(flag.enum) <= set(field.enum.values())
