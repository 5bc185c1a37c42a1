"""`counterpoint flags list`, `show`, `diff` and `effective`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, Literal

from cyclopts import Parameter

from counterpoint.cli.flags_advice import FormName, render_flags
from counterpoint.cli.options import Jaxlib, Json
from counterpoint.cli.printing import print_report, say_line, write_result
from counterpoint.cli.settings_source import checked_chip
from counterpoint.core import ArgumentError, UsageError
from counterpoint.flags.catalogue.about import all_documentation
from counterpoint.flags.catalogue.flag import Release
from counterpoint.flags.catalogue.lookup import release as nearest_release
from counterpoint.flags.catalogue.lookup import releases
from counterpoint.flags.effective import EffectiveFlag, FlagOutcome, compare, differences
from counterpoint.flags.history import FlagFilter, ListedFlag, listing, require_earlier
from counterpoint.flags.history import diff as diff_releases
from counterpoint.flags.jaxlib import chosen_release
from counterpoint.flags.lifecycle import replacements
from counterpoint.flags.named_files import AllowedFiles
from counterpoint.flags.other_settings import OtherSetting, other_settings
from counterpoint.flags.parse.source import read_source, read_variables
from counterpoint.flags.settings import Channel, Settings
from counterpoint.flags.showing import show as look_up
from counterpoint.flags.versions import PROFILE, version_number
from counterpoint.pgle.compiler_log import ProfileUse
from counterpoint.report.catalogue.catalogue_document import (
    diff_document,
    list_document,
)
from counterpoint.report.catalogue.flags_json import (
    diff_json,
    list_json,
    show_json,
)
from counterpoint.report.catalogue.show_document import all_changes, show_document
from counterpoint.report.flags.settings_document import (
    EffectiveFlags,
    effective_document,
    next_command,
    unread_lines,
)
from counterpoint.report.flags.settings_json import effective_json
from counterpoint.runs.reports import CompilerReport, jaxlib_of, read_compiler_report, variables_of
from counterpoint.runs.run import Run
from counterpoint.runs.setting_history import histories_in


def list_flags(
    *,
    jaxlib: Jaxlib = None,
    changed_since: str | None = None,
    grep: str = "",
    channel: Literal["XLA_FLAGS", "compiler_options", "environment"] | None = None,
    all: bool = False,
    json: Json = False,
) -> None:
    """List XLA's flags with their types and defaults.

    Args:
        changed_since: Only flags that were added, removed or changed after this release.
        grep: Only flags with this text in their name or description, and all other settings
            with it: NCCL's, JAX's, libtpu's, flags that are gone.
        channel: Only flags of this channel; `environment`: JAX's own options.
        all: Also flags that a GPU does not read, that have no effect or are deprecated, JAX's
            options, and flags of earlier releases.
    """
    release = chosen_release(jaxlib)
    since = None if changed_since is None else _beginning(changed_since)
    wanted = FlagFilter(
        channel=None if channel is None else Channel(channel),
        text=grep,
        changed_since=since,
        everything=all,
    )
    require_earlier(since, release)
    does = {name: about.does for name, about in all_documentation().items()}
    found = listing(release, wanted, does)
    others = _beside(found, wanted, release, does)
    if json:
        write_result(list_json(found, others, release, wanted, does))
    else:
        print_report(list_document(found, others, release, wanted, does))


def _beside(
    found: Sequence[ListedFlag], wanted: FlagFilter, release: Release, does: Mapping[str, str]
) -> tuple[OtherSetting, ...]:
    """Return other settings with the text that is looked for; none if only flags are asked for."""
    if not wanted.text or wanted.channel is not None or wanted.changed_since is not None:
        return ()
    listed = {entry.flag.name for entry in found}
    others = other_settings(wanted.text, release, does)
    return tuple(setting for setting in others if setting.name not in listed)


def _beginning(asked: str) -> str:
    """Return the release meant as a lower bound: 0.9 is the first of its series."""
    try:
        newest = chosen_release(asked).version
    except ArgumentError as error:
        error.rename("--jaxlib", "--changed-since")
        raise
    wanted = version_number(asked.strip().removeprefix("v"))
    return next(
        (known for known in releases() if version_number(known)[: len(wanted)] == wanted), newest
    )


def show(
    name: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    jaxlib: Jaxlib = None,
    chip: str | None = None,
    json: Json = False,
) -> None:
    """Describe a setting: its effect, its cost, where it is accepted, and its history.

    Args:
        name: A flag of XLA, an option of JAX, a variable of NCCL, CUDA or the allocator, a flag of
            libtpu, an option of Levanter. With `=value`, the value is checked, too.
        chip: Show only notes for this chip: H100, A100, MI300X.
    """
    shown = look_up(name, chosen_release(jaxlib), checked_chip(chip))
    if json:
        write_result(show_json(shown, tuple(all_changes(shown))))
    else:
        print_report(show_document(shown))


def diff(
    before: str,
    after: str | None = None,
    /,
    *,
    json: Json = False,
) -> None:
    """Compare two releases: flags added, removed, renamed, or with another default, type or values.

    Args:
        before: A release of jaxlib.
        after: Another one; by default the installed one, or else the newest known.
    """
    earlier, later = (
        _release_of(text, [before, *([after] if after is not None else [])])
        for text in (before, after)
    )
    found = diff_releases(earlier, later, replacements(earlier, later))
    if json:
        write_result(diff_json(found))
    else:
        print_report(diff_document(found))


def _release_of(text: str | None, given: Sequence[str]) -> Release:
    """Return a release that is an argument, and not the option --jaxlib."""
    try:
        return chosen_release(text)
    except ArgumentError as error:
        known = [f"{error.instead}" if each == text else each for each in given]
        raise UsageError(
            f"{error.value}: {error.problem} of jaxlib",
            why=error.why,
            next=shlex.join(["counterpoint", "flags", "diff", *known]),
        ) from None


def effective(  # noqa: PLR0913 - the options of the command
    source: Annotated[str, Parameter(allow_leading_hyphen=True)],
    *,
    module: str | None = None,
    asked: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    allow: tuple[Path, ...] = (),
    rank: int = 0,
    jaxlib: str | None = None,
    as_: FormName | None = None,
    json: Json = False,
) -> int:
    """Compare the requested flags with the values that the compiler used.

    Exit code 1 if a requested value was not used. Dumps don't contain environment variables, so
    these are not compared. With --as, list the settings that a script gives its job.

    Args:
        source: A Run, a directory of XLA's dumps, or one .debug_options file; with --as, anything
            that `flags check` reads.
        module: The module: jit_step, or module_0012.jit_step; by default that of the step.
        asked: The requested settings, unless SOURCE is a Run: a script, recipe, flags in quotes.
        allow: A directory whose files ASKED may name; by default only its own directory.
        rank: The rank of a Run.
        jaxlib: The release that compiled; by default that of the Run, or else the installed one.
        as_: Print the settings that the source asks for, each with the value that counts, in this
            form.
    """
    if as_ is not None:
        if asked is not None or module is not None:
            raise UsageError(
                "--as lists what the source asks for, and compares nothing",
                next="omit --as and --asked and --module",
            )
        render_flags(source, as_=as_, jaxlib=jaxlib, allow=allow, json=json)
        return 0
    reported = read_compiler_report(Path(source), module, rank)
    settings, requested_by = _asked(reported, asked, allow)
    ran = jaxlib_of(reported.run) if reported.run else None
    release = nearest_release(ran) if ran and jaxlib is None else chosen_release(jaxlib)
    used = compare(
        settings,
        reported.modules[reported.step],
        release,
        all_flags=asked is None and reported.run is not None,
    )
    found = EffectiveFlags(
        where=str(Path(source)),
        module=reported.step,
        modules=tuple(reported.modules),
        jaxlib=release.version,
        asked=requested_by,
        used=tuple(_as_logged(flag, reported.run) for flag in used),
        differences=differences(reported.modules),
        histories=histories_in(reported.run, rank) if reported.run else (),
    )
    if json:
        write_result(effective_json(found, next_command(found)))
    else:
        print_report(effective_document(found))
    return 1 if found.lost else 0


_OUTCOMES: Final = {
    ProfileUse.USED: FlagOutcome.APPLIED,
    ProfileUse.NOT_USED: FlagOutcome.IGNORED,
    ProfileUse.FAILED: FlagOutcome.IGNORED,
    ProfileUse.UNKNOWN: FlagOutcome.UNSEEN,
}


def _as_logged(flag: EffectiveFlag, run: Run | None) -> EffectiveFlag:
    """Return a PGLE profile's flag with what the log proves: XLA takes the path of any file."""
    if flag.name != PROFILE or flag.outcome is not FlagOutcome.APPLIED:
        return flag
    if run is None or not run.ranks:
        note = "it has the path; only the log shows whether XLA read the file (`pgle check`)"
        return replace(flag, outcome=FlagOutcome.UNSEEN, note=note)
    from counterpoint.workflow.feedback import proof_of

    proof = proof_of(run)
    return replace(flag, outcome=_OUTCOMES[proof.use], note=proof.reason)


def _asked(
    reported: CompilerReport, asked: str | None, allow: tuple[Path, ...]
) -> tuple[Settings, str | None]:
    """Return the requested settings, and their source."""
    if asked is not None:
        written = read_source(asked, allowed=allow)
        for line in unread_lines(written):
            say_line(line)
        return written.settings, asked
    if reported.run is None:
        return Settings(), None
    where = str(reported.run.path)
    reach = AllowedFiles((reported.run.path, *allow))
    return read_variables(
        variables_of(reported.run), where, form="run", reach=reach
    ).settings, where
