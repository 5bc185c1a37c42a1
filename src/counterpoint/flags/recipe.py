"""Recipes: settings with a reason for each, for certain releases, chips and clusters.

All tables and fields, for a user's own file and for the recipes that ship:

    about = "One sentence."              # recipes: what it is for
    source = "https://..."               # recipes: who recommends it
    for = ["fsdp"]                       # recipes: kinds of parallelism, or "any"
    goals = ["speed"]                    # recipes: as in `flags recommend --goal`

    [xla_flags]                          # names without dashes
    xla_gpu_enable_triton_gemm = false
    xla_gpu_enable_command_buffer = { value = "", reason = "...", basis = "documented" }
    xla_gpu_pipeline_all_gather = { value = "on", reason = "...", since = "0.12" }

    [env]                                # JAX, NCCL, CUDA, allocator
    NCCL_DEBUG = "WARN"

    [libtpu]                             # flags for LIBTPU_INIT_ARGS
    [layout]                             # hosts, processes_per_host, gpus_per_process, ...
    [arguments]                          # of the training program
    [kernel]                             # sysctl, on each host
    [advice]                             # not a setting
    [left_out]                           # recipes: in the source, but not used here, and why

Fields of a line: `value`; `reason`, `basis`, `source`, `known` (the measured result) and its
`effect` (slower, faster); when it applies: `since` and `before` (releases of jaxlib), `chips` and
`not_chips` (generations), `hosts`, `needed`; what it affects: `kinds` of collectives, `where` in
the program. A list of such tables gives several lines for one name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

from counterpoint.core import InputError, parse_toml
from counterpoint.flags.observed import release_of, with_releases
from counterpoint.flags.settings import Channel, Layout, Settings, why_invalid
from counterpoint.flags.text import render_xla_flags
from counterpoint.flags.versions import lhs_flag_needed, version_number

__all__ = ["CHIP_GENERATIONS", "NEEDED", "Condition", "Recipe", "recipes", "settings_of"]

CHIP_GENERATIONS: Final = {
    "blackwell": re.compile(r"\bG?B\d{2,3}\b|\bRTX (50\d\d|PRO)"),
    "hopper": re.compile(r"\bG?H\d{2,3}\b"),
    "ada": re.compile(r"\b(L4|L40S?|RTX 40\d\d|RTX 6000 Ada)\b"),
    "ampere": re.compile(r"\bA(10|16|30|40|100|800)G?\b|\bRTX (30\d\d|A\d{4})\b"),
    "volta": re.compile(r"\b(V100S?|T4|P4|P40|P100)\b"),
    "amd": re.compile(r"\bMI\d{3}"),
    "tpu": re.compile(r"\bTPU|^v\d+[a-z]*$", re.IGNORECASE),
}
"""Patterns of chip names, by the generations that recipes refer to."""

_SPOKEN: Final = {"amd": "AMD", "tpu": "TPU", "volta": "older chips"}

NEEDED: Final = ("scheduler",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """The conditions under which a line of a recipe applies; all of them must hold.

    An unknown release counts as the newest, and a condition on an unknown chip or number of hosts
    as met. So does `needed="scheduler"`: setting the scheduler's flag where the scheduler runs
    anyway changes nothing, but leaving it out where it does not run costs the overlap.
    """

    since: str | None = None  # the oldest jaxlib
    before: str | None = None  # the oldest jaxlib to which it no longer applies
    chips: tuple[str, ...] = ()  # generations; empty: all of them
    not_chips: tuple[str, ...] = ()
    hosts: str = ""  # "one" or "several"
    needed: str = ""  # "scheduler": only if nothing else enables the scheduler

    def why_not(
        self, version: str | None, chip: str | None, hosts: int | None = None
    ) -> str | None:
        """Return why the condition does not hold; None if it does."""
        release, kind = version_number(version), chip_generation(chip)
        if self.since is not None and release < version_number(self.since):
            return f"requires jaxlib {self.since}"
        if self.before is not None and release >= version_number(self.before):
            return f"only before jaxlib {self.before}"
        if kind is not None and (kind in self.not_chips or (self.chips and kind not in self.chips)):
            return f"not for {chip}"
        if hosts is not None and self.hosts and (hosts > 1) != (self.hosts == "several"):
            return "for one host only" if self.hosts == "one" else "for several hosts only"
        if self.needed == "scheduler" and not lhs_flag_needed(version, chip):
            return f"runs by default on {chip}"
        return None

    def is_default(self, version: str | None, chip: str | None, hosts: int | None = None) -> bool:
        """Return whether it does not hold only because the scheduler runs by default."""
        if self.why_not(version, chip, hosts) is None:
            return False
        return bool(self.needed) and replace(self, needed="").why_not(version, chip, hosts) is None

    def unsettled(self, chip: str | None) -> str | None:
        """Return which chips it is for, if the chip is unknown and it is not for all of them."""
        if chip_generation(chip) is not None or not (self.chips or self.not_chips):
            return None
        named = self.chips or self.not_chips
        words = ", ".join(_SPOKEN.get(generation, generation.capitalize()) for generation in named)
        return f"only on {words}" if self.chips else f"not on {words}"


def chip_generation(chip: str | None) -> str | None:
    """Return the generation of a chip, by its name; None if unknown."""
    if chip is None:
        return None
    return next((name for name, pattern in CHIP_GENERATIONS.items() if pattern.search(chip)), None)


@dataclass(frozen=True, slots=True)
class RecipeLine:
    """One setting of a recipe. `basis`: documented, measured or rule of thumb."""

    name: str
    value: str
    reason: str | None = None
    basis: str = ""
    source: str = ""  # empty: the recipe's
    known: str = ""  # the result, where somebody measured it
    effect: str = ""  # of it: "slower" or "faster"
    condition: Condition = field(default_factory=Condition)
    channel: Channel = Channel.XLA_FLAGS
    kinds: tuple[str, ...] = ()  # the collectives it is about; empty: not about collectives
    where: str = ""  # "loop": it changes only what is in a loop


@dataclass(frozen=True, slots=True)
class Recipe:
    """Settings with their purpose and source.

    `arguments` (of the training program), `kernel` (sysctl settings) and `advice` are not part of
    the Settings, because only the reader can apply them.

    `workloads` are the kinds of parallelism for which `flags recommend` uses it, `any` for all; if
    empty, it is used by name only.
    """

    name: str
    about: str = ""
    source: str = ""
    flags: tuple[RecipeLine, ...] = ()
    variables: tuple[RecipeLine, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    libtpu: tuple[RecipeLine, ...] = ()
    arguments: tuple[RecipeLine, ...] = ()
    kernel: tuple[RecipeLine, ...] = ()
    advice: tuple[RecipeLine, ...] = ()
    layout: Layout | None = None
    workloads: tuple[str, ...] = ()
    goals: tuple[str, ...] = ()

    @property
    def lines(self) -> tuple[RecipeLine, ...]:
        """All settings, for every release and chip."""
        return (*self.flags, *self.variables, *self.libtpu)

    @property
    def settings(self) -> Settings:
        """The settings for the newest release, on any chip."""
        return self.resolve()

    def lines_for(
        self, version: str | None, chip: str | None, hosts: int | None = None
    ) -> tuple[RecipeLine, ...]:
        """Return the settings for this release of jaxlib, chip and number of hosts."""
        return tuple(
            line for line in self.lines if line.condition.why_not(version, chip, hosts) is None
        )

    def resolve(
        self, version: str | None = None, chip: str | None = None, hosts: int | None = None
    ) -> Settings:
        """Return the Settings for this release of jaxlib, chip and number of hosts."""
        return settings_of(self.lines_for(version, chip, hosts), self.layout)


def settings_of(lines: tuple[RecipeLine, ...], layout: Layout | None = None) -> Settings:
    """Combine lines into Settings; libtpu's flags go into their variable."""

    def through(channel: Channel) -> tuple[tuple[str, str], ...]:
        return tuple((line.name, line.value) for line in lines if line.channel is channel)

    tpu = render_xla_flags(through(Channel.LIBTPU_INIT_ARGS))
    env = (*through(Channel.ENVIRONMENT), *((("LIBTPU_INIT_ARGS", tpu),) if tpu else ()))
    return Settings(through(Channel.XLA_FLAGS), env, layout=layout)


