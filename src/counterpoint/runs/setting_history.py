"""Who set each flag and variable of a process, in order; the last write counts.

The texts of a variable are compared in their order: as passed to the command, as Python found it
(after launch scripts), and when the program and jax had changed it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, cast

from counterpoint.core.injection import FLAG_VARIABLES, PROGRAM, flag_pairs, flags_in
from counterpoint.core.printable import some
from counterpoint.runs.run import ObservedProcess, Rank, Run, RunSettings

__all__ = [
    "INHERITED",
    "REQUESTED",
    "SCRIPT",
    "SettingHistory",
    "compiling",
    "histories_in",
    "histories_of",
    "notes_of",
    "setting_histories",
]


REQUESTED: Final = "requested"
INHERITED: Final = "your environment"
SCRIPT: Final = "the launch script"
_SOURCES: Final = 6
_OURS: Final = ("xla_dump_to", "xla_dump_hlo_as_proto", "JAX_DUMP_IR_TO")


@dataclass(frozen=True, slots=True)
class SettingWrite:
    """A value of a flag or variable, and who set it; None unsets it."""

    value: str | None
    by: str


@dataclass(frozen=True, slots=True)
class SettingHistory:
    """All writes of one flag or variable in one process, in order; the last one counts.

    `variable` holds the flag, or is the name itself.
    """

    name: str
    variable: str
    writes: tuple[SettingWrite, ...]

    @property
    def last(self) -> SettingWrite:
        """The write that counts."""
        return self.writes[-1]

    @property
    def lost(self) -> SettingWrite | None:
        """The user's value, if another one counts in the end."""
        own = [write for write in self.writes if write.by in (REQUESTED, INHERITED)]
        return own[-1] if own and own[-1].value != self.last.value else None


def setting_histories(
    settings: RunSettings, process: ObservedProcess, rank: Rank | None = None
) -> tuple[SettingHistory, ...]:
    """Return the history of each flag and variable that the process is known to have.

    `rank` knows which inherited variables the settings replaced.
    """
    replaced = {} if rank is None else _replaced_variables(rank)
    return histories_of(facts_of(process), settings, process.facts.get("xla_flags"), replaced)


def _replaced_variables(rank: Rank) -> dict[str, str]:
    changed = rank.environment.get("changed")
    if not isinstance(changed, dict):
        return {}
    values_of = cast("Mapping[str, Sequence[object]]", changed).items()
    return {name: str(values[0]) for name, values in values_of if values}


def histories_of(
    facts: Mapping[str, object],
    settings: RunSettings,
    xla_flags: object,
    replaced: Mapping[str, str] = MappingProxyType({}),
) -> tuple[SettingHistory, ...]:
    """Return the same from the facts that `KeptVariables` has noted, and the final XLA_FLAGS.

    `replaced` are the inherited values of variables that the settings changed.
    """
    passed = texts_of(facts.get("passed"))
    writes = [_write(entry) for entry in _entries(facts.get("writes"))]
    at_start = texts_of(facts.get("at_start"))
    names = dict.fromkeys([*passed, *at_start, *(name for name, _ in writes)])
    final = texts_of(facts.get("values")) | texts_of({"XLA_FLAGS": xla_flags})
    histories: list[SettingHistory] = []
    for variable in names:
        later = [write for name, write in writes if name == variable]
        if variable in at_start:
            later.insert(0, SettingWrite(at_start[variable], SCRIPT))
        if variable in FLAG_VARIABLES:
            ended = flags_in(final.get(variable) or "", variable)
            text = passed.get(variable) or ""
            first = _passed_flags(variable, text, settings, replaced.get(variable, ""))
            histories += _of_flags(variable, first, later, ended, settings)
        elif variable not in _OURS:
            ended = final.get(variable)
            first = _passed(variable, passed.get(variable), settings, replaced.get(variable))
            histories.append(_of_variable(variable, first, later, ended, settings))
    return tuple(histories)


def _passed(
    name: str, passed: str | None, settings: RunSettings, replaced: str | None
) -> list[SettingWrite]:
    """Return the values of a variable before the command started."""
    wanted = dict(settings.env).get(name)
    writes: list[SettingWrite] = []
    if replaced is not None and wanted is not None:
        writes.append(SettingWrite(replaced, INHERITED))
    if passed is not None:
        writes.append(SettingWrite(passed, REQUESTED if wanted == passed else INHERITED))
    return writes


_Writes = dict[str, list[SettingWrite]]


def _passed_flags(variable: str, passed: str, settings: RunSettings, replaced: str) -> _Writes:
    """Return all values of each flag, repeats included, before the command started.

    Requested flags are appended to the inherited XLA_FLAGS; other variables are replaced.
    """
    pairs = flag_pairs(passed, variable)
    writes_of: _Writes = {}
    if variable == "XLA_FLAGS":
        requested = Counter(name for name, _ in settings.xla)
        left = Counter(name for name, _ in pairs)
        for name, value in pairs:
            by = REQUESTED if left[name] <= requested[name] else INHERITED
            left[name] -= 1
            writes_of.setdefault(name, []).append(SettingWrite(value, by))
        return writes_of
    wanted = dict(settings.env).get(variable)
    if wanted is not None and wanted == passed:
        for name, value in flag_pairs(replaced, variable):
            writes_of.setdefault(name, []).append(SettingWrite(value, INHERITED))
        for name in writes_of.keys() - dict(pairs).keys():
            writes_of[name].append(SettingWrite(None, REQUESTED))
    for name, value in pairs:
        by = REQUESTED if wanted == passed else INHERITED
        writes_of.setdefault(name, []).append(SettingWrite(value, by))
    return writes_of


