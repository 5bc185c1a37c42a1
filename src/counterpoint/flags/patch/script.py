"""Settings in a shell script: a block of exports, or options of xpk.

The block is behind the script's own exports and before the first line that launches something,
never in a heredoc.

Flags are appended to what the script has set by then, and XLA lets the last one count, so that the
script's other flags stay. The block has marks, by which the next patch replaces it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import takewhile
from typing import Final

from counterpoint.core import UsageError
from counterpoint.flags.forms import quoted
from counterpoint.flags.patch.manifest import merged_flags, scalar
from counterpoint.flags.patch.statements import Statement, length, plain, statements, uncommented
from counterpoint.flags.settings import FLAG_VARIABLES, Settings
from counterpoint.flags.text import parse_xla_flags, render_xla_flags

_BEGIN: Final = "# begin of settings by counterpoint tune"
_END: Final = "# end of settings by counterpoint tune"
_BLOCK: Final = re.compile(
    r"^# begin of settings by `?counterpoint tune`?\r?\n.*?"
    r"^# end of settings by `?counterpoint tune`?(?:\r?\n|\Z)",
    re.MULTILINE | re.DOTALL,
)
_EMPTY_XPK: Final = (
    "these settings are empty, and an earlier patch of xpk's options can't be told from your own:"
    " take the original file"
)
_DIRECTIVE: Final = re.compile(r"#(?:!|SBATCH|PBS|BSUB|COBALT|MSUB|FLUX|\$\s)")
_ALONE: Final = re.compile(r"\s*[A-Za-z_]\w*\+?=\S*\s*(?:;|&&)")
_EXPORT_OPTION: Final = re.compile(r"--export[= ](?:\"[^\"]*\"|'[^']*'|\S+)")
_XPK: Final = re.compile(
    r"^[^#\n]*\bxpk(?:\.py)?\s+workload\s+create(?:-pathways)?\b", re.MULTILINE
)
_OPTION: Final = r"""-{2}env[= ]((?=['"]?NAME=)(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s'"\\])+)"""


def patch_script(text: str, name: str, settings: Settings) -> tuple[str, tuple[str, ...]]:
    """Return the text with the settings, and notes; without settings, remove an earlier block."""
    variables = dict(_variables(settings))
    if not variables:
        return _without(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    if found := _XPK.search(text):
        _refuse_heredoc(text, name, found.start())
        return _with_options(text, found.end(), settings)
    plain_text = _BLOCK.sub("", text)
    at, notes = _place(text, tuple(variables))
    lines = [_BEGIN, *(_export(key, value) for key, value in variables.items()), _END]
    first = newline if at and plain_text[at - 1] != "\n" else ""
    block = first + "".join(f"{line}{newline}" for line in lines)
    return plain_text[:at] + block + plain_text[at:], notes


def _without(text: str) -> tuple[str, tuple[str, ...]]:
    new = _BLOCK.sub("", text)
    if new != text:
        return new, ("these settings are empty: the block of an earlier patch is removed",)
    return text, (_EMPTY_XPK,) if _XPK.search(text) else ()


def _refuse_heredoc(text: str, name: str, at: int) -> None:
    """Refuse a command of xpk in a heredoc, which the outer shell may expand."""
    line = text.count("\n", 0, at)
    for one in statements(text.splitlines(keepends=True)):
        if any(line == inner for inner, _ in one.bodies):
            raise UsageError(
                f"{name}, line {line + 1}: the command of xpk is within a heredoc",
                why=f"line {one.line + 1} opens it, and the outer shell may expand what is in it",
            )


def _variables(settings: Settings) -> Iterator[tuple[str, str]]:
    if settings.xla:
        yield "XLA_FLAGS", render_xla_flags(settings.flags.items())
    yield from settings.variables.items()


def _export(name: str, value: str) -> str:
    if name in FLAG_VARIABLES:
        return f'export {name}="${{{name}:-}} {quoted(value)}"'
    return f'export {name}="{quoted(value)}"'


def _place(text: str, names: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
    """Return where the block goes in the text without an earlier block, and notes.

    It goes after the last statement that sets variables before the first launch, else after the
    head. Notes have the numbers of the lines in the text as it is.
    """
    numbers, lines = _lines(text)
    at = end = _head(lines)
    begin, launched = 0, False
    notes: list[str] = []
    unit: list[Statement] = []
    for one in statements(lines):
        unit.append(one)
        end = begin + sum(len(part.text) for part in unit)
        if one.depth:
            continue
        launched = launched or any(_matters(part, names) for part in unit)
        within = len(unit) > 1
        for part in unit:
            notes += _notes(part, names, numbers, launched=launched, within=within)
        if not launched and end > at and any(part.reads or _sets(part, names) for part in unit):
            at = end
        begin, unit = end, []
    for part in unit:  # a compound that never ends
        notes += _notes(part, names, numbers, launched=True, within=True)
    return at, tuple(dict.fromkeys(notes))


def _lines(text: str) -> tuple[list[int], list[str]]:
    """Return the lines outside of earlier blocks, and their numbers."""
    inside: set[int] = set()
    for found in _BLOCK.finditer(text):
        first = text.count("\n", 0, found.start())
        inside |= set(range(first, first + len(found[0].rstrip("\n").split("\n"))))
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    kept = [(number, line) for number, line in enumerate(lines) if number not in inside]
    return [number + 1 for number, _ in kept], [line for _, line in kept]


def _head(lines: list[str]) -> int:
    """Return the end of the comments at the top and of all directives, which Slurm reads there."""
    head = list(takewhile(lambda line: line.startswith("#"), lines))
    top = list(takewhile(lambda line: line.startswith("#") or not line.strip(), lines))
    last = max((at for at, line in enumerate(top, 1) if _DIRECTIVE.match(line)), default=0)
    return sum(map(len, lines[: max(len(head), last)]))


def _named(names: tuple[str, ...]) -> str:
    return rf"\b({'|'.join(names)})\b"


def _sets(one: Statement, names: tuple[str, ...]) -> list[str]:
    """Return which of the variables the statement sets or unsets, also within quotes."""
    code, before = uncommented(one.code), r"(?<![\w$-])"
    if one.first in ("echo", "printf"):  # its words are no assignments
        code, before = plain(code), r"[;&|]\s*(?:export\s+)?"
    found: list[str] = re.findall(rf"{before}{_named(names)}\+?=", code)
    if one.first == "unset":
        found += re.findall(_named(names), code)
    return list(dict.fromkeys(found))


def _matters(one: Statement, names: tuple[str, ...]) -> bool:
    """Return whether the block must come before it: it launches, or its heredoc has the names."""
    return one.launches or any(re.search(_named(names), line) for _, line in one.bodies)


def _notes(
    one: Statement, names: tuple[str, ...], numbers: list[int], *, launched: bool, within: bool
) -> Iterator[str]:
    """Yield what in this statement replaces the block's values."""
    line = numbers[one.line]
    option = " ".join(_EXPORT_OPTION.findall(one.code)) if one.launches else ""
    if option and not re.search(r"[= ,'\"]ALL\b", option):
        yield (
            f"line {line}: {option} does not pass on the environment, and so"
            " not the block: add ALL to it"
        )
    for name in _sets(one, names):
        if re.search(rf"\b{name}=", option):
            yield f"line {line} sets {name} in --export, which overrides the block: remove it there"
        elif (one.launches and one.first in ("export", "declare", "typeset")) or (
            one.launches and _ALONE.match(plain(one.code))
        ):
            yield (
                f"line {line} sets {name} and launches a command, so that it overrides the block,"
                " which is before it: remove it there"
            )
        elif one.launches:
            yield (f"line {line} sets {name} for its own command, after the block: remove it there")
        elif launched:
            yield (
                f"line {line} sets {name} again, after the first launch and so after the block:"
                " change it there, too"
            )
        elif within:
            yield (
                f"line {line}: {name} is set within a block of the script; if that runs later, it"
                " replaces the new value"
            )
    yield from _notes_on_heredocs(one, names, numbers)


def _notes_on_heredocs(one: Statement, names: tuple[str, ...], numbers: list[int]) -> Iterator[str]:
    opens = numbers[one.line]
    for at, body in one.bodies:
        if body.lstrip().startswith("#"):
            continue
        for name in dict.fromkeys(re.findall(rf"(?<![\w$-]){_named(names)}\+?=", body)):
            yield (
                f"line {numbers[at]} sets {name} within the heredoc that line {opens} opens, after"
                " the block, which is before the heredoc: change it there, too"
            )


def _with_options(text: str, at: int, settings: Settings) -> tuple[str, tuple[str, ...]]:
    """Return the text with `--env NAME=value` for xpk, new ones right after the command's name."""
    end = _end(text, at)
    statement = text[at:end]
    if "--env-file" in statement:
        raise UsageError(
            "the command of xpk names a file of variables",
            why="xpk takes variables either from a file or from its command line",
            next="print the settings with `counterpoint tune show STUDY --as env`, and add these",
        )
    if "--debug-dump-gcs" in statement and settings.xla:
        raise UsageError(
            "the command of xpk has --debug-dump-gcs, which sets XLA_FLAGS itself",
            why="xpk refuses other flags beside it: remove it, or add --xla_dump_to to your flags",
        )
    new: list[str] = []
    for name, value in _variables(settings):
        option = re.compile(_OPTION.replace("NAME", name))
        found = option.search(statement)
        old = "".join(shlex.split(found[1])).partition("=")[2] if found else ""
        if name in FLAG_VARIABLES:
            value = merged_flags(name, old, dict(parse_xla_flags(value, where=name)))  # noqa: PLW2901
        inside = scalar(value)[1:-1]  # xpk writes it between quotes into its manifest, as it is
        word = f"--env={name}={shlex.quote(inside)}"
        if found is None:
            new.append(word)
        elif old not in (value, inside):
            statement = statement[: found.start()] + word + statement[found.end() :]
    return text[:at] + "".join(f" {word}" for word in new) + statement + text[end:], ()


def _end(text: str, at: int) -> int:
    """Return the end of the statement that this place belongs to."""
    begin = text.rfind("\n", 0, at) + 1
    lines = text[begin:].splitlines(keepends=True)
    return begin + sum(map(len, lines[: length(lines, 0)]))