@cache
def recipes() -> Mapping[str, Recipe]:
    """Return all recipes that come with Counterpoint, by name."""
    directory = Path(__file__).with_name("recipes")
    files = {entry.name: entry for entry in directory.iterdir()}
    known = (
        read_recipe(files[name].read_text("utf-8"), name)
        for name in sorted(files)
        if name.endswith(".toml")
    )
    return {recipe.name: recipe for recipe in known}


_TABLES: Final = (
    *("about", "source", "for", "goals", "xla_flags", "env", "libtpu", "layout"),
    *("arguments", "kernel", "advice", "left_out"),
)
_SETTINGS: Final = ("xla_flags", "env", "libtpu")
_TEXTS: Final = ("reason", "basis", "source", "known", "effect", "where")
_CONDITION: Final = ("since", "before", "chips", "not_chips", "hosts", "needed")
_FIELDS: Final = frozenset({"value", "kinds", *_TEXTS, *_CONDITION})
_WORDS: Final = {
    "basis": ("documented", "measured", "rule of thumb"),
    "effect": ("slower", "faster"),
    "where": ("loop",),
    "chips": tuple(CHIP_GENERATIONS),
    "not_chips": tuple(CHIP_GENERATIONS),
    "hosts": ("one", "several"),
    "needed": NEEDED,
}
"""The values that these fields accept."""


