"""The report of `flags show`: facts from the release first, then what is documented."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from typing import Final

from counterpoint.flags.catalogue.about import ReadingProgram
from counterpoint.flags.catalogue.libtpu import libtpu_flag
from counterpoint.flags.catalogue.lookup import releases
from counterpoint.flags.history import FlagChange, FlagState, release_added, state_of
from counterpoint.flags.lifecycle import LifecycleStatus, consequence_of_rejection, lifecycle_of
from counterpoint.flags.settings import Channel
from counterpoint.flags.showing import ChannelVerdict, SettingDescription
from counterpoint.flags.text import render_xla_flags
from counterpoint.flags.tried import crashed_steps
from counterpoint.report.catalogue.catalogue_document import release_notes
from counterpoint.report.document import Block, Document, Fact, FactList, Prose, Section, Tone

_XLA: Final = (ReadingProgram.XLA, ReadingProgram.COMPILE)
_EMPTY: Final = '""'
_NOT_CHECKED: Final = Fact("not checked", "No list of accepted values.", Tone.QUIET)


def show_document(shown: SettingDescription) -> Document:
    """Return all that is known of a setting."""
    notes = [Prose(note, Tone.WARNING) for note in release_notes(shown.release)]
    sections = [Section(shown.name, _summary(shown), (*notes, FactList(_release_facts(shown))))]
    if shown.value is not None:
        rows = tuple(_verdict(shown, verdict) for verdict in shown.verdicts) or (_NOT_CHECKED,)
        sections.append(Section("Value", shown.value or "empty", (FactList(rows),)))
    sections.append(_text(shown))
    related = tuple(_related(shown))
    if related:
        sections.append(Section("See also", "", (FactList(related),)))
    return Document(
        sections=tuple(sections),
        legend="Types, defaults and history are read from the releases; the rest is from the listed"
        " sources.",
        next=_next(shown),
    )


def _summary(shown: SettingDescription) -> str:
    version = shown.release.version
    if shown.reader not in _XLA:
        absent = {FlagState.GONE: "no longer", FlagState.NEWER: "not yet"}.get(shown.state)
        if absent is not None:
            return f"{absent} read by {shown.reader} in jaxlib {version}"
        return (
            f"read by {shown.reader}"
            if shown.state is not FlagState.UNREAD
            else "not read by any program"
        )
    return {
        FlagState.TAKEN: f"in jaxlib {version}",
        FlagState.NO_OP: f"accepted and ignored in XLA_FLAGS of jaxlib {version}",
        FlagState.ALIAS: f"an old name in jaxlib {version}",
        FlagState.OPTION: f"only a compiler option in jaxlib {version}, not in XLA_FLAGS",
        FlagState.NEWER: f"not yet in jaxlib {version}",
        FlagState.GONE: f"not in jaxlib {version}",
        FlagState.UNREAD: "not read by any program",
    }[shown.state if shown.reader is not ReadingProgram.COMPILE else FlagState.OPTION]


def _release_facts(shown: SettingDescription) -> tuple[Fact, ...]:
    rows: list[Fact | None] = [
        _fact("type", _type(shown)),
        _fact("default", _default(shown)),
        _fact("values", _values(shown)),
        *(_channel(shown, channel) for channel in _channels(shown)),
        _fact("set it in", _place(shown)),
        _fact("since", _since(shown)),
        _fact("until", _until(shown)),
        *_changes(shown),
        _fact("use", ", ".join(_with_release(shown, name) for name in shown.use)),
    ]
    return tuple(row for row in rows if row is not None)


def _newer(shown: SettingDescription, name: str) -> str | None:
    """Return the release that added a name, if the one shown is older."""
    is_newer = state_of(name, shown.release) is FlagState.NEWER
    return release_added(name) if is_newer else None


def _with_release(shown: SettingDescription, name: str) -> str:
    added = _newer(shown, name)
    return f"{name} (from jaxlib {added} on)" if added else name


def _fact(label: str, text: str | None, tone: Tone = Tone.PLAIN) -> Fact | None:
    return Fact(label, text, tone) if text else None


def _type(shown: SettingDescription) -> str | None:
    if shown.flag is not None:
        return shown.flag.type
    return shown.variable.type if shown.variable and shown.variable.type != "none" else None


def _default(shown: SettingDescription) -> str | None:
    if shown.flag is not None and shown.flag.alias_of:
        return f"none; it sets {shown.flag.alias_of}"
    if shown.default is None:
        return None
    known = shown.flag is not None or shown.name in shown.release.jax
    where = f" (jaxlib {shown.release.version})" if known else " (documented)"
    return f"{shown.default or _EMPTY}{where}"


def _values(shown: SettingDescription) -> str | None:
    values = shown.flag.values if shown.flag is not None else ()
    values = values or (shown.variable.values if shown.variable else ())
    return ", ".join(values)


def _channels(shown: SettingDescription) -> tuple[Channel, ...]:
    if shown.reader not in _XLA:
        return ()
    return Channel.XLA_FLAGS, Channel.COMPILER_OPTIONS


def _channel(shown: SettingDescription, channel: Channel) -> Fact:
    option = channel is Channel.COMPILER_OPTIONS
    flag = shown.flag
    if flag is None and shown.reader is ReadingProgram.COMPILE:
        return Fact(str(channel), "accepted" if option else "unknown: XLA aborts")
    if flag is not None and (flag.compile_option if option else flag.xla_flags):
        if flag.no_op and not option:  # an option sets the field without the parser
            return Fact(str(channel), "accepted and ignored", Tone.WARNING)
        if option and shown.about is not None and shown.about.process_only:
            text = "accepted without effect: it is read from the flags of the process"
            return Fact(str(channel), text, Tone.WARNING)
        return Fact(str(channel), "accepted; deprecated" if flag.deprecated else "accepted")
    end = consequence_of_rejection(channel)
    lifecycle = lifecycle_of(shown.name, shown.release, channel)
    words = " ".join(word for word in (_clause(lifecycle.when), lifecycle.what) if word)
    text = (
        f"unknown: {end}. {words}"
        if lifecycle.kind is not LifecycleStatus.KNOWN
        else f"unknown: {end}"
    )
    return Fact(str(channel), text.strip(), Tone.WARNING)


def _clause(text: str) -> str:
    return f"{text}." if text else ""


def _place(shown: SettingDescription) -> str | None:
    name = shown.name
    return {
        ReadingProgram.JAX: f'the environment, or jax.config.update("{name.lower()}", ...)',
        ReadingProgram.CLIENT: "the environment, before JAX first uses a GPU",
        ReadingProgram.LOG: "the environment, before jax is imported",
        ReadingProgram.NCCL: "the environment, or /etc/nccl.conf; the same on all ranks",
        ReadingProgram.CUDA: "the environment, before CUDA starts",
        ReadingProgram.LIBTPU: _place_of_libtpu(name),
        ReadingProgram.LEVANTER: f"Levanter's command line (--{name}) or its YAML",
        ReadingProgram.KERNEL: "the host, or the container if it has its own network",
    }.get(shown.reader)


def _place_of_libtpu(name: str) -> str:
    variable = f'LIBTPU_INIT_ARGS="--{name}=..."'
    flag = libtpu_flag(name)
    if flag is None:
        return variable
    if flag.per_compile:
        return f"{variable}; or compiler_options, for one compile"
    return f"{variable}, for the whole process only: no compile takes it as an option"


def _since(shown: SettingDescription) -> str | None:
    if shown.history is not None:
        added = release_added(shown.name)
        return f"jaxlib {added}" if added else f"jaxlib {releases()[0]} or older"
    if shown.variable is None or shown.variable.since is None:
        return None
    reader = "jaxlib" if shown.variable.by_jaxlib else str(shown.variable.reader)
    return f"{reader} {shown.variable.since}"


def _until(shown: SettingDescription) -> str | None:
    if shown.history is not None and shown.history.last is not None:
        return f"jaxlib {shown.history.last}; {shown.history.since} does not accept it in XLA_FLAGS"
    went = [change.version for change in all_changes(shown) if change.what == "removed"]
    if shown.reader is ReadingProgram.JAX and went:
        return f"before jaxlib {went[-1]}"
    if shown.history is None and shown.gone is not None:
        return shown.gone.history
    if shown.variable is None or shown.variable.until is None:
        return None
    return f"before {shown.variable.until}"


def all_changes(shown: SettingDescription) -> tuple[FlagChange, ...]:
    """Return every change of a setting in the known releases."""
    return shown.history.changes if shown.history else ()


def _changes(shown: SettingDescription) -> Iterator[Fact]:
    """Yield what changed by release, other than addition and removal."""
    by_release: dict[str, list[FlagChange]] = {}
    for change in all_changes(shown):
        if change.what not in ("added", "removed"):
            by_release.setdefault(change.version, []).append(change)
    for version, group in by_release.items():
        renamed = next(
            (change.after for change in group if change.what == "alias_of" and change.after), None
        )
        shown_changes = [
            change for change in group if change.what not in ("alias_of", "default") or not renamed
        ]
        words = [f"an old name of {renamed}"] if renamed else []
        words += [_change(change) for change in shown_changes]
        yield Fact(f"in {version}", "; ".join(words))


def _change(change: FlagChange) -> str:
    """Describe one change in a few words; for lists, only the values added and removed."""
    yes = change.after == "true"
    text = {
        "xla_flags": "in XLA_FLAGS" if yes else "no longer in XLA_FLAGS",
        "compile_option": "a compiler option" if yes else "no longer a compiler option",
        "no_op": "no effect" if yes else "has an effect",
        "deprecated": "deprecated" if yes else "no longer deprecated",
    }.get(change.what)
    if text is not None:
        return text
    before, after = change.before.split(","), change.after.split(",")
    if change.what in ("values", "enum") or len(before) > 1 or len(after) > 1:
        came = [f"+{item}" for item in after if item and item not in before]
        went = [f"-{item}" for item in before if item and item not in after]
        return f"{change.what} {' '.join([*came, *went])}"
    return f"{change.what.replace('_', ' ')} {change.before or _EMPTY} -> {change.after or _EMPTY}"


def _verdict(shown: SettingDescription, verdict: ChannelVerdict) -> Fact:
    label = str(verdict.channel) if verdict.channel else str(shown.reader)
    if not verdict.taken and not verdict.takes and verdict.meant is None:
        return Fact(label, _absent(verdict), Tone.WARNING)
    end = (
        f"; {consequence_of_rejection(verdict.channel)}" if verdict.ends and verdict.channel else ""
    )
    if verdict.meant is not None:
        return Fact(label, f"spelled {verdict.meant or _EMPTY} there")
    if not verdict.taken:
        return Fact(label, f"rejected{end}; it accepts {verdict.takes}", Tone.WARNING)
    return Fact(label, "accepted; this is the default" if verdict.is_default else "accepted")


def _absent(verdict: ChannelVerdict) -> str:
    """Return what happens with a name that the release does not accept, and its replacement."""
    parts = [consequence_of_rejection(verdict.channel)] if verdict.ends and verdict.channel else []
    if verdict.is_default:
        parts.append("remove it: this is now the default")
    elif verdict.instead:
        parts.append(f"use {render_xla_flags(verdict.instead)}")
    return "; ".join(parts) or "no effect"


def _text(shown: SettingDescription) -> Section:
    about = shown.about
    if about is None:
        known = "the facts of the release are" if shown.reader in _XLA else "its reader is"
        note = f"Counterpoint has no description of it; only {known} shown."
        return Section("What it does", "", (Prose(note, Tone.QUIET),))
    blocks: list[Block] = [Prose(about.does)]
    rows: list[Fact | None] = [
        _fact("trade-off", about.trades),
        _fact("for", ", ".join(about.workloads)),
        _fact("related", ", ".join(_with_release(shown, name) for name in about.needs)),
        *(Fact("note", text) for text in about.notes_for(shown.release.version, shown.chip)),
        *(Fact("source", url, Tone.QUIET) for url in about.sources),
    ]
    blocks.append(FactList(tuple(row for row in rows if row is not None)))
    return Section("What it does", "", tuple(blocks))


def _related(shown: SettingDescription) -> Iterable[Fact]:
    for name, what in shown.recipes:
        yield Fact("recipe", f"{name}: {what}")
    for code, title in shown.rules:
        yield Fact("rule", f"{code}: {title}")
    for title, values in shown.pages:
        given = f": {' or '.join(value or 'empty' for value in values)}" if values else ""
        yield Fact("page", f"{title}{given}")


def _next(shown: SettingDescription) -> str:
    if shown.use and shown.use[0] != shown.name and not _newer(shown, shown.use[0]):
        return f"counterpoint flags show {shlex.quote(shown.use[0])}"
    recipe, line = next(
        ((name, what) for name, what in shown.recipes if not what.startswith("left out")),
        (None, ""),
    )
    if recipe is not None and shown.reader is ReadingProgram.LEVANTER:
        return f"counterpoint flags render {recipe}"
    value = line.partition("=")[2]
    if recipe is not None and crashed_steps(shown.name, value, shown.release.version):
        return f"counterpoint predict --target 8xH100 --candidate {recipe} -- python train.py"
    if recipe is not None:
        return f"counterpoint run --settings {recipe} -- python train.py"
    return "counterpoint flags list --grep " + shlex.quote(shown.name.rpartition("_")[2])
