"""Files that only list settings: env files, TOML (also a recipe's form), and Dockerfiles.

An env file is read literally, as `docker run --env-file` does. The `ENV`, `ARG` and `CMD` of a
Dockerfile are read as the exports, assignments and commands of a shell script; what `RUN` exports
ends with its step, which a note says.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Final, cast

from counterpoint.flags.parse.flag_values import may_set
from counterpoint.flags.parse.scan import Scan
from counterpoint.flags.parse.shell import ShellScanner
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


def scan_env(text: str, scan: Scan) -> None:
    """Read all lines; malformed ones are skipped with a note. The last value of a name counts.

    A comment after a value is part of it for docker, but not for readers of `.env`, by its name.
    """
    dotenv = Path(scan.where).name.startswith(".env")
    for number, row in enumerate(text.splitlines(), 1):
        bare = row.lstrip("\ufeff").rstrip("\r")
        if not bare.strip() or bare.lstrip().startswith("#"):
            continue
        match = _ENTRY.fullmatch(bare)
        if not match:
            note = f"line {number}: not NAME=value, not read: {bare.strip()[:40]}"
            scan.notes[note] = None
            continue
        value = match[2]
        if dotenv and " #" in value and value[0] not in "'\"":
            value = value.partition(" #")[0].rstrip()
            scan.notes[f"line {number}: the comment is left out; docker would keep it"] = None
        if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
            scan.notes[f"line {number}: quotes removed; docker would keep them"] = None
        scan.given.pop(match[1], None)
        scan.give(match[1], known(value, number), number)


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


def scan_docker(text: str, scan: Scan) -> None:
    """Read the instructions as lines of a shell, each in its place; all stages are one image."""
    rows = [""] * (text.count("\n") + 1)
    stages = 0
    for name, body, at in _instructions(text):
        statement = ""
        if name == "FROM":
            stages += 1
            if stages == 2:
                scan.notes[f"line {at}: all stages are read as one image"] = None
        elif name == "ENV":
            statement = _exported(body)
            if statement is None:
                scan.leave(at, f"ENV {body}")
        elif name == "ARG":
            argument = _SET_NAME.match(body)
            statement = body if argument and not is_setting(argument[1]) else ""
            scan.aside.append(body)
        elif name == "RUN" and may_set(body):
            scan.notes[f"line {at}: what RUN sets ends with its step"] = None
            scan.aside.append(body)
        elif name in ("CMD", "ENTRYPOINT"):
            statement = _command(body)
        elif name in ("ONBUILD", "SHELL") and may_set(body):
            scan.leave(at, f"{name} {body}")
        new = (statement or "").split("\n")
        rows[at - 1 : at - 1 + len(new)] = new
    ShellScanner(scan, known("\n".join(rows), 1)).read()


def _exported(body: str) -> str | None:
    """Return an ENV as an export of a shell; None if its quotes are not closed."""
    if _SET_NAME.match(body):
        return f"export {_quoted_operators(body)}"
    old = _WITHOUT_SIGN.fullmatch(body)
    value = _as_word(old[2].rstrip()) if old is not None else None
    return None if old is None or value is None else f"export {old[1]}={value}"


def _quoted_operators(body: str) -> str:
    """Return the text with what a shell reads as operators, and Docker does not, escaped."""
    parts, quoted = _QUOTED.split(body), [*_QUOTED.findall(body), ""]
    plain = [_OPERATOR.sub(r"\\\g<0>", part) for part in parts]
    return "".join(chain.from_iterable(zip(plain, quoted, strict=True)))


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
