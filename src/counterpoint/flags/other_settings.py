"""Settings beside the listed flags: NCCL's, JAX's, libtpu's, trainers', and flags that are gone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from counterpoint.flags.catalogue.about import ReadingProgram
from counterpoint.flags.catalogue.flag import Release
from counterpoint.flags.catalogue.libtpu import libtpu_names
from counterpoint.flags.catalogue.lookup import names_ever
from counterpoint.flags.catalogue.variable import arguments, nccl_names, variables
from counterpoint.flags.lifecycle import all_removals

__all__ = ["OtherSetting", "other_settings"]


@dataclass(frozen=True, slots=True)
class OtherSetting:
    """A setting that `flags show` describes. `does` is empty if only its name is known."""

    name: str
    reader: ReadingProgram
    does: str


def other_settings(
    text: str, release: Release, does: Mapping[str, str]
) -> tuple[OtherSetting, ...]:
    """Return all settings with the text in their name or description, the described ones first."""
    wanted = text.lower()
    known = {name: setting.reader for name, setting in {**variables(), **arguments()}.items()}
    readers = {
        **dict.fromkeys([*names_ever(), *all_removals(), *release.flags], ReadingProgram.XLA),
        **dict.fromkeys(libtpu_names(), ReadingProgram.LIBTPU),
        **dict.fromkeys(nccl_names(), ReadingProgram.NCCL),
        **dict.fromkeys(release.jax, ReadingProgram.JAX),
        **known,
    }
    settings = (
        OtherSetting(name, reader, does.get(name, ""))
        for name, reader in readers.items()
        if wanted in name.lower() or wanted in does.get(name, "").lower()
    )
    return tuple(sorted(settings, key=lambda setting: (not setting.does, setting.name)))