def _of_variable(
    name: str,
    first: Sequence[SettingWrite],
    later: Sequence[SettingWrite],
    ended: str | None,
    settings: RunSettings,
) -> SettingHistory:
    wanted = dict(settings.env).get(name)
    is_kept = bool(later) and wanted is not None and ended == wanted
    kept = [SettingWrite(wanted, REQUESTED)] if is_kept else []
    return SettingHistory(name, name, (*first, *later, *kept))


def _of_flags(
    variable: str,
    writes_of: _Writes,
    later: Sequence[SettingWrite],
    ended: Mapping[str, str],
    settings: RunSettings,
) -> Iterator[SettingHistory]:
    wanted = dict(settings.xla)
    if variable != "XLA_FLAGS":
        wanted = flags_in(dict(settings.env).get(variable, ""), variable)
    kept = {name: value for name, value in wanted.items() if ended.get(name) == value}
    before = {
        name: writes[-1].value for name, writes in writes_of.items() if writes[-1].value is not None
    }
    for write in later:
        now = flags_in(write.value or "", variable)
        for name in {**before, **now}:
            if now.get(name) != before.get(name):
                writes_of.setdefault(name, []).append(SettingWrite(now.get(name), write.by))
        before = {**now, **kept}
    for name, value in kept.items():
        last = writes_of[name][-1].value if name in writes_of else None
        if value != last:
            writes_of.setdefault(name, []).append(SettingWrite(value, REQUESTED))
    for name, writes in writes_of.items():
        if name not in _OURS:
            yield SettingHistory(name, variable, tuple(writes))


def facts_of(process: ObservedProcess) -> Mapping[str, object]:
    facts = process.facts.get("settings")
    return cast("Mapping[str, object]", facts) if isinstance(facts, dict) else {}


def texts_of(value: object) -> dict[str, str | None]:
    if not isinstance(value, dict):
        return {}
    items = cast("Mapping[str, object]", value)
    return {name: text for name, text in items.items() if isinstance(text, str | None)}


def _entries(value: object) -> Iterator[Mapping[str, object]]:
    if isinstance(value, list):
        for entry in cast("Sequence[object]", value):
            if isinstance(entry, dict):
                yield cast("Mapping[str, object]", entry)


def _write(entry: Mapping[str, object]) -> tuple[str, SettingWrite]:
    value, by = entry.get("value"), entry.get("by")
    write = SettingWrite(value if isinstance(value, str) else None, str(by or PROGRAM))
    return str(entry.get("name")), write


def histories_in(run: Run, rank: int = 0) -> tuple[SettingHistory, ...]:
    """Return the same of the first process of a rank that compiled; empty if there is none."""
    for entry in run.ranks:
        if entry.number == rank:
            for process in compiling([entry]):
                return setting_histories(run.settings, process, entry)
    return ()


def history_notes(settings: RunSettings, ranks: Iterable[Rank]) -> tuple[str, ...]:
    """Return notes on where flags came from, and on the user's settings that another replaced."""
    notes = (
        note
        for rank in ranks
        for process in compiling([rank])
        for note in (
            *notes_of(setting_histories(settings, process, rank)),
            *_late_notes(process),
        )
    )
    return tuple(dict.fromkeys(notes))


def notes_of(histories: Sequence[SettingHistory]) -> Iterator[str]:
    """Yield the same for the histories of one process."""
    for history in histories:
        if history.lost is not None and history.lost.by == INHERITED:
            yield _replaced(history, history.lost)
    for variable in FLAG_VARIABLES:
        sources = Counter(
            history.last.by
            for history in histories
            if history.variable == variable and history.last.value is not None
        )
        if sources.keys() - {REQUESTED, INHERITED}:
            parts = ", ".join(
                f"{count} {'requested' if by == REQUESTED else f'from {by}'}"
                for by, count in sources.most_common(_SOURCES)
            )
            yield f"flags in {variable}: {parts}"


def _late_notes(process: ObservedProcess) -> Iterator[str]:
    """Yield what the program set after XLA had read its flags."""
    facts = facts_of(process)
    for variable, text in texts_of(facts.get("late")).items():
        read = process.facts.get("xla_flags") if variable == "XLA_FLAGS" else None
        known = flags_in(read if isinstance(read, str) else "", variable)
        late = flags_in(text or "", variable).items()
        flags = [f"--{name}={value}" for name, value in late if known.get(name) != value]
        if flags:
            yield (
                f"{some(flags, _SOURCES)}: set by the program after XLA had read {variable}, so in"
                " vain (set it before the first use of a device)"
            )


def _replaced(history: SettingHistory, lost: SettingWrite) -> str:
    name = history.name if history.name == history.variable else f"--{history.name}"
    by, value = history.last.by, history.last.value
    change = f"{by} removes it" if value is None else f"{by} sets it to {value or 'nothing'}"
    option = "--set" if history.name != history.variable else "--env"
    return (
        f"{name}={lost.value} of {INHERITED} does not count: {change} (to put yours last, pass it"
        f" with {option})"
    )


def compiling(ranks: Iterable[Rank]) -> Iterator[ObservedProcess]:
    """Yield the processes that compiled: their environment is what XLA read."""
    for rank in ranks:
        for process in rank.processes:
            compiles = process.facts.get("compiles")
            if isinstance(compiles, dict) and cast("Mapping[str, object]", compiles).get("count"):
                yield process
