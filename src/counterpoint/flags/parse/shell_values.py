"""The values of words in a shell script, given the variables that it has set itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from counterpoint.flags.parse.shell_words import Lexer, PartKind, Token, WordPart, has_braces
from counterpoint.flags.parse.traced import (
    TextBudget,
    TracedText,
    inherited,
    joined,
    known,
    unknown,
)
from counterpoint.flags.settings import FLAG_VARIABLES, is_setting

_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_BRACED: Final = re.compile(
    r"\$\{([A-Za-z_]\w*)(\[[@*]\])?(?:(:?[-=+?])(.*))?\}", re.DOTALL | re.ASCII
)
_BARE: Final = re.compile(r"\$(?:\w+|\{\w+\})", re.ASCII)
_COMPUTED: Final = re.compile(
    r"([A-Za-z_]\w*)\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)|(?:\+\+|--)(\w+)"
)
"""A name that arithmetic changes."""
_NAMED: Final = 3

Doubt = tuple[int, str, int]
"""The number of a block, the reason for doubt, and the line."""


@dataclass(slots=True)
class Variables:
    """Variables, arrays, and why their values are doubtful.

    `certain`: a default is not assumed for a variable that may be set elsewhere. `whole`: the
    environment contains nothing else. `used` are the names that the statement refers to.
    """

    where: str
    budget: TextBudget
    values: dict[str, TracedText] = field(default_factory=dict[str, TracedText])
    certain: bool = False
    whole: bool = False
    arrays: dict[str, list[TracedText]] = field(default_factory=dict[str, list[TracedText]])
    used: set[str] = field(default_factory=set[str])
    doubtful: dict[str, Doubt] = field(default_factory=dict[str, Doubt])
    """Variables that a block sets, or that derive from such variables."""
    found: dict[tuple[int, str], dict[tuple[int, str], None]] = field(
        default_factory=dict[tuple[int, str], dict[tuple[int, str], None]]
    )
    """Settings with their lines, by their block and the reason for doubt."""

    def words(self, word: Token) -> list[TracedText]:
        """Expand a word of a command: elements of an array, words of an unquoted `$NAME`."""
        (only,) = word.parts if len(word.parts) == 1 else (None,)
        match = _BRACED.fullmatch(only.text) if only else None
        if only and match and only.quoted and match[2] == "[@]" and match[1] in self.arrays:
            return self.arrays[match[1]] if not match[3] else [unknown(word.text, word.line)]
        if has_braces(word):
            return [unknown(word.text, word.line)]
        value = self.expand(word.parts)
        if only is None or only.quoted or not (_BARE.fullmatch(only.text) or "[" in only.text):
            return [value]
        return [value.cut(*found.span()) for found in re.finditer(r"\S+", value.text)]

    def expand(self, parts: Sequence[WordPart]) -> TracedText:
        """Return the value of a word."""
        values = [self._part(part) for part in parts]
        value = values[0] if len(values) == 1 else joined(values)
        return self.budget.spend(value, value.line)

    def _part(self, part: WordPart) -> TracedText:  # noqa: PLR0911 - one for each form
        if part.kind is PartKind.TEXT:
            return known(part.text, part.line)
        if part.kind is PartKind.HOLE:
            if part.text.startswith("$(("):
                self.computed(part.text, part.line)
            return unknown(part.text, part.line)
        match = _BRACED.fullmatch(part.text)
        if match is None and part.text.startswith("${"):
            return unknown(part.text, part.line)
        name = match[1] if match else part.text[1:]
        operator = (match[3] or "") if match else ""
        value = self.values.get(name)
        self.used.add(name)
        if match and match[2]:
            value = joined(self.arrays[name], " ") if name in self.arrays else value
            value = value if "IFS" not in self.values else unknown(part.text, part.line)
        if value is None:
            return self._unset(name, operator, part)
        empty = operator.startswith(":") and not value.text
        if not operator or not value.known:
            return value if not operator.endswith("+") else unknown(part.text, part.line)
        if operator.endswith("+"):
            return TracedText() if empty else self._operand(part)
        return self._operand(part) if empty and not operator.endswith("?") else value

    def _unset(self, name: str, operator: str, part: WordPart) -> TracedText:
        """Return an unset variable's value; flags that it inherits are checked elsewhere."""
        line, flags = part.line, name in FLAG_VARIABLES
        before = self.inherited(name, line)
        if self.certain and not flags:
            return unknown(part.text, line)
        if operator[-1:] not in ("-", "=", "+"):
            return before if flags else unknown(part.text, line)
        value = self._operand(part)
        if value.text and not self.whole and (is_setting(name) or "--xla" in value.text):
            why = "read as unset: the default applies"
            self.found.setdefault((0, why), {})[line, name] = None
        if operator.endswith("+"):
            return before
        if operator.endswith("="):
            self.values[name] = value
        return before + value

    def inherited(self, name: str, line: int) -> TracedText:
        if name not in FLAG_VARIABLES or self.whole:
            return TracedText()
        return inherited(name, line)

    def _operand(self, part: WordPart) -> TracedText:
        match = _BRACED.fullmatch(part.text)
        text = (match[4] or "") if match else ""
        if len(text) > 1 and text[0] == text[-1] and text[0] not in text[1:-1] and text[0] in "\"'":
            if text[0] == "'" and part.quoted:
                return unknown(part.text, part.line)
            if text[0] == "'":
                return known(text[1:-1], part.line)
            text = text[1:-1]
        elif '"' in text or (not part.quoted and set("'\\~") & set(text)):
            return unknown(part.text, part.line)
        return self.expand(Lexer(text, self.where, part.line).operand())

    def elements(self, parts: list[WordPart]) -> list[TracedText]:
        elements: list[TracedText] = []
        inner: list[WordPart] = []
        for part in parts:
            if part.kind is not PartKind.ELEMENT:
                inner.append(part)
                continue
            if inner:
                elements += self.words(
                    Token(
                        "".join(element_part.text for element_part in inner),
                        part.line,
                        tuple(inner),
                    )
                )
            inner = []
        return elements

    def lose(self, name: str, line: int) -> None:
        """Mark a variable's value as unknown from here on."""
        if _NAME.fullmatch(name):
            self.arrays.pop(name, None)
            if name in self.values or not is_setting(name):
                self.values[name] = unknown(f"${name}", line)

    def computed(self, text: str, line: int) -> None:
        for match in _COMPUTED.finditer(text):
            self.lose(match[1] or match[2], line)

    def condition(self, name: str, own: Doubt | None) -> None:
        """Record why a value is doubtful: its block, and the variables it derives from."""
        parts = {
            variable: self.doubtful[variable]
            for variable in sorted(self.used)
            if variable in self.doubtful
        }
        self.doubtful.pop(name, None)
        if own:
            self.doubtful[name] = own
        for used, doubt in parts.items():
            if is_setting(name) or self.certain:
                self.doubt(used, doubt)
            else:
                self.doubtful.setdefault(name, doubt)
        if name in self.doubtful and (is_setting(name) or self.certain):
            self.doubt(name, self.doubtful[name])

    def doubt(self, name: str, doubt: Doubt) -> None:
        number, why, line = doubt
        self.found.setdefault((number, why), {})[line, name] = None

    def doubts(self) -> Iterator[str]:
        """Yield one note per block and reason: a script may have one `if` around everything."""
        for (_, why), places in self.found.items():
            lines = sorted({line for line, _ in places})
            names = list(dict.fromkeys(name for _, name in places))
            between = " and " if len(lines) == 2 else " to "
            ends = dict.fromkeys((str(lines[0]), str(lines[-1])))
            start = f"line{'s' * (len(lines) > 1)} {between.join(ends)}"
            rest = len(names) - _NAMED
            listed = ", ".join(names[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")
            yield f"{start}: {listed} {'is' if len(names) == 1 else 'are'} {why}"
