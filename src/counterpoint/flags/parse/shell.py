"""A shell script: the variables it has set when it ends, read statement by statement, never run.

Reads assignments, exports, appends, arrays, `${NAME:-default}`, `NAME=value command`, and the
content of `if`, `case` and loops, as if it ran, with a note. Everything else that may set something
(functions, heredocs, `eval`, other files) is listed as not read; a value that only a shell could
compute, such as arithmetic or a command's output, is a hole.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from counterpoint.flags.parse.flag_values import (
    Assignment,
    may_set,
)
from counterpoint.flags.parse.launcher import (
    HARMLESS_COMMANDS,
    LaunchCommand,
    layout_of,
    slurm_numbers,
)
from counterpoint.flags.parse.shell_state import Numbers, ShellState
from counterpoint.flags.parse.shell_words import (
    Lexer,
    PartKind,
    Token,
    as_tokens,
    has_braces,
)
from counterpoint.flags.parse.traced import (
    TextBudget,
    TracedText,
    joined,
    known,
)
from counterpoint.flags.parsed import ParsedSource

_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)(\[[^]]*\])?(\+?)=", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_HANDED: Final = re.compile(r"""LIBTPU_INIT_ARGS\+?=['"\\]*\$\{?XLA_FLAGS\b""")
"""Found in a text for another shell, it means that the flags are for libtpu."""
_SBATCH: Final = re.compile(r"^#SBATCH[ \t]+([^\n]*)", re.MULTILINE)
_DECLARE: Final = ("export", "declare", "typeset", "readonly", "local")
_ODD: Final = frozenset("inluc")
"""Options that make a variable's value differ from the assigned one."""
_OPENING: Final = {"if": "if", "for": "for", "select": "for", "while": "while", "until": "while"}
_CLOSING: Final = ("fi", "done", "esac")
_ENDS: Final = {
    "{": "}",
    "(": ")",
    "case": "esac",
    "if": "fi",
    **dict.fromkeys(("for", "select", "while", "until"), "done"),
}
_BETWEEN: Final = ("then", "do", "!", "time", "{", "}", "elif", "else", "coproc")
_REDIRECTIONS: Final = (">", ">>", ">|", "&>", "&>>", "<", "<<<", "<&", ">&")
_FILLS: Final = ("read", "mapfile", "readarray", "getopts", "let", "printf", "wait")
"""Commands that set the variables named by their words."""
_DEEPEST: Final = 4


@dataclass(slots=True)
class ShellReader:
    """Follows the statements of a script, and sets its variables."""

    state: ShellState
    _functions: set[str] = field(default_factory=set[str])
    _touched: dict[str, int] = field(default_factory=dict[str, int])  # what functions may set
    _depth: int = 0
    _tokens: Sequence[Token] = ()
    _at: int = 0

    def read(self, text: str, line: int = 1) -> None:
        """Follow a text to its end."""
        lexer = Lexer(text, self.state.where, line)
        self.follow(list(lexer.tokens()))
        for odd in lexer.odd:
            self.state.leave(odd, "a command substitution with `case` or `<<`")

    def follow(self, tokens: Sequence[Token]) -> None:
        """Apply statements to the current variables."""
        outer = (self._tokens, self._at, len(self.state.blocks))
        self._tokens, self._at = tokens, 0
        before = "\n"
        while self._at < len(tokens):
            words, operator = self._statement()
            sure = all(_ASSIGNMENT.match(word.text) or word.text in _DECLARE for word in words)
            doubts = [pipe for pipe in (before, operator) if pipe in ("|", "|&")]
            doubts += [before] if before in ("||", "&&") else []
            doubts += [operator] if operator == "&" else []
            if doubts:
                self._maybe(words, doubts[0])
            else:
                self._run(words)
            before = "\n" if operator == "&&" and sure else operator
        del self.state.blocks[outer[2] :]
        self._tokens, self._at, _ = outer

    def _maybe(self, words: list[Token], operator: str) -> None:
        """Process a statement that may not run (`a || b`), or runs in another shell (`a | b`)."""
        depth = len(self.state.blocks)
        self.state.enter(operator)
        block = self.state.blocks[-1]
        self._run(words)
        if block in self.state.blocks[depth:]:
            self.state.blocks.remove(block)

    def _statement(self) -> tuple[list[Token], str]:
        """Return the words up to the next operator, and the operator, without redirections."""
        words: list[Token] = []
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            self._at += 1
            if not token.operator:
                words.append(token)
                if not self.state.passed_on and _HANDED.search(token.text, 1):
                    self.state.passed_on = token.line
                if token.text == "[[" and len(words) == 1:
                    self._past("]]")
                continue
            if token.text in _REDIRECTIONS:
                self._at += 1
                continue
            if may_set(token.body):
                self.state.leave(token.line, "the text of a heredoc")
            return self._operator(token, words)
        return words, "\n"

    def _operator(self, token: Token, words: list[Token]) -> tuple[list[Token], str]:
        """Handle an operator that opens or closes a block."""
        kind = self.state.blocks[-1].kind if self.state.blocks else ""
        if token.text == "(" and len(words) == 1 and self._next_is(")"):
            self._define(words[0].text, token.line)
            return [], "\n"
        if kind == "case" and token.text in (")", "|", "(") and self._in_pattern(words):
            return [], "\n"
        if token.text == "(":
            self.state.enter("( )")
        elif token.text == ")" and kind == "( )":
            self._run(words)
            self.state.blocks.pop()
            return [], "\n"
        elif token.text in (";;", ";&", ";;&") and self.state.blocks:
            self._run(words)
            self.state.blocks[-1].arm += 1
            self.state.blocks[-1].kind = "case"
            return [], "\n"
        return words, token.text

    def _in_pattern(self, words: list[Token]) -> bool:
        """Enter a branch of a `case` after its pattern; before that, close the block at `esac`."""
        if self._tokens[self._at - 1].text == ")":
            if words and words[0].text == "esac":
                self.state.blocks.pop()
            else:
                self.state.blocks[-1].kind = "case arm"
        return True

    def _past(self, text: str) -> None:
        while self._at < len(self._tokens):
            self._at += 1
            if self._tokens[self._at - 1].text == text:
                return

    def _next_is(self, text: str) -> bool:
        return self._at < len(self._tokens) and self._tokens[self._at].text == text

    def _define(self, name: str, line: int) -> None:
        """Skip a function, and record the variables that a call of it may change."""
        opened: list[str] = []
        begun, sets, start, previous = False, False, True, ""
        self._functions.add(name)
        while self._at < len(self._tokens) and not (begun and not opened):
            token = self._tokens[self._at]
            self._at += 1
            if not begun and token.text in ("(", ")", "\n") and not self._opens_body(token):
                continue
            begun = True
            if token.text in _ENDS and (token.operator or start):
                opened.append(_ENDS[token.text])
            elif opened and token.text == opened[-1] and (token.operator or start):
                opened.pop()
            sets = sets or may_set(token.text) or may_set(token.body)
            if match := _ASSIGNMENT.match(token.text):
                self._touched[match[1]] = line
            elif previous in (*_DECLARE, *_FILLS, "unset", "for") and _NAME.fullmatch(token.text):
                self._touched[token.text] = line
            start = token.operator or token.text in _BETWEEN
            previous = "" if token.operator else previous or token.text
        if sets:
            self.state.leave(line, f"the function {name}")

    def _opens_body(self, token: Token) -> bool:
        """Return whether it opens a body in a subshell, rather than `name()`."""
        return token.text == "(" and not self._next_is(")")

    def _run(self, words: list[Token]) -> None:
        self.state.used = set()
        words = self._past_keywords(words)
        if not words:
            return
        first = words[0].text
        if first == "function" and len(words) > 1:
            self._define(words[1].text, words[0].line)
        elif first.startswith("(("):
            self.state.computed(first, words[0].line)
        elif first in ("[[", "[", "test"):
            return
        elif first in _DECLARE:
            self._declare(words)
        elif first == "unset":
            for word in words[1:]:
                self.state.forget(word.text, word.line)
        elif first == "set":
            self._set_options([word.text for word in words[1:]])
        elif first.startswith("--"):
            self._flags(words)
        else:
            self._command(words)

    def _past_keywords(self, words: list[Token]) -> list[Token]:
        for index, word in enumerate(words):
            if word.text in _OPENING:
                self.state.enter(_OPENING[word.text])
                if word.text in ("for", "select"):
                    for name in words[index + 1 : index + 2]:
                        self.state.lose(name.text, name.line)
                    return []
            elif word.text == "case":
                self.state.enter("case")
                return []
            elif word.text in _CLOSING:
                self.state.blocks = self.state.blocks[:-1]
            elif word.text in ("elif", "else") and self.state.blocks:
                self.state.blocks[-1].arm += 1
            elif word.text not in _BETWEEN:
                return words[index:]
        return []

    def _set_options(self, words: list[str]) -> None:
        if any(re.fullmatch(r"-[a-z]*a[a-z]*", word) for word in words) or "allexport" in words:
            self.state.exports_all = "+o" not in words
        elif any(re.fullmatch(r"\+[a-z]*a[a-z]*", word) for word in words):
            self.state.exports_all = False

    def _declare(self, words: list[Token]) -> None:
        if words[0].text == "local":  # functions are not read, and elsewhere it sets nothing
            return
        readonly = ["-r"] if words[0].text == "readonly" else []
        options = [
            *readonly,
            *(word.text for word in words[1:] if re.fullmatch(r"[-+][A-Za-z]+", word.text)),
        ]
        exported = words[0].text == "export" or any("x" in option for option in options)
        odd = bool(set("".join(options)) & _ODD)
        for word in words[1:]:
            if word.text in options:
                continue
            match = _ASSIGNMENT.match(word.parts[0].text) if word.parts else None
            if match and not match[2]:
                self._assign(word, match, exported=exported and "+x" not in options)
                if odd or has_braces(word):
                    self.state.lose(match[1], word.line)
                self.state.fixed |= {match[1]} if odd or "-r" in options else set()
            elif word.text.startswith("--"):
                self.state.outside_quotes(word.text, word.line)
            elif not _NAME.fullmatch(word.text):
                self.state.leave(word.line, f"{words[0].text} {word.text}")
            elif exported and not {"-n", "+x"} & set(options):
                self.state.exported.add(word.text)
            elif exported:
                self.state.exported.discard(word.text)
                self.state.assigned_at.pop(word.text, None)

    def _assign(self, word: Token, match: re.Match[str], *, exported: bool) -> None:
        name, line = match[1], word.line
        parts = word.behind(match.end())
        if match[2]:  # one element of an array
            self.state.lose(name, line)
        elif any(part.kind is PartKind.ELEMENT for part in parts):
            elements = self.state.elements(parts)
            if match[3]:
                earlier = self.state.arrays.get(name) or [
                    *filter(None, [self.state.values.get(name)])
                ]
                elements = [*earlier, *elements]
            self.state.budget.spend_on(sum(element.size for element in elements), line)
            first = elements[0] if elements else TracedText()
            self.state.assign(name, first, line, exported=exported)
            self.state.arrays[name] = elements
            self.state.exported.discard(name)  # bash exports no arrays
        else:
            if match[3] and name in self.state.arrays:
                self.state.lose(name, line)
            self.state.assign(
                name,
                self.state.expand(parts),
                line,
                adds=bool(match[3]),
                exported=exported,
            )

    def _flags(self, words: list[Token]) -> None:
        """Read flags on a line of their own, as in notes; XLA removes their quotes."""
        if not words[0].text.startswith(("--xla", "--megascale")):
            return
        value = joined(
            (
                self.state.expand(word.parts) if "$" in word.text or "`" in word.text
                else known(word.text, word.line)
                for word in words
            ),
            " ",
        )  # fmt: skip
        self.state.bare.add("XLA_FLAGS")
        self.state.assign("XLA_FLAGS", value, words[0].line, adds=True, exported=True)

    def _command(self, words: list[Token]) -> None:
        """Process a command with its assignments, which persist if no command follows."""
        matches = [_ASSIGNMENT.match(word.text) for word in words]
        count = next((at for at, match in enumerate(matches) if match is None), len(words))
        if count == len(words):
            for word, match in zip(words, matches, strict=True):
                if match:
                    self._assign(word, match, exported=False)
            return
        if count and words[count].text in (*_DECLARE, "eval", "source", ".", "unset"):
            self.state.leave(words[0].line, " ".join(word.text for word in words))
            return
        overlay = [
            Assignment(match[1], self.state.expand(word.behind(match.end())), line=word.line)
            for word, match in zip(words[:count], matches, strict=False)
            if match
        ]
        used, self.state.used = self.state.used, set()
        words = words[count:]
        if overlay and words[0].text.startswith("--xla"):
            self.state.outside_quotes(words[0].text, words[0].line)
        values = [(value, word.line) for word in words for value in self.state.words(word)]
        if values:
            self.state.used, used = used, self.state.used
            self._start(values, overlay, used)

    def _start(
        self, words: list[tuple[TracedText, int]], overlay: list[Assignment], used: set[str]
    ) -> None:
        """Process a command; `used` are the variables in its words, not those before it."""
        texts = [value.shown for value, _ in words]
        name, line = texts[0].rpartition("/")[2], words[0][1]
        if name in (*_FILLS, "source", ".", "eval"):
            self._builtin(name, texts, line)
        if name in (*_FILLS, *HARMLESS_COMMANDS, "source", ".", "eval"):
            return
        for variable in overlay:
            self.state.give(variable)
        self.state.used = used
        launch = LaunchCommand(self.state, words, texts)
        launch.read()
        if texts[0] in self._functions:
            for lost in self._touched.keys() & self.state.values.keys():
                self.state.lose(lost, self._touched[lost])
        for script, at in launch.scripts:
            self._nested(script, at)
        for text in launch.left:
            self.state.leave(line, text)
        self.state.programs += 1

    def _builtin(self, name: str, texts: list[str], line: int) -> None:
        """Process a shell builtin that sets variables."""
        if name in _FILLS:
            for text in texts[1:]:
                self.state.lose(text.partition("=")[0].rstrip("+-"), line)
        elif texts[1:] and texts[1] != "set":
            self.state.leave(line, " ".join(texts))

    def _nested(self, script: TracedText, line: int) -> None:
        """Read the script of `bash -c`, which also inherits the variables of its command."""
        self._depth += 1
        if not script.known or self._depth > _DEEPEST:
            self.state.leave(line, f"bash -c {script.shown}")
        else:
            values, arrays = self.state.values, self.state.arrays
            self.state.budget.spend_on(len(script.text) // 4, line)
            own = {name: variable.value for name, variable in self.state.for_command.items()}
            self.state.values, self.state.arrays = values | own, {}
            lexer = Lexer(script.text, self.state.where, script.line or line)
            self.follow(list(lexer.tokens()))
            for name, value in self.state.values.items():
                if value is not own.get(name):
                    values[name] = value
            self.state.values, self.state.arrays = values, arrays
        self._depth -= 1


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
    for name in before or {}:
        state.inherit(name)
    numbers: Numbers = ()
    for match in _SBATCH.finditer(text):
        try:
            words = shlex.split(match[1], comments=True)
        except ValueError:
            words = match[1].split()
        numbers += slurm_numbers(words)
    ShellReader(state).read(text, line)
    return _parsed(state, numbers)


def _parsed(state: ShellState, numbers: Numbers = ()) -> ParsedSource:
    """Build the result; `numbers` are those of the job around the script."""
    layout = layout_of((*numbers, *state.numbers))
    return state.parsed("slurm" if numbers else "shell", layout)


def read_words(
    words: Sequence[str],
    where: str,
    before: Mapping[str, TracedText],
    script: tuple[str, str] | None,
) -> ParsedSource:
    """Read a command in words, and the shell script (name and text) that it starts."""
    outer = ShellState(where, TextBudget(where), dict(before), whole=True)
    for name in before:
        outer.inherit(name)
    ShellReader(outer).follow(as_tokens(words))
    if script is None:
        return _parsed(outer)
    name, text = script
    given = {variable.name: variable.value for variable in outer.assigned()}
    parsed, inner = _parsed(outer), read_shell(text, name, before=given, whole=True)
    return replace(
        inner,
        given=(*inner.given, *outer.options),
        issues=(*outer.issues, *inner.issues),
        layout=inner.layout or parsed.layout,
        notes=(*parsed.notes, *inner.notes),
        unread=(*parsed.unread, *inner.unread),
    )
