"""Passages of a document that are in another language: code blocks of Markdown and reST.

A passage keeps its lines: `padded` has as many empty lines before it as the document has lines.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_LANGUAGES: Final = {
    **dict.fromkeys(("sh", "bash", "shell", "zsh", "console", "shell-session"), "shell"),
    **dict.fromkeys(("py", "python", "python3", "ipython", "pycon", "ipython3"), "python"),
    **dict.fromkeys(("yaml", "yml"), "yaml"),
    **dict.fromkeys(("docker", "dockerfile"), "docker"),
    **dict.fromkeys(("dotenv", "env"), "env"),
}
_FENCE: Final = re.compile(r"^([ \t>]*)(`{3,}|~{3,})[ \t]*(?:\{?[.]?([\w+-]*))?[^`]*$")
_DIRECTIVE: Final = re.compile(r"^([ \t]*)\.\. (?:code|code-block|sourcecode)::[ \t]*([\w-]*)\s*$")
_OPTION: Final = re.compile(r"^\s*:[\w-]+:")
_PROMPT: Final = re.compile(r"^(?:\(.*\)\s*)?[\w@:~/.-]*[$%][ \t]")
_PYTHON_PROMPT: Final = re.compile(r"^(?:>>>|\.\.\.)(?: |$)")


@dataclass(frozen=True, slots=True)
class Passage:
    """Lines `first` to `last` of a document, counted from 1; no `form` where none is said."""

    first: int
    last: int
    form: str
    text: str

    @property
    def padded(self) -> str:
        return "\n" * (self.first - 1) + self.text


def passages(lines: Sequence[str]) -> Iterator[Passage]:
    """All code blocks, in order; one that is not closed goes to the end."""
    at = 0
    while at < len(lines):
        if fence := _FENCE.match(lines[at]):
            end = _closed(lines, at, fence[2])
            quoted = ">" in fence[1]
            yield _passage(lines, at + 1, end, fence[3] or "", quoted=quoted)
            at = end + 1
        elif directive := _DIRECTIVE.match(lines[at]):
            end = _indented(lines, at, len(directive[1]))
            start = at + 1
            while start < end and _OPTION.match(lines[start]):
                start += 1
            yield _passage(lines, start, end, directive[2])
            at = end
        else:
            at += 1


def _closed(lines: Sequence[str], at: int, fence: str) -> int:
    for row in range(at + 1, len(lines)):
        bare = lines[row].strip(" \t>\r")
        if bare.startswith(fence) and not bare.strip(fence[0]):
            return row
    return len(lines)


def _indented(lines: Sequence[str], at: int, indent: int) -> int:
    for row in range(at + 1, len(lines)):
        bare = lines[row].lstrip()
        if bare and len(lines[row]) - len(bare) <= indent:
            return row
    return len(lines)


def _passage(
    lines: Sequence[str], start: int, end: int, language: str, *, quoted: bool = False
) -> Passage:
    own = list(lines[start:end])
    if quoted:
        own = [line.lstrip().removeprefix(">").removeprefix(" ") for line in own]
    form = _LANGUAGES.get(language.lower(), "" if not language else "text")
    own = _without_prompts(textwrap.dedent("\n".join(own)).split("\n"))
    return Passage(start + 1, end, form, "\n".join(own))


def _without_prompts(lines: list[str]) -> list[str]:
    """What was typed, without prompts and answers; all, where nothing is a prompt."""
    for prompt in (_PYTHON_PROMPT, _PROMPT):
        if not any(prompt.match(line) for line in lines):
            continue
        typed: list[str] = []
        goes_on = False
        for line in lines:
            match = prompt.match(line)
            keep = match or goes_on
            typed.append(line[match.end() :] if match else line if keep else "")
            goes_on = bool(keep) and line.endswith("\\")
        return typed
    return lines
