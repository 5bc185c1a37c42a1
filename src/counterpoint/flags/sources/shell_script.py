"""A shell script followed to its end: which variables a program started by it would find.

Nothing is run. Bodies of `if`, `for` and `case` are read as if they ran. A function is read where
it is called, and a script that a heredoc holds where it is started. What may set something and is
not read (a function that nothing calls, `source`) is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from counterpoint.core.errors import InputError
from counterpoint.flags.sources.commands import QUIET, Commands
from counterpoint.flags.sources.shell_bodies import RUNS_ITS_INPUT, function_body, script_body
from counterpoint.flags.sources.shell_lexer import Heredoc, Lexer, Token, as_tokens, behind
from counterpoint.flags.sources.shell_values import Values
from counterpoint.flags.sources.state import Body, State
from counterpoint.flags.sources.traced import Budget, Traced, joined, known
from counterpoint.flags.sources.variables import TPU, may_set

_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)(\[[^]]*\])?(\+?)=")
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_DECLARE: Final = ("export", "declare", "typeset", "readonly", "local")
_OPENING: Final = {"if": "if", "for": "for", "select": "for", "while": "while", "until": "while"}
_CLOSING: Final = ("fi", "done", "esac")
_BETWEEN: Final = ("then", "do", "!", "time", "{", "}", "elif", "else", "coproc")
_WRITES: Final = (">", ">>", ">|", "&>", "&>>")
_REDIRECTIONS: Final = (*_WRITES, "<", "<<<", "<&", ">&")
_HANDED: Final = re.compile(TPU + r"""\+?=['"\\]*\$\{?(XLA_FLAGS)\b""")
_MANY: Final = re.compile(r"[@*]")
_PER_TOKEN: Final = 4
"""What a word of a function's body counts each time: it is followed, not only put together."""
_MOST_CALLS: Final = 300


@dataclass(slots=True)
class Reader:
    """The state of reading one script; nested scripts share the state of variables."""

    state: State
    tokens: Sequence[Token]
    at: int = 0
    heredocs: list[Heredoc] = field(default_factory=list[Heredoc])  # of the statement
    targets: list[str] = field(default_factory=list[str])  # files it writes

    def read(self) -> None:
        """Everything, statement by statement."""
        while self.at < len(self.tokens):
            if self.state.in_patterns:
                self._pattern()
                continue
            self.heredocs, self.targets = [], []
            words = list(self._statement())
            if words:
                self._run(words)
            if self.heredocs:
                self._take_heredocs([word.text.rpartition("/")[2] for word in words], words)
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
            if token.heredoc:
                self.heredocs.append(token.heredoc)
                self.at += 1
                continue
            if token.operator and token.text in _REDIRECTIONS:
                if token.text in _WRITES and self.at + 1 < len(self.tokens):
                    self.targets.append(self._shown(self.tokens[self.at + 1]))
                self.at += 2
                continue
            if token.operator:
                return
            if match := _HANDED.search(token.text, 1):
                self.state.handed.setdefault(match[1], token.line)
            self.at += 1
            yield token

    def _shown(self, word: Token) -> str:
        return self.state.values.expand(word.parts).shown

    def _run(self, words: list[Token]) -> None:
        words = self._past_keywords(words)
        if not words:
            return
        first = words[0].text
        if first == "function" or (self._operator_is("(") and len(words) == 1):
            self._define(words[-1])
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

    def _define(self, name: Token) -> None:
        """Keep the function's body for its calls."""
        body, self.at = function_body(self.tokens, self.at, name.line)
        earlier = self.state.functions.get(name.text)
        body.read = bool(earlier and earlier.read)
        self.state.functions[name.text] = body

    def _call(self, arguments: list[Traced], body: Body) -> None:
        """A function with its arguments, which are `$1` and so on within it."""
        values, whole = self.state.values.known, joined(arguments, " ")
        before = self._forget_arguments()
        for number, value in enumerate(arguments, 1):
            if _MANY.search(value.shown):  # nobody knows how many it stands for
                break
            values[str(number)] = value
        values |= dict.fromkeys("@*", whole)
        self._read(body)
        self._forget_arguments()
        values |= before

    def _forget_arguments(self) -> dict[str, Traced]:
        values = self.state.values.known
        return {name: values.pop(name) for name in list(values) if name.isdigit() or name in "@*"}

    def _read(self, body: Body) -> None:
        """What a function or a script sets, once for each time it is run."""
        if body.running:
            return
        self.state.calls += 1
        if self.state.calls > _MOST_CALLS:
            self.state.leave_unread(f"line {body.line}: run too often to be read each time")
            return
        self.state.values.spend_on(_PER_TOKEN * len(body.tokens), body.line)
        body.read = body.running = True
        with self.state.within():
            Reader(self.state, body.tokens).read()
        body.running = False

    def _take_heredocs(self, commands: list[str], words: list[Token]) -> None:
        """The heredocs of one statement, whose words are looked at once for all of them."""
        targets = self.targets
        if "tee" in commands:
            targets = [self._shown(word) for word in words[commands.index("tee") + 1 :]]
        targets = [name for name in targets if name and name[0] != "-" and name != "/dev/null"]
        runs = any(command in RUNS_ITS_INPUT for command in commands)
        for heredoc in self.heredocs:
            self._heredoc(heredoc, targets, runs=runs)

    def _heredoc(self, heredoc: Heredoc, targets: list[str], *, runs: bool) -> None:
        """A heredoc is read where it is a script: at once, or when the file is run."""
        if runs:
            body = script_body(heredoc, self.state.where)
            if body.tokens:
                self._read(body)
                return
        elif targets:
            name = targets[0].rpartition("/")[2]
            self.state.files[name] = script_body(heredoc, self.state.where, name)
            return
        if may_set(heredoc.text):
            self.state.leave_unread(f"line {heredoc.line}: the text of the heredoc is not read")

    def _declare(self, words: list[Token]) -> None:
        options = [it.text for it in words[1:] if it.text.startswith("-") and len(it.text) == 2]
        exported = words[0].text == "export" or "-x" in options
        if "-n" in options:
            return
        for word in words[1:]:
            if word.text in options:
                continue
            if word.text.startswith("--"):
                self.state.outside_quotes(word.text, word.line)
            elif self._assign(word, exported=exported) or not exported:
                continue
            elif _NAME.fullmatch(word.text):
                self.state.export(word.text)
            else:
                self.state.leave_unread(
                    f"line {word.line}: what `export {word.text}` sets is known only when it runs"
                )

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
        value = self.state.values.expand(behind(word.parts, match.end()))
        if match[3] and word.text[match.end() : match.end() + 1] == "(":  # more elements
            value = known(" ", word.line) + value
        return match[1], bool(match[3]), value

    def _flags(self, words: list[Token]) -> None:
        """Flags that stand in a line of their own, as in notes."""
        if not words[0].text.startswith(("--xla", "--megascale")):
            return
        value = joined((self._as_written(word) for word in words), " ")
        self.state.bare.add("XLA_FLAGS")
        self.state.assign("XLA_FLAGS", value, words[0].line, adds=True, exported=True)

    def _as_written(self, word: Token) -> Traced:
        """With its quotes, which XLA takes off."""
        if "$" in word.text or "`" in word.text:
            return self.state.values.expand(word.parts)
        return known(word.text, word.line)

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
        words = words[count:]
        if overlay and words[0].text.startswith("--xla"):
            self.state.outside_quotes(words[0].text, words[0].line)
        values = [(it, word.line) for word in words for it in self.state.values.words(word)]
        if not values:
            return
        for script, line in Commands(self.state).start(values, overlay):
            self._nested(script, line)
        self._run_known([value for value, _ in values], words[0].line)

    def _run_known(self, words: list[Traced], line: int) -> None:
        """Functions and files of the script itself, and what it takes in from elsewhere."""
        name = words[0].shown
        if body := self.state.functions.get(name):
            with self.state.for_one_command():
                self._call(words[1:], body)
        elif name == "eval":
            self._evaluated(joined(words[1:], " "), line)
        elif name == "shift":
            self._forget_arguments()
        elif name in ("source", "."):
            if len(words) > 1 and not self._run_files(words) and words[1].text:
                self._source(words[1].shown, line)
        elif name.rpartition("/")[2] not in QUIET:
            self._run_files(words)

    def _run_files(self, words: list[Traced]) -> bool:
        """Scripts among the words that this script has written; whether there were any."""
        names = [word.shown.rpartition("/")[2] for word in words]
        run = [self.state.files[name] for name in names if name in self.state.files]
        for body in run:
            if body.tokens:
                with self.state.for_one_command():
                    self._read(body)
        return bool(run)

    def _source(self, name: str, line: int) -> None:
        self.state.leave_unread(f"{name} (line {line})")

    def _evaluated(self, script: Traced, line: int) -> None:
        if script.text.startswith("set --"):
            self._forget_arguments()
            return
        if script.known:
            try:
                self._nested(script, line)
            except InputError:
                pass
            else:
                return
        self.state.leave_unread(f"line {line}: what `eval` runs is not known, so not read")

    def _nested(self, script: Traced, line: int) -> None:
        """What stands behind `bash -c`, which finds the variables of its command, too."""
        lexer = Lexer(script.shown, self.state.where, script.line or line)
        with self.state.for_one_command():
            Reader(self.state, list(lexer.tokens())).read()


def follow(
    text: str,
    where: str,
    *,
    line: int = 1,
    before: Mapping[str, Traced] | None = None,
    strict: bool = False,
    whole: bool = False,
    budget: Budget | None = None,
) -> State:
    """What a script has set when it ends. `before`: what it finds in its environment.

    `strict`: a default is not taken for the value of a variable that may be set elsewhere. `whole`:
    nothing else is in its environment.
    """
    lexer = Lexer(text, where, line)
    values = Values(where, dict(before or {}), strict=strict, whole=whole, budget=budget)
    state = State(where, values)
    for name in before or {}:
        state.inherit(name)
    follow_into(state, list(lexer.tokens()))
    return state


def follow_words(words: Sequence[str], where: str, before: Mapping[str, Traced]) -> State:
    """What one command line sets that is already split into words."""
    state = State(where, Values(where, dict(before), whole=True))
    for name in before:
        state.inherit(name)
    follow_into(state, as_tokens(words))
    return state


def follow_into(state: State, tokens: Sequence[Token]) -> None:
    """What a command sets, on top of what there is."""
    Reader(state, tokens).read()
