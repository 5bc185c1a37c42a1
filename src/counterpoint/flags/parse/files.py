"""Files that only list settings: env files, TOML (also a recipe's form), and Dockerfiles.

An env file is read literally, as `docker run --env-file` does. Of a Dockerfile, the `ENV` of the
last stage and of the stages it builds upon count, with `ARG` and `ENV` substituted for `$NAME`;
what `RUN` exports is gone when its step ends, which a note says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from counterpoint.core import InputError
from counterpoint.flags.advice.recipe import Recipe
from counterpoint.flags.parse.flag_values import Assignment, may_set, parse_assignments
from counterpoint.flags.parse.script import ShellState
from counterpoint.flags.parse.shell_values import Variables
from counterpoint.flags.parse.shell_words import Lexer, PartKind, Token, WordPart
from counterpoint.flags.parse.traced import TextBudget, TooMuchError, joined, known
from counterpoint.flags.parsed import Location, Occurrence, ParsedSource
from counterpoint.flags.settings import Channel, Settings, is_setting

_ENTRY: Final = re.compile(r"[ \t]*(?:export[ \t]+)?([A-Za-z_]\w*)=(.*)", re.ASCII)
_INSTRUCTION: Final = re.compile(r"[ \t]*([A-Za-z]+)[ \t]+")
_HEREDOC: Final = re.compile(r"<<-?[ \t]*[\"']?([A-Za-z_]\w*)[\"']?")
_FROM: Final = re.compile(r"(?:--\S+[ \t]+)*+(\S+)(?:[ \t]+[Aa][Ss][ \t]+(\S+))?")
_OLD_FORM: Final = re.compile(r"([A-Za-z_]\w*)[ \t]+(?=\S)", re.ASCII)
_SET_NAME: Final = re.compile(r"([A-Za-z_][\w.-]*)=", re.ASCII)


def read_env_file(text: str, where: str) -> ParsedSource:
    """Read all lines; malformed ones are skipped with a note. The last value of a name counts."""
    assigned: dict[str, Assignment] = {}
    notes: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.lstrip("\ufeff").rstrip("\r")
        if not bare.strip() or bare.lstrip().startswith("#"):
            continue
        match = _ENTRY.fullmatch(bare)
        if not match:
            notes.append(f"line {number}: not NAME=value, not read: {bare.strip()[:40]}")
            continue
        value = match[2]
        if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
            notes.append(f"line {number}: read without its quotes, which docker would keep")
        assigned.pop(match[1], None)
        assigned[match[1]] = Assignment(match[1], known(value, number), line=number)
    found = parse_assignments(assigned.values(), where)
    given, slips = tuple(found.given), tuple(found.slips)
    return ParsedSource(where=where, form="env", given=given, slips=slips, notes=tuple(notes))


def read_toml(text: str, where: str) -> ParsedSource:
    """Read a TOML file; its faults are errors, as in `--settings`."""
    from counterpoint.flags.advice.recipe import read_recipe

    return _of_settings(read_recipe(text, where).settings, where, "toml", text)


def write_recipe(
    recipe: Recipe, version: str | None = None, chip: str | None = None
) -> ParsedSource:
    """Return a shipped recipe for one jaxlib (None: the newest) and chip (None: any)."""
    return _of_settings(recipe.resolve(version, chip), f"recipe {recipe.name}", "recipe", "")


def _of_settings(settings: Settings, where: str, form: str, text: str) -> ParsedSource:
    lines = {
        match[1]: number
        for number, line in enumerate(text.splitlines(), 1)
        if (match := re.match(r"\s*\"?(\w+)\"?\s*=", line))
    }

    def given(channel: Channel, name: str, value: str) -> Occurrence:
        dashes = "" if channel is Channel.ENVIRONMENT else "--"
        place, text = Location(where, lines.get(name)), f"{dashes}{name}={value}"
        return Occurrence(channel=channel, name=name, value=value, place=place, text=text)

    occurrences = [given(Channel.XLA_FLAGS, name, value) for name, value in settings.xla]
    occurrences += [given(Channel.ENVIRONMENT, name, value) for name, value in settings.env]
    return ParsedSource(where=where, form=form, given=tuple(occurrences), layout=settings.layout)


@dataclass(slots=True)
class Image:
    """The stages of a Dockerfile read so far; `script` is that of the last stage."""

    where: str
    script: ShellState
    outside: dict[str, str] = field(default_factory=dict[str, str])  # ARG before the first FROM
    stages: dict[str, ShellState] = field(default_factory=dict[str, ShellState])
    notes: list[str] = field(default_factory=list[str])

    def follow(self, name: str, text: str, line: int) -> None:
        """Process one instruction; its text keeps its line breaks."""
        if name == "FROM":
            self._from(text)
        elif name == "ARG":
            self._argument(text, line)
        elif name == "ENV":
            self._environment(text, line)
        elif name == "RUN" and may_set(text):
            self.notes.append(f"line {line}: what RUN sets is gone when its step ends")
        elif name in ("CMD", "ENTRYPOINT", "ONBUILD", "SHELL") and may_set(text):
            self.script.leave(line, f"{name} {text}")

    def _from(self, text: str) -> None:
        match = _FROM.match(text)
        base, name = (match[1], match[2]) if match else ("", None)
        stage = ShellState(Variables(self.where, self.script.variables.budget))
        if earlier := self.stages.get(base.lower()):
            stage.variables.values |= {
                name: earlier.variables.values[name] for name in earlier.exported
            }
            stage.exported |= earlier.exported
            stage.sets |= earlier.sets
            stage.slips += earlier.slips
            stage.notes |= earlier.notes
        self.script = stage
        self.stages[(name or str(len(self.stages))).lower()] = stage

    def _argument(self, text: str, line: int) -> None:
        """Set a build argument: it replaces `$NAME`, but is not in the image's environment."""
        for word in _words(text, self.where, line):
            name, equals, _ = word.text.partition("=")
            if name in self.script.exported:  # ENV takes precedence
                continue
            if equals:
                value = self.script.variables.expand(word.behind(len(name) + 1))
                self.script.variables.values[name] = value
                self.outside |= {} if self.stages else {name: value.text}
            elif name in self.outside:
                self.script.variables.values[name] = known(self.outside[name], word.line)

    def _environment(self, text: str, line: int) -> None:
        """Process `ENV NAME=value NAME=value`, or the old `ENV NAME value`, up to the end."""
        if old := _OLD_FORM.match(text):
            first, *rest = _words(f"{old[1]}={text[old.end() :]}", self.where, line)
            parts = [first.behind(len(old[1]) + 1), *(word.parts for word in rest)]
            value = joined((self.script.variables.expand(part) for part in parts), " ")
            self.script.assign(old[1], value, line, exported=True)
            return
        words = _words(text, self.where, line)
        matches = [_SET_NAME.match(word.text) for word in words]
        values = [  # all of them, with the variables as before the instruction
            (match[1], self.script.variables.expand(word.behind(match.end())), word.line)
            for word, match in zip(words, matches, strict=True)
            if match
        ]
        for name, value, at in values:
            self.script.assign(name, value, at, exported=True)

    def of_other_stages(self) -> Iterator[str]:
        """Yield notes on settings of stages that the last one does not build upon."""
        exported = self.script.exported
        for name, stage in self.stages.items():
            lost = sorted(
                variable
                for variable in stage.exported
                if is_setting(variable) and variable not in exported
            )
            if lost and stage is not self.script:
                yield f"stage {name}: {', '.join(lost)} set there, not in the last stage"


