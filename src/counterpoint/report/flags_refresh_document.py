"""`flags refresh` as a Document and as JSON: what was learnt, and what of it is news."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any, Final

from counterpoint.flags.catalogue.diff import Diff
from counterpoint.flags.catalogue.overlay import path_of
from counterpoint.flags.refresh.learnt import Learnt
from counterpoint.flags.refresh.plugin import Plugin
from counterpoint.report.document import (
    Column,
    Document,
    Fact,
    Facts,
    Kind,
    Section,
    Table,
    Tone,
    printable,
)
from counterpoint.report.flags_diff_document import diff_document, diff_json

SCHEMA: Final = "counterpoint.flags.refresh/1"


def refresh_document(learnt: Learnt, news: Diff, where: Path, plugin: Plugin | None) -> Document:
    """The report; `news` is from the nearest release that was known."""
    release = learnt.release
    flags = sum(flag.xla_flags for flag in release.flags.values())
    jax = f"{len(release.jax)} of jax {learnt.jax}" if learnt.jax else "no jax is there"
    facts = [
        Fact("jaxlib", learnt.version),
        Fact("library", printable(str(learnt.shared_object))),
        Fact("XLA_FLAGS", f"{flags} names"),
        Fact("compiler_options", f"{sum(f.compile_option for f in release.flags.values())} names"),
        Fact("JAX's options", jax, Tone.PLAIN if learnt.jax else Tone.WARNING),
        Fact("written to", printable(str(where))),
    ]
    compared = diff_document(news)
    title = "News" if news.before != news.after else "Other than known"
    first, *others = compared.sections
    sections = [
        Section("Learnt", f"jaxlib {learnt.version}", (Facts(tuple(facts)),)),
        Section(title, first.summary),
        *others,
    ]
    if plugin is not None:
        sections.append(plugin_section(plugin))
    return Document(
        sections=tuple(sections),
        legend=_kept(learnt.version, where),
        next=f"counterpoint flags list --jaxlib {learnt.version}",
    )


def _kept(version: str, where: Path) -> str:
    """What follows from it, where it was kept for the account, and how to be rid of it."""
    if where != path_of(version):
        return ""
    undo = shlex.join(["rm", str(where)])
    return f"All later commands of this account use it for jaxlib {version}. To undo: {undo}"


def plugin_document(plugin: Plugin) -> Document:
    """What a plugin alone says."""
    return Document(
        sections=(plugin_section(plugin),),
        legend="",
        next=f"counterpoint flags list --jaxlib {plugin.release.version}",
    )


def plugin_section(plugin: Plugin) -> Section:
    """A plugin beside a release."""
    told = f"{plugin.fields} options; those of jaxlib {plugin.release.version}"
    if not plugin.differences:
        return Section("Plugin", f"{told}, all of them", ())
    rows = [
        *((name, "in the plugin only") for name in plugin.more),
        *((name, "in jaxlib only") for name in plugin.fewer),
        *((name, "another type or other values") for name in plugin.other),
    ]
    table = Table(
        columns=(Column("option", Kind.WORD), Column("where", Kind.WORD)), rows=tuple(rows)
    )
    return Section("Plugin", f"{told} but for {plugin.differences}", (table,))


def refresh_json(learnt: Learnt, news: Diff, where: Path, plugin: Plugin | None) -> str:
    """The same as JSON; `news` as `flags diff` has it."""
    data: dict[str, Any] = {
        "schema": SCHEMA,
        "jaxlib": learnt.version,
        "jax": learnt.jax,
        "library": str(learnt.shared_object),
        "written_to": str(where),
        "flags": len(learnt.release.flags),
        "jax_options": len(learnt.release.jax),
        "news": json.loads(diff_json(news)),
        "plugin": None if plugin is None else plugin_data(plugin),
    }
    return json.dumps(data, indent=1) + "\n"


def plugin_json(plugin: Plugin) -> str:
    """A plugin alone as JSON."""
    data = {"schema": SCHEMA, "jaxlib": None, "plugin": plugin_data(plugin)}
    return json.dumps(data, indent=1) + "\n"


def plugin_data(plugin: Plugin) -> dict[str, Any]:
    """A plugin as JSON can hold it."""
    return {
        "library": str(plugin.shared_object),
        "jaxlib": plugin.release.version,
        "options": plugin.fields,
        "only_in_plugin": [*plugin.more],
        "only_in_jaxlib": [*plugin.fewer],
        "other": [*plugin.other],
    }
