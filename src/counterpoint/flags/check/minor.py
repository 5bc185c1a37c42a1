"""Minor remarks: right, but nobody would act on them; a summary counts them instead.

A launch file of forty settings gets a line for each that does something else than it seems to. That
ten others repeat a default, or are known only when the job runs, is worth one line in all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import PurePath
from typing import Final

from counterpoint.flags.lint import ALL_SETTINGS, Remark, Severity
from counterpoint.flags.parsed import Location, ParsedSource

_DEFAULTS: Final = "repeating a default"
_LATER: Final = "known only when the program runs"
_OLD_NAMES: Final = "under an old name that still works"
_FILES: Final = "naming a file that was not looked for"
_IDLE: Final = "without effect here"
_OF_TESTS: Final = "of tests"
_OF_CI: Final = "of continuous integration"
_OF_PAGES: Final = "for debugging, on a page"

_ALWAYS: Final = {
    "FLAG208": _LATER,
    "FLAG301": _DEFAULTS,
    "FLAG504": _DEFAULTS,
    "FLAG502": _OLD_NAMES,
}
_AS_NOTES: Final = {"FLAG107": _IDLE, "FLAG209": _FILES, "FLAG302": _IDLE, "FLAG506": _IDLE}
_DEBUGGING: Final = "FLAG409"
_OTHER_CHIP: Final = "FLAG107"

_TEST_FILE: Final = re.compile(r"(?:test_.*|.*_test|conftest)\.py")
_CI_DIRECTORIES: Final = frozenset({".github", ".circleci", ".buildkite", ".gitlab", ".ci"})
_CI_FILES: Final = frozenset({".gitlab-ci.yml", "azure-pipelines.yml", "Jenkinsfile"})


def with_reasons(
    remarks: Iterable[Remark],
    written: ParsedSource,
    *,
    selected: tuple[str, ...] = (),
    chip: str | None = None,
) -> tuple[Remark, ...]:
    """Return the remarks, with the reason of each minor one; one that is asked for is not minor.

    A literal of a unit test is no setting of a job, and nothing about it an error. `chip` is one
    that was asked about: of the one that the source names, it may well set flags of others, too.
    """
    literals = _literals_of_tests(written)
    explained: list[Remark] = []
    for remark in remarks:
        severity = Severity.NOTE if remark.place in literals else remark.severity
        asked = bool(selected) and remark.code.startswith(selected)
        asked = asked or (remark.code == _OTHER_CHIP and chip is not None)
        reason = "" if asked else _reason(remark, written, literals)
        explained.append(replace(remark, severity=severity, minor=reason))
    return tuple(explained)


def _reason(one: Remark, written: ParsedSource, literals: frozenset[Location]) -> str:
    """Return why a remark is minor; empty if somebody would act on it."""
    is_note = one.severity is Severity.NOTE
    page = written.form in ("markdown", "notebook")
    reasons = (
        (one.place in literals, _OF_TESTS),
        (one.severity is Severity.ERROR or one.text == ALL_SETTINGS, ""),
        (one.code in _ALWAYS, _ALWAYS.get(one.code, "")),
        (is_note and one.code in _AS_NOTES, _AS_NOTES.get(one.code, "")),
        (_is_test(written.where), _OF_TESTS),
        (_is_ci(written.where), _OF_CI),
        (one.code == _DEBUGGING and page, _OF_PAGES),
    )
    return next((reason for holds, reason in reasons if holds), "")


def _literals_of_tests(written: ParsedSource) -> frozenset[Location]:
    """Return the places of what the functions of a unit test set: values to test a program with."""
    if written.form != "python" or not _is_test(written.where):
        return frozenset()
    given = (one for program in written.programs for one in program.given)
    return frozenset(one.place for one in given if "function" in dict(one.branch))


def _is_test(where: str) -> bool:
    path = PurePath(where)
    in_tests = path.suffix == ".py" and path.parent.name in ("test", "tests")
    return in_tests or bool(_TEST_FILE.fullmatch(path.name))


def _is_ci(where: str) -> bool:
    path = PurePath(where)
    return path.name in _CI_FILES or not _CI_DIRECTORIES.isdisjoint(path.parts)