def read_recipe(text: str, where: str) -> Recipe:
    """Read the settings in a TOML text, as the module describes it; `where` is its file."""
    try:
        document = parse_toml(text)
    except ValueError as failure:
        raise InputError(
            f"{where}: not a TOML file: {failure}",
            next="put flags under [xla_flags] and variables under [env]",
        ) from None
    for key in document:
        if key not in _TABLES:
            raise InputError(
                f"{where}: unknown key `{key}`",
                why=f"known keys: {', '.join(_TABLES)}",
                next="put flags under [xla_flags] and variables under [env]",
            )
    if "XLA_FLAGS" in document.get("env", {}):
        raise InputError(f"{where}: XLA_FLAGS under [env]", next="write flags under [xla_flags]")

    def lines(table: str, channel: Channel = Channel.ENVIRONMENT) -> tuple[RecipeLine, ...]:
        listed = _lines(document, table, where, channel)
        for line in listed if table in _SETTINGS else ():
            if why := why_invalid(line.name, line.value):
                raise InputError(f"{where}: {table}: {line.name!r} is not a setting", why=why)
        return listed

    return Recipe(
        where.rpartition("/")[2].removesuffix(".toml"),
        about=_text(document, "about", where),
        source=_text(document, "source", where),
        flags=lines("xla_flags", Channel.XLA_FLAGS),
        variables=lines("env"),
        left_out=tuple((line.name, line.value) for line in lines("left_out")),
        libtpu=lines("libtpu", Channel.LIBTPU_INIT_ARGS),
        arguments=lines("arguments"),
        kernel=lines("kernel"),
        advice=lines("advice"),
        layout=_layout(document, where),
        workloads=_texts(document, "for", where),
        goals=_texts(document, "goals", where),
    )


def _text(document: Mapping[str, Any], key: str, where: str) -> str:
    value = document.get(key, "")
    if not isinstance(value, str):
        raise InputError(f"{where}: {key} is not a string: {value!r}")
    return value


