"""Settings out of a shell script: the lines people paste from guides and keep in their jobs.

Understood are flags as they stand, `NAME=value`, `export NAME=value ...`, `NAME+=value`, `unset`,
quotes, continued lines, comments, and references to what the script itself has set
(`"${XLA_FLAGS} --more"`). What needs a shell (a command, a variable from outside) is refused with
its text: a guess would be another setting. Without any `export`, all assignments are meant.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from counterpoint.core.errors import InputError
from counterpoint.flags.xla_flags import parse_xla_flags

_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_REFERENCE: Final = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?::?-)?\})")
_EXPANSION: Final = re.compile(r"\$\{[^}\n]*\}?|\$\(\(?[^)\n]*\)*|`[^`\n]*`?|\$\w*|[|&<>()]+")
_HARMLESS: Final = ("set", "shopt", ":", "true")
_PLAIN: Final = re.compile(r"[^ \t\r\n;'\"\\$`|&<>()]+")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_DOUBLE_ESCAPED: Final = re.compile(r'\\([$`"\\\n])')
_DOUBLE_PLAIN: Final = re.compile(r'[^"$`\\]+|\\')
_CONTINUED: Final = re.compile(r"\\\r?\n")
_FLAG_LINE: Final = re.compile(r"(?:\\\r?\n|[^\n])*")
_FLAGS: Final = "XLA_FLAGS"


@dataclass(slots=True)
class Script:
    """What a script has set, read up to its end."""

    text: str
    where: str
    values: dict[str, str] = field(default_factory=dict[str, str])
    exported: set[str] = field(default_factory=set[str])
    exports: bool = False
    at: int = 0

    def variables(self) -> dict[str, str]:
        """What a command after the script would find in its environment."""
        if not self.exports:
            return self.values
        return {name: value for name, value in self.values.items() if name in self.exported}


def read_script(text: str, where: str) -> dict[str, str]:
    """The variables a script sets, XLA_FLAGS with its flag lines among them."""
    script = Script(text, where)
    while script.at < len(text):
        _statement(script)
    return script.variables()


def _statement(script: Script) -> None:
    """One line, or the part of it up to a semicolon."""
    if _skip_blanks(script) and script.text[script.at] == "-":
        match = _FLAG_LINE.match(script.text, script.at)
        line = _CONTINUED.sub(" ", match[0] if match else "")
        here = _here(script)
        script.at += len(match[0]) if match else 0
        parse_xla_flags(line, where=here)
        _set(script, _FLAGS, f"{script.values.get(_FLAGS, '')} {line}".strip())
        script.exported.add(_FLAGS)
        return
    words: list[str] = []
    here = _here(script)
    while _skip_blanks(script) and script.text[script.at] not in "\n;":
        words.append(_word(script))
    script.at += 1
    if words:
        _run(script, words, here)


def _run(script: Script, words: list[str], here: str) -> None:
    command, *rest = words
    if command in _HARMLESS:
        return
    if command == "unset":
        for name in rest:
            script.values.pop(name, None)
        return
    if command == "export":
        script.exports = True
        words = [word for word in rest if not word.startswith("-")]
    for word in words:
        _assign(script, word, here, exported=command == "export")


def _assign(script: Script, word: str, here: str, *, exported: bool) -> None:
    match = _ASSIGNMENT.fullmatch(word)
    if match is None and not (exported and _NAME.fullmatch(word)):
        raise InputError(
            f"{here}: `{word}` is not a setting",
            why="flags and assignments are read here, commands are not run",
            next="keep only lines such as `--xla_...=value` and `export NAME=value`",
        )
    if match:
        name, plus, value = match.groups()
        value = script.values.get(name, "") + value if plus else value
        if name == _FLAGS and value.lstrip()[:1] == "-":
            parse_xla_flags(value, where=here)
        _set(script, name, value)
    if exported:
        script.exported.add(match[1] if match else word)


def _set(script: Script, name: str, value: str) -> None:
    script.values.pop(name, None)
    script.values[name] = value


def _word(script: Script) -> str:
    parts: list[str] = []
    text = script.text
    while script.at < len(text) and text[script.at] not in " \t\r\n;":
        character = text[script.at]
        if character == "'":
            parts.append(_single(script))
        elif character == '"':
            parts.append(_double(script))
        elif match := _CONTINUED.match(text, script.at):
            script.at = match.end()
        elif match := _ESCAPED.match(text, script.at) or _PLAIN.match(text, script.at):
            parts.append(match[match.lastindex or 0])
            script.at = match.end()
        else:
            parts.append(_expanded(script))
    return "".join(parts)


def _single(script: Script) -> str:
    end = script.text.find("'", script.at + 1)
    if end < 0:
        raise _unclosed(script, "'", script.at)
    value = script.text[script.at + 1 : end]
    script.at = end + 1
    return value


def _double(script: Script) -> str:
    start = script.at
    script.at += 1
    parts: list[str] = []
    while script.at < len(script.text):
        if script.text[script.at] == '"':
            script.at += 1
            return "".join(parts)
        if match := _DOUBLE_ESCAPED.match(script.text, script.at):
            parts.append(match[1].strip("\n"))
        else:
            match = _DOUBLE_PLAIN.match(script.text, script.at)
        if match is None:
            parts.append(_expanded(script))
            continue
        if match.re is _DOUBLE_PLAIN:
            parts.append(match[0])
        script.at = match.end()
    raise _unclosed(script, '"', start)


def _expanded(script: Script) -> str:
    """A reference to what the script has set before; XLA_FLAGS of outside stand before ours."""
    match = _REFERENCE.match(script.text, script.at)
    name = (match[1] or match[2]) if match else None
    if match and name and (name in script.values or name == _FLAGS):
        script.at = match.end()
        return script.values.get(name, "")
    expansion = _EXPANSION.match(script.text, script.at)
    raise InputError(
        f"{_here(script)}: `{expansion[0] if expansion else script.text[script.at]}` needs a shell",
        why="only what the file itself has set is put in; commands are not run",
        next="write the value out, or set it in the shell and start Counterpoint from there",
    )


def _skip_blanks(script: Script) -> bool:
    """Go to the next word or line end; False at the end of the text."""
    text = script.text
    while script.at < len(text):
        if match := _CONTINUED.match(text, script.at):
            script.at = match.end()
        elif text[script.at] in " \t\r\ufeff":
            script.at += 1
        elif text[script.at] == "#":
            end = text.find("\n", script.at)
            script.at = len(text) if end < 0 else end
        else:
            return True
    return False


def _here(script: Script, at: int | None = None) -> str:
    line = script.text.count("\n", 0, script.at if at is None else at) + 1
    return f"{script.where}:{line}"


def _unclosed(script: Script, quote: str, at: int) -> InputError:
    here = _here(script, at)
    return InputError(f"{here}: a quote is opened and not closed", next=f"close it with {quote}")
