"""A Dockerfile: what a program started from the image finds in its environment.

`ENV` of the last stage and of those it builds upon, with `ARG` and `ENV` put in for `$NAME`. What
`RUN` exports is gone when the step ends, and is said to be. `CMD` and `ENTRYPOINT` are read as the
command lines they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, cast

from counterpoint.core.errors import InputError
from counterpoint.flags.sources.shell_lexer import Kind, Lexer, Part, Token, as_tokens, behind
from counterpoint.flags.sources.shell_script import follow_into
from counterpoint.flags.sources.shell_values import Values
from counterpoint.flags.sources.state import State
from counterpoint.flags.sources.traced import Budget, TooMuchError, joined, known
from counterpoint.flags.sources.variables import is_setting, may_set, write_up
from counterpoint.flags.written import Written

_INSTRUCTION: Final = re.compile(r"[ \t]*([A-Za-z]+)[ \t]+")
_HEREDOC: Final = re.compile(r"<<-?[ \t]*[\"']?([A-Za-z_]\w*)[\"']?")
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][\w.-]*)=")
_FROM: Final = re.compile(r"(?:--\S+[ \t]+)*+(\S+)(?:[ \t]+[Aa][Ss][ \t]+(\S+))?")
_NAME: Final = re.compile(r"([A-Za-z_]\w*)[ \t]+(?=\S)")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. Its text keeps the lines it stands on, so that each word has its line."""

    name: str
    text: str
    line: int


@dataclass(slots=True)
class Image:
    """Stages read so far; the state is the one of the last."""

    where: str
    state: State
    outside: dict[str, str] = field(default_factory=dict[str, str])  # ARG before the first FROM
    stages: dict[str, State] = field(default_factory=dict[str, State])
    notes: list[str] = field(default_factory=list[str])
    unread: list[str] = field(default_factory=list[str])
    begun: bool = False


def read_docker(text: str, where: str) -> Written:
    """What the image of the last stage sets."""
    image = Image(where, State(where, Values(where, budget=Budget(where))))
    for one in _instructions(text):
        try:
            _follow(image, one)
        except TooMuchError:
            raise
        except InputError as failure:
            image.unread.append(f"line {one.line}: {one.name} can't be read: {failure.what}")
    state = image.state
    found = write_up(state.assigned(), where)
    state.finish()
    slips = sorted([*state.slips, *found.slips], key=lambda slip: slip.place.line or 0)
    return Written(
        where=where,
        form="docker",
        given=(*found.given, *state.options),
        slips=tuple(slips),
        notes=(*_of_other_stages(image), *image.notes, *state.notes),
        unread=(*image.unread, *state.unread),
        inherited=tuple(dict.fromkeys(found.inherited)),
    )


def _instructions(text: str) -> Iterator[Instruction]:
    """Each with the lines that a backslash joins to it; comments in between are taken out."""
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        start, match = at, _INSTRUCTION.match(lines[at])
        at += 1
        if not match:
            continue
        taken = [lines[start][match.end() :]]
        while taken[-1].rstrip().endswith("\\") and at < len(lines):
            line, at = lines[at], at + 1
            comment = not line.strip() or line.lstrip().startswith("#")
            taken[-1] = taken[-1].rstrip()
            taken.append("\\" if comment else line)
        for mark in _HEREDOC.findall(taken[0]) if match[1].upper() in ("RUN", "COPY") else ():
            while at < len(lines) and lines[at].strip() != mark:
                taken.append(lines[at])
                at += 1
        yield Instruction(match[1].upper(), "\n".join(taken), start + 1)


def _follow(image: Image, one: Instruction) -> None:
    if one.name == "FROM":
        _from(image, one)
    elif one.name == "ARG":
        _argument(image, one)
    elif one.name == "ENV":
        _environment(image.state, one)
    elif one.name in ("CMD", "ENTRYPOINT"):
        _command(image.state, one)
    elif one.name == "RUN" and may_set(one.text):
        image.notes.append(f"line {one.line}: what RUN sets is gone when its step ends")


def _from(image: Image, one: Instruction) -> None:
    match = _FROM.match(one.text)
    base, name = (match[1], match[2]) if match else ("", None)
    earlier = image.stages.get(base.lower())
    state = State(image.where, Values(image.where, budget=image.state.values.budget))
    if earlier:
        state.values.known |= {it: earlier.values.known[it] for it in earlier.exported}
        state.exported |= earlier.exported
        state.sets |= earlier.sets
        state.slips += earlier.slips
        state.notes |= earlier.notes
    image.state, image.begun = state, True
    image.stages[(name or str(len(image.stages))).lower()] = state


def _argument(image: Image, one: Instruction) -> None:
    """A value for the build: put in for `$NAME`, not in the environment of the image."""
    for word in _words(image.state, one):
        match = _ASSIGNMENT.match(word.text)
        name = match[1] if match else word.text
        if name in image.state.exported:  # ENV counts
            continue
        if match:
            value = image.state.values.expand(word.parts).text.partition("=")[2]
            image.state.values.known[name] = known(value, word.line)
            image.outside |= {} if image.begun else {name: value}
        elif name in image.outside:
            image.state.values.known[name] = known(image.outside[name], word.line)


def _environment(state: State, one: Instruction) -> None:
    """`ENV NAME=value NAME=value`, or of old `ENV NAME value` up to the end."""
    if old := _NAME.match(one.text):
        text = f"{old[1]}={one.text[old.end() :]}"
        first, *rest = _words(state, Instruction(one.name, text, one.line))
        parts = [behind(first.parts, len(old[1]) + 1), *(word.parts for word in rest)]
        value = joined((state.values.expand(it) for it in parts), " ")
        state.assign(old[1], value, one.line, exported=True)
        return
    # As they were before the instruction.
    values = Values(state.where, dict(state.values.known), budget=state.values.budget)
    for word in _words(state, one):
        if match := _ASSIGNMENT.match(word.text):
            value = values.expand(behind(word.parts, match.end()))
            state.assign(match[1], value, word.line, exported=True)


def _command(state: State, one: Instruction) -> None:
    """In JSON the words of a command, else a line for the shell."""
    try:
        words: object = json.loads(one.text)
    except ValueError:
        follow_into(state, list(Lexer(one.text, state.where, one.line).tokens()))
        return
    if isinstance(words, list):
        follow_into(state, as_tokens([str(word) for word in cast("list[object]", words)], one.line))


def _words(state: State, one: Instruction) -> list[Token]:
    """What a shell has for operators is plain text here."""
    words: list[Token] = []
    glued = False
    for token in Lexer(one.text.rstrip("\\ \n"), state.where, one.line).tokens():
        if token.operator and token.text == "\n":
            continue
        parts = token.parts or (Part(Kind.TEXT, token.text, token.line),)
        if words and (token.operator or glued):
            last = words[-1]
            words[-1] = Token(last.text + token.text, last.line, (*last.parts, *parts))
            glued = token.operator
        else:
            words.append(Token(token.text, token.line, parts))
    return words


def _of_other_stages(image: Image) -> Iterator[str]:
    """Settings of stages that the last one does not build upon."""
    for name, state in image.stages.items():
        lost = [it for it in state.exported if is_setting(it) and it not in image.state.exported]
        if lost and state is not image.state:
            yield f"stage {name}: {', '.join(sorted(lost))} set there, not in the last stage"
