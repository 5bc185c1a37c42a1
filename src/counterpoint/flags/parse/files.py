"""Files that only list settings: env files, TOML (also a recipe's form), and Dockerfiles.

An env file is read literally, as `docker run --env-file` does. The `ENV` and `ARG` of a Dockerfile
are read as the exports and assignments of a shell script; what `RUN` exports ends with its step,
which a note says.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, pairwise
from typing import Final, cast

from counterpoint.flags.parse.flag_values import Assignment, may_set, parse_assignments
from counterpoint.flags.parse.launcher import TELLING
from counterpoint.flags.parse.shell import read_shell
from counterpoint.flags.parse.traced import known
from counterpoint.flags.parsed import Location, Occurrence, ParsedSource
from counterpoint.flags.recipe import Recipe
from counterpoint.flags.settings import Channel, Settings, is_setting

_ENTRY: Final = re.compile(r"[ \t]*(?:export[ \t]+)?([A-Za-z_]\w*)=(.*)", re.ASCII)
_INSTRUCTION: Final = re.compile(r"[ \t]*([A-Za-z]+)[ \t]+")
_HEREDOC: Final = re.compile(r"<<-?[ \t]*[\"']?([A-Za-z_]\w*)[\"']?")
_SET_NAME: Final = re.compile(r"(?:^|(?<=\s))([A-Za-z_]\w*)=", re.ASCII)
_QUOTED: Final = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'|\\.", re.DOTALL)
_WITHOUT_SIGN: Final = re.compile(r"([A-Za-z_]\w*)[ \t]+(\S.*)", re.ASCII | re.DOTALL)
_OPERATOR: Final = re.compile(r"[;&|<>()`]")
"""Plain characters in a Dockerfile, and operators of a shell."""


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
            notes.append(f"line {number}: quotes removed; docker would keep them")
        assigned.pop(match[1], None)
        assigned[match[1]] = Assignment(match[1], known(value, number), line=number)
    found = parse_assignments(assigned.values(), where)
    given, issues = tuple(found.given), tuple(found.issues)
    return ParsedSource(where=where, form="env", given=given, issues=issues, notes=tuple(notes))


def read_toml(text: str, where: str) -> ParsedSource:
    """Read a TOML file; its faults are errors, as in `--settings`."""
    from counterpoint.flags.recipe import read_recipe

    return _of_settings(read_recipe(text, where).settings, where, "toml", text)


def write_recipe(
    recipe: Recipe, version: str | None = None, chip: str | None = None
) -> ParsedSource:
    """Return a shipped recipe for one jaxlib (None: the newest) and chip (None: any)."""
    where = f"recipe {recipe.name}"
    written = _of_settings(recipe.resolve(version, chip), where, "recipe", "")
    options = tuple(
        Occurrence(
            channel=Channel.TRAINER,
            name=line.name,
            value=line.value,
            place=Location(where),
            text=f"--{line.name}={line.value}",
        )
        for line in recipe.arguments
    )
    return replace(written, given=(*written.given, *options))


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


def read_docker(text: str, where: str) -> ParsedSource:
    """Read `ENV` with its `ARG`s; all stages count as one image, with a note if there are more."""
    rows = [""] * (text.count("\n") + 1)
    notes: list[str] = []
    unread: list[str] = []
    exported: set[str] = set()
    stages = 0
    for name, body, line in _instructions(text):
        if name == "FROM":
            stages += 1
            if stages == 2:
                notes.append(f"line {line}: all stages are read as one image")
        elif name in ("ENV", "ARG"):
            statement = _statement(name, body, exported)
            if statement is None:
                unread.append(f"line {line}: {name} {' '.join(body.split())}")
            else:
                new = statement.split("\n")
                rows[line - 1 : line - 1 + len(new)] = new
        elif name == "RUN" and may_set(body):
            notes.append(f"line {line}: what RUN sets ends with its step")
        elif name in ("CMD", "ENTRYPOINT", "ONBUILD", "SHELL") and may_set(body):
            unread.append(f"line {line}: {name} {' '.join(body.split())}")
        elif name in ("CMD", "ENTRYPOINT") and TELLING.search(command := _command(body)):
            new = command.split("\n")
            rows[line - 1 : line - 1 + len(new)] = new
    found = read_shell("\n".join(rows), where)
    return replace(
        found,
        form="docker",
        notes=(*notes, *found.notes),
        unread=(*unread, *found.unread),
        source="",
    )


def _statement(name: str, body: str, exported: set[str]) -> str | None:
    """Return an instruction as a statement of a shell; None if a shell would read it differently.

    All variables of one ENV are set at once, so none may refer to one set before it there.
    """
    names = [*_SET_NAME.finditer(body)]
    if name == "ARG":
        wanted = names and not is_setting(names[0][1]) and names[0][1] not in exported
        return body if wanted else ""
    if not names or names[0].start():
        old = _WITHOUT_SIGN.fullmatch(body)
        value = _as_word(old[2].rstrip()) if old is not None else None
        if old is None or value is None:
            return None
        exported.add(old[1])
        return f"export {old[1]}={value}"
    refers = any(
        re.search(rf"\$\{{?{name[1]}\b", body[following.start() :])
        for name, following in pairwise(names)
    )
    if refers or _OPERATOR.search(_QUOTED.sub("", body)):
        return None
    exported |= {name[1] for name in names}
    return f"export {body}"


def _command(body: str) -> str:
    """Return a command for a shell; it may be given as a list in JSON."""
    try:
        words: object = json.loads(body.replace("\\\n", "\n"))
    except ValueError:
        return body
    texts = cast("list[object]", words) if isinstance(words, list) else [body]
    return " ".join(shlex.quote(str(text)) for text in texts)


def _as_word(value: str) -> str | None:
    """Return the value of `ENV NAME value` as one word of a shell; None if it can't be one.

    Docker removes quotes and replaces variables as a shell does, but the value goes on to the end
    of the line.
    """
    parts = _QUOTED.split(value)
    if any(re.search(r"[\"'`\\]|\$[({]", part) for part in parts):
        return None
    quoted = [*_QUOTED.findall(value), ""]
    plain = [re.sub(r"(?=[^\w$/.,:=+@%-])", r"\\", part) for part in parts]
    return "".join(chain.from_iterable(zip(plain, quoted, strict=True)))


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