def _texts(document: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    """Return a list of words, restricted to known ones for some keys; one word is a list of one."""
    value: Any = document.get(key, [])
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not all(
        isinstance(item, str) for item in cast("list[Any]", items)
    ):
        raise InputError(f"{where}: {key} is not a list of strings: {value!r}")
    words = tuple(cast("list[str]", items))
    known = _WORDS.get(key)
    for word in words:
        if known and word not in known:
            raise InputError(
                f"{where}: invalid {key} {word!r}", why=f"accepted: {', '.join(known)}"
            )
    return words


def _layout(document: Mapping[str, Any], where: str) -> Layout | None:
    given = document.get("layout")
    if given is None:
        return None
    fields = tuple(Layout.__dataclass_fields__)
    if not isinstance(given, dict):
        raise InputError(f"{where}: layout is not a table", next="write it as [layout]")
    for name, value in cast("dict[str, Any]", given).items():
        if name not in fields or not isinstance(value, int) or isinstance(value, bool):
            raise InputError(
                f"{where}: invalid layout.{name} = {value!r}",
                why=f"accepted: {', '.join(fields)}, as integers",
            )
    return Layout(**cast("dict[str, int]", given))


def _lines(
    document: Mapping[str, Any], table: str, where: str, channel: Channel
) -> tuple[RecipeLine, ...]:
    entries = document.get(table, {})
    if not isinstance(entries, dict):
        raise InputError(f"{where}: {table} is not a table", next=f"write it as [{table}]")
    items = cast("dict[str, Any]", entries).items()
    return tuple(
        line
        for name, entry in items
        for line in _entries(name, entry, f"{where}: {table}.{name}", channel)
    )


def _entries(name: str, entry: Any, where: str, channel: Channel) -> list[RecipeLine]:  # noqa: ANN401
    """Return one name's lines: several if the value depends on release or chip."""
    if isinstance(entry, list) and entry and isinstance(entry[0], dict):
        return [_line(name, row, where, channel) for row in cast("list[Any]", entry)]
    return [_line(name, entry, where, channel)]


def _line(name: str, entry: Any, where: str, channel: Channel) -> RecipeLine:  # noqa: ANN401
    if not name.replace("_", "").replace(".", "").isalnum() or not name.isascii():
        raise InputError(f"{where}: not a name", next="names go without dashes and quotes")
    if not isinstance(entry, dict):
        return RecipeLine(name, _value(entry, where), channel=channel)
    fields = cast("dict[str, Any]", entry)
    if "value" not in fields or set(fields) - _FIELDS:
        raise InputError(
            f"{where}: a table with {', '.join(fields) or 'nothing'} in it",
            why=f"the known keys are `value` and: {', '.join(sorted(_FIELDS - {'value'}))}",
            next=f'{name} = {{ value = "...", reason = "..." }}',
        )
    texts = {key: _word(fields, key, where) for key in _TEXTS}
    return RecipeLine(
        name,
        _value(fields["value"], where),
        with_releases(texts["reason"]) or None,
        basis=texts["basis"],
        source=texts["source"],
        known=texts["known"],
        effect=texts["effect"],
        condition=_condition(fields, where),
        channel=channel,
        kinds=_texts(fields, "kinds", where),
        where=texts["where"],
    )


def _condition(fields: Mapping[str, Any], where: str) -> Condition:
    return Condition(
        since=release_of(_word(fields, "since", where)) or None,
        before=release_of(_word(fields, "before", where)) or None,
        chips=_texts(fields, "chips", where),
        not_chips=_texts(fields, "not_chips", where),
        hosts=_word(fields, "hosts", where),
        needed=_word(fields, "needed", where),
    )


def _word(fields: Mapping[str, Any], key: str, where: str) -> str:
    """Return one text, restricted to known ones for some keys."""
    text = _text(fields, key, where)
    known = _WORDS.get(key)
    if text and known and text not in known:
        raise InputError(f"{where}: invalid {key} {text!r}", why=f"accepted: {', '.join(known)}")
    return text


def _value(value: Any, where: str) -> str:  # noqa: ANN401 - whatever TOML holds
    """Return the value as XLA and the environment spell it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, list):
        return ",".join(_value(item, where) for item in cast("list[Any]", value))
    raise InputError(
        f"{where}: invalid value {value!r}",
        why="values are strings, numbers, booleans, and lists of these",
    )
