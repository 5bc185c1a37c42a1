"""A shell script followed to its end: which variables a program started by it would find.

Nothing is run. Bodies of `if`, `for` and `case` are read as if they ran, functions and heredocs
are not read, and each of these is said in a note.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from counterpoint.flags.sources.commands import Commands
from counterpoint.flags.sources.shell_lexer import Kind, Lexer, Part, Token
from counterpoint.flags.sources.shell_values import Values
from counterpoint.flags.sources.state import State
from counterpoint.flags.sources.traced import Traced, joined

_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)(\[[^]]*\])?(\+?)=")
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_DECLARE: Final = ("export", "declare", "typeset", "readonly", "local")
_OPENING: Final = {"if": "if", "for": "for", "select": "for", "while": "while", "until": "while"}
_CLOSING: Final = ("fi", "done", "esac")
_BETWEEN: Final = ("then", "do", "!", "time", "{", "}", "elif", "else", "coproc")
_REDIRECTIONS: Final = ("<", ">", ">>", ">|", "<<<", "<&", ">&", "&>", "&>>")


@dataclass(slots=True)
class Reader:
    """The state of reading one script; nested scripts share the state of variables."""

    state: State
    tokens: list[Token]
    at: int = 0

    def read(self) -> None:
        """Everything, statement by statement."""
        while self.at < len(self.tokens):
            if self.state.in_patterns:
                self._pattern()
                continue
            words = list(self._statement())
            if words:
                self._run(words)
            self._operator()

    def _pattern(self) -> None:
        """Up to the bracket behind a pattern of `case`, or to `esac`."""
        token = self.tokens[self.at]
        self.at += 1
        if token.text == "esac" and not token.operator:
            self.state.leave()
        elif token.text == ")" and token.operator:
            self.state.in_patterns = False

    def _operator(self) -> None:
        if self.at >= len(self.tokens):
            return
        text = self.tokens[self.at].text
        self.at += 1
        if text in (";;", ";&", ";;&"):
            self.state.next_arm()
            self.state.in_patterns = self.state.in_case

    def _statement(self) -> Iterator[Token]:
        """The words up to the next operator; what files it reads and writes is left out."""
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            if token.operator and token.text in _REDIRECTIONS:
                self.at += 2
                continue
            if token.operator:
                return
            self.at += 1
            yield token

    def _run(self, words: list[Token]) -> None:
        words = self._past_keywords(words)
        if not words:
            return
        first = words[0].text
        if first == "function" or (self._operator_is("(") and len(words) == 1):
            self._skip_function()
        elif first in ("[[", "[", "((", "test"):
            return
        elif first in _DECLARE:
            self._declare(words)
        elif first == "unset":
            for word in words[1:]:
                self.state.unset(word.text)
        elif first == "set":
            self.state.exports_all = self.state.exports_all or "-a" in [it.text for it in words]
        elif first.startswith("--"):
            self._flags(words)
        else:
            self._command(words)

    def _past_keywords(self, words: list[Token]) -> list[Token]:
        for index, word in enumerate(words):
            if word.text in _OPENING:
                self.state.enter(_OPENING[word.text], word.line)
                if word.text in ("for", "select"):
                    return []
            elif word.text == "case":
                self.state.enter("case", word.line)
                self.state.in_patterns = True
                return []
            elif word.text in _CLOSING:
                self.state.leave()
            elif word.text in ("elif", "else"):
                self.state.next_arm()
            elif word.text not in _BETWEEN:
                return words[index:]
        return []

    def _operator_is(self, text: str) -> bool:
        return self.at < len(self.tokens) and self.tokens[self.at].text == text

    def _skip_function(self) -> None:
        """Go behind the bracket that closes the body."""
        line, depth, begun = self.tokens[self.at - 1].line, 0, False
        sets = False
        while self.at < len(self.tokens) and not (begun and depth == 0):
            token = self.tokens[self.at]
            opens = token.text == "{" or (token.operator and token.text == "(")
            closes = token.text == "}" or (token.operator and token.text == ")")
            depth += opens - closes
            begun = begun or token.text == "{"
            sets = sets or "XLA_FLAGS" in token.text
            self.at += 1
        if sets:
            self.state.note(f"line {line}: what the function sets is not read")

    def _declare(self, words: list[Token]) -> None:
        options = [it.text for it in words[1:] if it.text.startswith("-") and len(it.text) == 2]
        exported = words[0].text == "export" or "-x" in options
        if "-n" in options or words[0].text == "local":
            return
        for word in words[1:]:
            if word.text in options:
                continue
            if word.text.startswith("--"):
                self.state.outside_quotes(word.text, word.line)
            elif not self._assign(word, exported=exported) and _NAME.fullmatch(word.text):
                self.state.export(word.text)

    def _assign(self, word: Token, *, exported: bool) -> bool:
        name, plus, value = self._assignment(word)
        if name is None:
            return False
        self.state.assign(name, value, word.line, adds=plus, exported=exported)
        return True

    def _assignment(self, word: Token) -> tuple[str | None, bool, Traced]:
        """Name, whether it is `+=`, and the value; None where the word is no assignment."""
        match = _ASSIGNMENT.match(word.text)
        if not match or match[2]:
            return None, False, Traced()
        return match[1], bool(match[3]), self.state.values.expand(_behind(word.parts, match.end()))

    def _flags(self, words: list[Token]) -> None:
        """Flags that stand in a line of their own, as in notes."""
        if not words[0].text.startswith(("--xla", "--megascale")):
            return
        value = joined((self.state.values.expand(word.parts) for word in words), " ")
        self.state.assign("XLA_FLAGS", value, words[0].line, adds=True, exported=True)

    def _command(self, words: list[Token]) -> None:
        """A command with the assignments before it; these stay where no command follows."""
        count = 0
        while count < len(words) and _ASSIGNMENT.match(words[count].text):
            count += 1
        if count == len(words):
            for word in words:
                self._assign(word, exported=False)
            return
        own = [(self._assignment(word), word.line) for word in words[:count]]
        overlay = [(name, value, line) for (name, _, value), line in own if name]
        if overlay and words[count].text.startswith("--xla"):
            self.state.outside_quotes(words[count].text, words[count].line)
        values = [(self.state.values.expand(it.parts), it.line) for it in words[count:]]
        for script, line in Commands(self.state).start(values, overlay):
            self._nested(script, line)

    def _nested(self, script: Traced, line: int) -> None:
        """What stands behind `bash -c`, which finds the variables of its command, too."""
        values, lexer = self.state.values.known, Lexer(script.shown, self.state.where, line)
        lexer.line = script.line or line
        own = {name: one.value for name, one in self.state.for_command.items()}
        before = {name: values.get(name) for name in own}
        values.update(own)
        Reader(self.state, list(lexer.tokens())).read()
        for name, value in before.items():
            if values.get(name) is own[name]:
                values.pop(name)
                values |= {name: value} if value is not None else {}


def _behind(parts: tuple[Part, ...], count: int) -> list[Part]:
    """The parts behind the first `count` characters, which are plain text."""
    left: list[Part] = []
    for part in parts:
        if part.kind is not Kind.TEXT or count <= 0:
            left.append(part)
            continue
        left += [Part(part.kind, part.text[count:], part.line)] if count < len(part.text) else []
        count -= len(part.text)
    return left


def follow(
    text: str, where: str, *, line: int = 1, before: Mapping[str, Traced] | None = None
) -> State:
    """What a script has set when it ends. `before`: what it finds in its environment."""
    lexer = Lexer(text, where, line)
    state = State(where, Values(where, dict(before or {})))
    for name in before or {}:
        state.inherit(name)
    Reader(state, list(lexer.tokens())).read()
    for heredoc in lexer.heredocs:
        state.note(f"line {heredoc}: the text of the heredoc is not read")
    return state


def follow_words(words: Sequence[str], where: str, before: Mapping[str, Traced]) -> State:
    """What one command line sets that is already split into words."""
    tokens = [Token(word, 0, (Part(Kind.TEXT, word, 0),)) for word in words]
    state = State(where, Values(where, dict(before)))
    for name in before:
        state.inherit(name)
    Reader(state, [*tokens, Token("\n", 0, operator=True)]).read()
    return state
