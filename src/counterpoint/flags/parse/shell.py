"""A shell script: the variables it has set when it ends, read statement by statement, never run.

Reads assignments, exports, appends, simple arrays, `${NAME:-default}`, `NAME=value command`, and
the content of `if`, `case` and loops, as if it ran, with a note. Everything else that may set
something (functions, heredocs, `eval`, other files) is listed as not read; a value that only a
shell could compute, such as arithmetic or a command's output, is a hole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from counterpoint.flags.parse.flag_values import (
    Assignment,
    ValueSource,
    may_set,
    read_flags,
)
from counterpoint.flags.parse.launcher import (
    MAXTEXT,
    LaunchCommand,
    is_harmless,
    slurm_numbers,
)
from counterpoint.flags.parse.shell_state import ShellState
from counterpoint.flags.parse.shell_words import Lexer, PartKind, Token, as_tokens
from counterpoint.flags.parse.traced import (
    TextBudget,
    TracedText,
    joined,
    known,
)
from counterpoint.flags.parsed import IssueKind, Location, Occurrence, ParsedSource
from counterpoint.flags.settings import FLAG_VARIABLES, Channel

_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)(\[[^]]*\])?(\+?)=", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_NAMED: Final = re.compile(r"([A-Za-z_]\w*)(?:\[.*|\+?=.*|[-+]*)", re.ASCII | re.DOTALL)
"""A word that may change the variable that it names."""
_HANDED: Final = re.compile(r"""LIBTPU_INIT_ARGS\+?=['"\\]*\$\{?XLA_FLAGS\b""")
"""Found in a text for another shell, it means that the flags are for libtpu."""
_DECLARE: Final = ("export", "declare", "typeset", "readonly", "local")
_ODD: Final = frozenset("inluc")
"""Options that make a variable's value differ from the assigned one."""
_READS: Final = ("source", ".", "eval")
_FILLS: Final = ("read", "mapfile", "readarray", "getopts", "let", "printf", "wait")
"""Commands that set the variables named by their words."""
_OPENING: Final = {
    "if": "if",
    "for": "for",
    "select": "for",
    "while": "while",
    "until": "while",
    "case": "case",
}
_CLOSING: Final = ("fi", "done", "esac")
_BETWEEN: Final = ("then", "do", "!", "time", "{", "}", "elif", "else", "coproc")
_ALL_EXPORTED: Final = re.compile(r"(?:^| )([-+])(?:[b-z]*+a[a-z]*+|o allexport)(?= |$)")
_DEEPEST: Final = 4


@dataclass(slots=True)
class ShellReader:
    """Follows the statements of a script, and sets its variables."""

    state: ShellState
    _functions: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    _depth: int = 0

    # Statements.

    def read(self, text: str, line: int = 1) -> None:
        """Follow a text to its end."""
        lexer = Lexer(text, self.state.where, line)
        self.follow(lexer.tokens())
        for at, body in lexer.heredocs:
            if may_set(body):
                self.state.leave(at, "the text of a heredoc")
        for odd in lexer.uncertain:
            self.state.leave(odd, "a command substitution with `case` or `<<`")

    def follow(self, tokens: Iterable[Token]) -> None:
        """Apply statements to the current variables."""
        stream, outer = iter(tokens), len(self.state.blocks)
        words: list[Token] = []
        before = "\n"
        for token in stream:
            kind = self.state.blocks[-1].kind if self.state.blocks else ""
            if not token.operator:
                words.append(token)
                if not self.state.passed_on and _HANDED.search(token.text, 1):
                    self.state.passed_on = token.line
                if len(words) == 2 and words[0].text == "function":
                    self._define(words[1], stream)
                    words = []
            elif kind == "case" and token.text in (")", "|", "("):  # a pattern
                if token.text == ")" and words and words[0].text == "esac":
                    self.state.blocks.pop()
                elif token.text == ")":
                    self.state.blocks[-1].kind = "case arm"
                words = []
            elif token.text == "(" and len(words) == 1:
                self._define(words[0], stream)
                words = []
            else:
                before = self._end(words, before, token.text, kind)
                words = []
        del self.state.blocks[outer:]

    def _end(self, words: list[Token], before: str, operator: str, kind: str) -> str:
        """Process a statement and the operator that ends it; return what precedes the next."""
        if operator == "(":
            self._run(words)
            if not words or self.state.blocks[-1:] == [] or self.state.blocks[-1].kind != "case":
                self.state.enter("( )")
            return "\n"
        doubts = [pipe for pipe in (before, operator) if pipe in ("|", "|&")]
        doubts += [before] if before in ("||", "&&") else []
        doubts += [operator] if operator == "&" else []
        if doubts:
            own = self.state.enter(doubts[0])
            self._run(words)
            if own in self.state.blocks:
                self.state.blocks.remove(own)
        else:
            self._run(words)
        if operator == ")" and kind == "( )":
            self.state.blocks.pop()
        elif operator in (";;", ";&", ";;&") and self.state.blocks:
            self.state.blocks[-1].arm += 1
            self.state.blocks[-1].kind = "case"
        elif operator == ")" and self.state.blocks and self.state.blocks[-1].kind == "case":
            self.state.blocks[-1].kind = "case arm"
        sure = all(_ASSIGNMENT.match(word.text) or word.text in _DECLARE for word in words)
        return "\n" if (operator == "&&" and sure) or operator == ")" else operator

    def _define(self, name: Token, stream: Iterator[Token]) -> None:
        """Skip a function, and record the variables that a call of it may change."""
        body: list[str] = []
        opening, depth, named = "", 0, False
        for token in stream:
            if not opening and (token.text == "{" or (token.text == "(" and named)):
                opening = token.text
            elif not opening and token.text not in ("(", ")", "\n"):
                break  # a body of another kind, or no function
            named = named or token.text == ")"
            closing = "}" if opening == "{" else ")"
            depth += (token.text == opening) - (bool(opening) and token.text == closing)
            body.append(token.text)
            if opening and not depth:
                break
        matches = (_NAMED.fullmatch(text) for text in body)
        self._functions[name.text] = {match[1] for match in matches if match}
        if may_set("\n".join(body)):
            self.state.leave(name.line, f"the function {name.text}")

    def _run(self, words: list[Token]) -> None:
        words = self._past_keywords(words)
        first = words[0].text if words else ""
        if first.startswith("(("):
            self.state.lose(_NAME.findall(first), words[0].line)
        elif first in _DECLARE:
            self._declare(words)
        elif first == "unset":
            for word in words[1:]:
                self.state.unset(word.text, word.line)
        elif first == "set":
            if match := _ALL_EXPORTED.search(" ".join(word.text for word in words[1:])):
                self.state.exports_all = match[1] == "-"
        elif first.startswith("--"):
            self._flags(words)
        elif words:
            self._command(words)

    def _past_keywords(self, words: list[Token]) -> list[Token]:
        for index, word in enumerate(words):
            if word.text in _OPENING:
                self.state.enter(_OPENING[word.text])
                if _OPENING[word.text] == "for":
                    self.state.lose((name.text for name in words[index + 1 : index + 2]), word.line)
                if word.text in ("for", "select", "case"):
                    return []
            elif word.text in _CLOSING:
                self.state.blocks = self.state.blocks[:-1]
            elif word.text in ("elif", "else") and self.state.blocks:
                self.state.blocks[-1].arm += 1
            elif word.text not in _BETWEEN:
                return words[index:]
        return []

    def _declare(self, words: list[Token]) -> None:
        if words[0].text == "local":  # functions are not read, and elsewhere it sets nothing
            return
        options = "".join(word.text[1:] for word in words[1:] if re.match(r"[-+]\w", word.text))
        exported = words[0].text == "export" or "x" in options
        taken_back = "n" in options or any(word.text == "+x" for word in words)
        for word in words[1:]:
            match = _ASSIGNMENT.match(word.parts[0].text) if word.parts else None
            if match and not match[2]:
                self.state.fixed |= {match[1]} if set(options) & _ODD else set()
                self._assign(word, match, exported=exported and not taken_back)
                self.state.fixed |= {match[1]} if "r" in options + words[0].text[:1] else set()
            elif word.text.startswith("--"):
                self.state.outside_quotes(word)
            elif re.match(r"[-+]\w", word.text):
                continue
            elif not _NAME.fullmatch(word.text):
                self.state.leave(word.line, f"{words[0].text} {word.text}")
            elif exported and not taken_back:
                self.state.exported.add(word.text)
            elif exported:
                self.state.exported.discard(word.text)
                self.state.assigned_at.pop(word.text, None)

    def _assign(self, word: Token, match: re.Match[str], *, exported: bool) -> None:
        name, parts = match[1], word.after(match.end())
        if match[2]:  # one element of an array
            self.state.lose([name], word.line)
        elif parts and parts[0].kind is PartKind.ARRAY:
            earlier = self.state.arrays.get(name) or [*filter(None, [self.state.values.get(name)])]
            elements = [value for part in parts[0].inner for value in self.state.words(part.inner)]
            elements = [*earlier, *elements] if match[3] else elements
            self.state.budget.spend_on(sum(element.size for element in elements), word.line)
            self.state.assign(name, elements[0] if elements else TracedText(), word.line)
            self.state.arrays[name] = elements  # bash exports no arrays
            self.state.exported.discard(name)
        elif match[3] and name in self.state.arrays:
            self.state.lose([name], word.line)
        else:
            value = self.state.expand(parts)
            self.state.assign(name, value, word.line, adds=bool(match[3]), exported=exported)

    def _flags(self, words: list[Token]) -> None:
        """Read flags on a line of their own, as in notes; XLA removes their quotes."""
        if not words[0].text.startswith(("--xla", "--megascale")):
            return
        values = [
            self.state.expand(word.parts)
            if set("$`") & set(word.text)
            else known(word.text, word.line)
            for word in words
        ]
        adds = "XLA_FLAGS" in self.state.values
        between = [known(" ", words[0].line)] if adds and self.state.bare else []
        self.state.bare = True
        value = joined([*between, joined(values, " ")])
        self.state.assign("XLA_FLAGS", value, words[0].line, adds=adds, exported=True)

    def _command(self, words: list[Token]) -> None:
        """Process a command with its assignments, which persist if no command follows."""
        matches = [_ASSIGNMENT.match(word.text) for word in words]
        count = next((at for at, match in enumerate(matches) if match is None), len(words))
        before = [(word, match) for word, match in zip(words, matches, strict=True) if match]
        if count == len(words):
            for word, match in before:
                self._assign(word, match, exported=False)
            return
        if count and words[count].text in (*_DECLARE, *_READS, "unset", "set"):
            self.state.leave(words[0].line, " ".join(word.text for word in words))
            return
        overlay = [
            Assignment(match[1], self.state.expand(word.after(match.end())), line=word.line)
            for word, match in before[:count]
        ]
        if overlay and words[count].text.startswith("--xla"):
            self.state.outside_quotes(words[count])
        values = [
            (value, word.line) for word in words[count:] for value in self.state.command_word(word)
        ]
        if values:
            self._start(values, overlay)

    def _start(self, words: list[tuple[TracedText, int]], overlay: list[Assignment]) -> None:
        """Process a command; `overlay` are the variables before it."""
        texts = [value.shown for value, _ in words]
        name, line = texts[0].rpartition("/")[2], words[0][1]
        if name in _FILLS:
            self.state.lose(texts[1:], line)
        elif name in _READS and texts[1:] and texts[1] != "set":
            self.state.leave(line, " ".join(texts))
        if name in (*_FILLS, *_READS) or is_harmless(texts):
            return
        for variable in overlay:
            self.state.give(variable)
        self._launch(LaunchCommand(words, texts))
        self.state.lose(self._functions.get(texts[0], set()) & self.state.values.keys(), line)
        self.state.programs += 1

    def _launch(self, command: LaunchCommand) -> None:
        """Process the words of a command that pass variables on."""
        self.state.budget.spend_on(command.work, command.words[0][1])
        self.state.numbers += command.numbers
        if command.records and not self.state.nsys:
            self.state.nsys, self.state.nsys_line = True, command.words[0][1] or None
        taken: set[int] = set()
        scripts: list[tuple[TracedText, int]] = []
        for passed in command.passed():
            line = command.words[passed.at][1]
            if passed.name:
                self.state.give(Assignment(passed.name, passed.value, passed.via, line))
            elif passed.via == "bash -c":
                scripts.append((passed.value, line))
            elif passed.via == "srun --export":
                self._check_export(passed.value, line)
                continue
            elif passed.via == MAXTEXT:
                source = ValueSource(
                    self.state.where, Channel.COMPILER_OPTIONS, f"MaxText {MAXTEXT}"
                )
                found = read_flags(passed.value, source)
                self.state.options += found.given
                self.state.issues += found.issues
            else:
                if passed.value.shown:
                    self.state.leave(line, passed.value.shown)
                continue
            taken.add(passed.at)
        self.state.options += (
            Occurrence(
                channel=Channel.TRAINER,
                name=option.name,
                value=option.value.shown,
                place=Location(self.state.where, command.words[option.at][1] or None),
                text=f"--{option.name}={option.value.shown}",
                known=option.value.known,
            )
            for option in command.trainer_options()
        )
        for script, line in scripts:
            self._nested(script, line)
        for text in command.unread(taken):
            self.state.leave(command.words[0][1], text)

    def _check_export(self, value: TracedText, line: int) -> None:
        """Report what `srun --export` cuts off, or does not pass on without ALL."""
        items = value.text.partition("=")[2].split(",")
        for item in items:
            if item and (item.startswith("-") or not ("=" in item or item.isidentifier())):
                why = "Slurm ends a variable at the comma; what follows is lost"
                self.state.issue(IssueKind.STRAY, "XLA_FLAGS", item, why, line)
        passed = {item.partition("=")[0] for item in items}
        for name in FLAG_VARIABLES:
            at = self.state.assigned_at.get(name)
            if at and at.line and name in self.state.exported and not passed & {"ALL", name}:
                why = f"without ALL, srun does not pass on the export of line {at.line}"
                suggestion = value.shown.replace("--export=", "--export=ALL,").replace(",NONE", "")
                self.state.issue(IssueKind.OVERWRITTEN, name, value.shown, why, line, suggestion)

    def _nested(self, script: TracedText, line: int) -> None:
        """Read the script of `bash -c`, which also inherits the variables of its command."""
        if not script.known or self._depth > _DEEPEST:
            self.state.leave(line, f"bash -c {script.shown}")
            return
        self.state.budget.spend_on(len(script.text) // 4, line)
        own = {name: variable.value for name, variable in self.state.for_command.items()}
        outer, self.state.values, self._depth = (
            self.state.values,
            self.state.values | own,
            self._depth + 1,
        )
        self.read(script.text, script.line or line)
        changed = {name: it for name, it in self.state.values.items() if it is not own.get(name)}
        self.state.values, self._depth = outer | changed, self._depth - 1


def read_shell(
    text: str,
    where: str,
    *,
    line: int = 1,
    before: Mapping[str, TracedText] | None = None,
    whole: bool = False,
    budget: TextBudget | None = None,
) -> ParsedSource:
    """Return the settings of programs started by a script. `before`: its inherited environment."""
    state = ShellState(where, budget or TextBudget(where), dict(before or {}), whole=whole)
    ShellReader(state).read(text, line)
    return replace(state.parsed(slurm_numbers(text)), source=text if state.mixed else "")


def read_words(
    words: Sequence[str],
    where: str,
    before: Mapping[str, TracedText],
    script: tuple[str, str] | None,
) -> ParsedSource:
    """Read a command in words, and the shell script (name and text) that it starts."""
    outer = ShellState(where, TextBudget(where), dict(before), whole=True)
    ShellReader(outer).follow(as_tokens(words))
    if script is None:
        return outer.parsed()
    name, text = script
    given = {variable.name: variable.value for variable in outer.assigned()}
    parsed, inner = outer.parsed(), read_shell(text, name, before=given, whole=True)
    return replace(
        inner,
        nsys=outer.nsys or inner.nsys,
        nsys_line=None if outer.nsys else inner.nsys_line,
        given=(*inner.given, *outer.options),
        issues=(*outer.issues, *inner.issues),
        layout=inner.layout or parsed.layout,
        notes=(*parsed.notes, *inner.notes),
        unread=(*parsed.unread, *inner.unread),
        source="",
    )