def read_docker(text: str, where: str) -> ParsedSource:
    """Read the settings of the image of the last stage."""
    image = Image(where, ShellState(Variables(where, TextBudget(where))))
    unread: list[str] = []
    for name, inner, line in _instructions(text):
        try:
            image.follow(name, inner, line)
        except TooMuchError:
            raise
        except InputError as failure:
            unread.append(f"line {line}: {name} can't be read: {failure.what}")
    script = image.script
    found = parse_assignments(script.assigned(), where)
    slips = sorted([*script.slips, *found.slips], key=lambda slip: slip.place.line or 0)
    return ParsedSource(
        where=where,
        form="docker",
        given=tuple(found.given),
        slips=tuple(slips),
        notes=(*image.of_other_stages(), *image.notes, *script.notes, *script.variables.doubts()),
        unread=(*unread, *script.unread),
        inherited=tuple(dict.fromkeys(found.inherited)),
    )


def _instructions(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield each with its continuation lines, without the comments in between."""
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
        yield match[1].upper(), "\n".join(taken), start + 1


def _words(text: str, where: str, line: int) -> list[Token]:
    """Split into words; a shell's operators are plain text here."""
    words: list[Token] = []
    glued = False
    for token in Lexer(text.rstrip("\\ \n"), where, line).tokens():
        if token.operator and token.text == "\n":
            continue
        parts = token.parts or (WordPart(PartKind.TEXT, token.text, token.line),)
        if words and (token.operator or glued):
            last = words[-1]
            words[-1] = Token(last.text + token.text, last.line, (*last.parts, *parts))
            glued = token.operator
        else:
            words.append(Token(token.text, token.line, parts))
    return words
