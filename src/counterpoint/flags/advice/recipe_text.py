"""Settings as a TOML file: a user's own, or a recipe that comes with Counterpoint.

about = "One sentence."              # recipes: what it is for
source = "https://..."               # recipes: who recommends it
for = ["fsdp"]                       # recipes: kinds of parallelism, or "any"
goals = ["speed"]                    # recipes: what `flags recommend --goal` takes it for

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
[advice]                             # what is no setting
[left_out]                           # recipes: what the source has and this has not, and why
xla_gpu_enable_all_gather_combine_by_dim = "false is the default"

A line may say `reason`, `basis`, `source`, `known` (what came of it); when it holds: `since` and
`before` (releases of jaxlib), `chips` and `not_chips` (generations), `hosts`, `needed`; and what it
is about: `kinds` of collectives, `where` in the program.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from counterpoint.core.documents import parse_toml
from counterpoint.core.errors import InputError
from counterpoint.flags.advice.condition import FAMILIES, NEEDED, Condition
from counterpoint.flags.advice.recipe import Line, Recipe
from counterpoint.flags.channel import Channel
from counterpoint.flags.layout import Layout
from counterpoint.flags.settings import fault

_TABLES: Final = (
    *("about", "source", "for", "goals", "xla_flags", "env", "libtpu", "layout"),
    *("arguments", "kernel", "advice", "left_out"),
)
_SETTINGS: Final = ("xla_flags", "env", "libtpu")
_TEXTS: Final = ("reason", "basis", "source", "known", "where")
_CONDITION: Final = ("since", "before", "chips", "not_chips", "hosts", "needed")
_FIELDS: Final = frozenset({"value", "kinds", *_TEXTS, *_CONDITION})
_WORDS: Final = {
    "basis": ("documented", "measured", "rule of thumb"),
    "where": ("loop",),
    "chips": tuple(FAMILIES),
    "not_chips": tuple(FAMILIES),
    "hosts": ("one", "several"),
    "needed": NEEDED,
}
"""What these fields may say."""


def read_recipe(text: str, where: str) -> Recipe:
    """The settings in a TOML text; `where` is its file."""
    try:
        document = parse_toml(text)
    except ValueError as failure:
        raise InputError(
            f"{where}: not TOML: {failure}",
            next="put flags under [xla_flags] and variables under [env]",
        ) from None
    for key in document:
        if key not in _TABLES:
            raise InputError(
                f"{where}: `{key}` is not known there",
                why=f"known are {', '.join(_TABLES)}",
                next="put flags under [xla_flags] and variables under [env]",
            )
    if "XLA_FLAGS" in document.get("env", {}):
        raise InputError(f"{where}: XLA_FLAGS under [env]", next="write flags under [xla_flags]")

    def lines(table: str, channel: Channel = Channel.ENVIRONMENT) -> tuple[Line, ...]:
        found = _lines(document, table, where, channel)
        for line in found if table in _SETTINGS else ():
            if why := fault(line.name, line.value):
                raise InputError(f"{where}: {table}: {line.name!r} is not a setting", why=why)
        return found

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
        raise InputError(f"{where}: {key} is not a text: {value!r}")
    return value


def _texts(document: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    """A list of words, and of known ones where they count; one word is a list of one."""
    value: Any = document.get(key, [])
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not all(
        isinstance(one, str) for one in cast("list[Any]", found)
    ):
        raise InputError(f"{where}: {key} is not a list of texts: {value!r}")
    words = tuple(cast("list[str]", found))
    known = _WORDS.get(key)
    for word in words:
        if known and word not in known:
            raise InputError(
                f"{where}: {key} can't be {word!r}", why=f"known are {', '.join(known)}"
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
                f"{where}: layout.{name} = {value!r} is not known there",
                why=f"known are {', '.join(fields)}, as whole numbers",
            )
    return Layout(**cast("dict[str, int]", given))


def _lines(
    document: Mapping[str, Any], table: str, where: str, channel: Channel
) -> tuple[Line, ...]:
    entries = document.get(table, {})
    if not isinstance(entries, dict):
        raise InputError(f"{where}: {table} is not a table", next=f"write it as [{table}]")
    items = cast("dict[str, Any]", entries).items()
    return tuple(
        line
        for name, entry in items
        for line in _entries(name, entry, f"{where}: {table}.{name}", channel)
    )


def _entries(name: str, entry: Any, where: str, channel: Channel) -> list[Line]:  # noqa: ANN401
    """One name's lines: several where the value depends on release or chip."""
    if isinstance(entry, list) and entry and isinstance(entry[0], dict):
        return [_line(name, one, where, channel) for one in cast("list[Any]", entry)]
    return [_line(name, entry, where, channel)]


def _line(name: str, entry: Any, where: str, channel: Channel) -> Line:  # noqa: ANN401
    if not name.replace("_", "").replace(".", "").isalnum() or not name.isascii():
        raise InputError(f"{where}: not a name", next="names go without dashes and quotes")
    if not isinstance(entry, dict):
        return Line(name, _value(entry, where), channel=channel)
    fields = cast("dict[str, Any]", entry)
    if "value" not in fields or set(fields) - _FIELDS:
        raise InputError(
            f"{where}: a table with {', '.join(fields) or 'nothing'} in it",
            why=f"`value` and these are known: {', '.join(sorted(_FIELDS - {'value'}))}",
            next=f'{name} = {{ value = "...", reason = "..." }}',
        )
    said = {key: _word(fields, key, where) for key in _TEXTS}
    return Line(
        name,
        _value(fields["value"], where),
        said["reason"] or None,
        basis=said["basis"],
        source=said["source"],
        known=said["known"],
        condition=_condition(fields, where),
        channel=channel,
        kinds=_texts(fields, "kinds", where),
        where=said["where"],
    )


def _condition(fields: Mapping[str, Any], where: str) -> Condition:
    return Condition(
        since=_word(fields, "since", where) or None,
        before=_word(fields, "before", where) or None,
        chips=_texts(fields, "chips", where),
        not_chips=_texts(fields, "not_chips", where),
        hosts=_word(fields, "hosts", where),
        needed=_word(fields, "needed", where),
    )


def _word(fields: Mapping[str, Any], key: str, where: str) -> str:
    """One text, and a known one where it counts."""
    text = _text(fields, key, where)
    known = _WORDS.get(key)
    if text and known and text not in known:
        raise InputError(f"{where}: {key} can't be {text!r}", why=f"known are {', '.join(known)}")
    return text


def _value(value: Any, where: str) -> str:  # noqa: ANN401 - whatever TOML holds
    """As XLA and the environment write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, list):
        return ",".join(_value(item, where) for item in cast("list[Any]", value))
    raise InputError(
        f"{where}: can't be a value: {value!r}",
        why="values are texts, numbers, true, false, and lists of these",
    )
