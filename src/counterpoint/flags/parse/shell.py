"""Settings in shell scripts, read in the order of their lines; nothing is run.

Words are expanded from the variables seen so far; what only a shell can know is a hole. Branches,
loops, functions and heredocs are read in their place and marked. A text that sets variables and is
an argument of a command (`bash -c`, `--command=`, `ssh`) is a script, and so is a heredoc that goes
to a file or a command.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from counterpoint.core import InputError
from counterpoint.core.frozen import frozen
from counterpoint.flags.parse.flag_values import may_set, names_any
from counterpoint.flags.parse.launcher import Command, is_harmless, slurm_numbers
from counterpoint.flags.parse.scan import Scan
from counterpoint.flags.parse.traced import (
    HOLE,
    TooMuchError,
    TracedText,
    joined,
    known,
    unknown,
)
from counterpoint.flags.parsed import Branch, IssueKind
from counterpoint.flags.settings import FLAG_VARIABLES

_OPERATOR: Final = re.compile(r"<<<|<<-?|;;&|;;|;&|&&|&>>?|\|\||\|&|>>|>\||[<>]&|\n|[;&|<>()]")
_REDIRECTIONS: Final = (">", ">>", ">|", "&>", "&>>", "<", "<<<", "<&", ">&")
_SKIPPED: Final = re.compile(r"(?:[ \t]|\\\n)+|(?<=[\s;&|()])#[^\n]*|^#[^\n]*")
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)(\[[^]]*\])?(\+?)=", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_NAMED: Final = re.compile(r"([A-Za-z_]\w*)(?:\[.*|\+?=.*|[-+]*)", re.ASCII | re.DOTALL)
"""A word that may change the variable that it names."""
_FUNCTION: Final = re.compile(
    r"(?:function[ \t]+)?([\w:.-]+)[ \t]*\([ \t]*\)|function[ \t]+([\w:.-]+)(?=\s*[{(])"
)
_TILDE: Final = re.compile(r"([A-Za-z_]\w*\+?=(?:[^'\"]*:)?)?~", re.ASCII)
_BRACES: Final = re.compile(r"\{(?=[^{}]*(?:,|\.\.))[^{}]*+\}")
_REFERENCE: Final = re.compile(
    r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(\[[@*]\])?(?:(:?[-=+?])|(?=\})))", re.ASCII
)
_ANSI: Final = re.compile(
    r"\$'((?:[^'\\]|\\[ntr\\'\"]|\\x[0-9a-fA-F]{1,2}|\\(?:[0-3][0-7]{2}|[0-7]{1,2}(?![0-7])))*)'"
    r"|\$'(?:[^'\\]|\\.)*'",
    re.DOTALL,
)
"""`$'...'`; the content is matched if all its escapes are known."""
_ONE_DIGIT: Final = re.compile(r"(\\[^x])|\\x([0-9a-fA-F])(?![0-9a-fA-F])", re.DOTALL)
"""`\\xa`, which Python writes as `\\x0a`; or another escape, such as the `\\\\` in `\\\\xa`."""
_IN_BRACKETS: Final = re.compile(r"[^(){}'\"\\`#]+")
_ESCAPED: Final = '$`"\\'
"""Characters that a backslash escapes between double quotes."""
_DECLARE: Final = ("export", "declare", "typeset", "readonly", "local")
_ODD: Final = frozenset("inluc")
"""Options that make a variable's value differ from the assigned one."""
_FILLS: Final = ("read", "mapfile", "readarray", "getopts", "let", "printf", "wait")
"""Commands that set the variables named by their words."""
_OPENS: Final = ("if", "for", "select", "while", "until", "case", "{")
_CLOSES: Final = {"fi": ("if",), "done": ("for", "select", "while", "until"), "}": ("{",)}
_BETWEEN: Final = ("then", "do", "!", "time", "elif", "else", "coproc")
_ALL_EXPORTED: Final = re.compile(r"(?:^| )([-+])(?:[b-z]*+a[a-z]*+|o allexport)(?= |$)")
_TESTS: Final = ("[", "[[", "test", "false", "grep", "command", "type", "which", "kill", "ls")
"""Commands that fail to say no."""
_CAT: Final = re.compile(r"\$\(\s*cat\s*<<-?\s*(['\"]?)(\w+)\1[ \t]*\n")
_AFTER_MARK: Final = re.compile(r"[ \t]*\n?\s*\)")
_NOT_FOLLOWED: Final = re.compile(r"\bcase\s|<<(?!<)")
_DEEPEST: Final = 4  # a script in a script in a script
_SHELLS: Final = ("bash", "sh", "zsh", "dash", "ksh")


@frozen
class _Context:
    """The context in which parts are read: `plain` characters are literal, `ends` end it."""

    plain: re.Pattern[str]
    ends: str
    quoted: bool


_WORD: Final = _Context(re.compile(r"[^ \t\n;&|<>()'\"\\$`]+"), " \t\n;&|<>()", quoted=False)
_DOUBLE: Final = _Context(re.compile(r'[^"\\$`]+'), '"', quoted=True)
_DEFAULT: Final = _Context(re.compile(r"[^}'\"\\$`]+"), "}", quoted=False)
_DEFAULT_IN_DOUBLE: Final = _Context(re.compile(r'[^}"\\$`]+'), "}", quoted=True)
_HEREDOC: Final = _Context(re.compile(r"[^\\$`]+"), "", quoted=True)


@frozen
class _Part:
    """A part of a word, expanded; `several`: a shell makes words of it."""

    value: TracedText
    quoted: bool = False
    literal: bool = False
    several: tuple[TracedText, ...] | None = None


@frozen
class _Word:
    """A word as written, with its parts."""

    raw: str
    line: int
    parts: tuple[_Part, ...] = ()
    elements: tuple[TracedText, ...] | None = None  # of an array

    @property
    def value(self) -> TracedText:
        return joined(part.value for part in self.parts)

    @property
    def expanded(self) -> tuple[TracedText, ...]:
        """The words that a command gets."""
        if len(self.parts) == 1 and self.parts[0].several is not None:
            return self.parts[0].several
        return (unknown(self.raw, self.line),) if self.braces else (self.value,)

    @property
    def braces(self) -> bool:
        """Return whether a shell makes words of `{a,b}` in it."""
        plain = (part for part in self.parts if part.literal and not part.quoted)
        return any(_BRACES.search(part.value.text) for part in plain)


@dataclass(slots=True)
class _Block:
    """An open `if`, loop, `case`, function, group or subshell."""

    kind: str
    line: int
    arm: int = 0
    pattern: bool = False  # whether patterns of a `case` come next


@dataclass(slots=True)
class _Heredoc:
    """A heredoc whose text begins after this line, and the words of its statement."""

    mark: str
    dashed: bool
    expands: bool
    line: int
    words: list[_Word]
    goes_on: bool  # to a file or to another command, not to the terminal


@dataclass(slots=True)
class ShellScanner:
    """A text and the position reached in it."""

    scan: Scan
    source: TracedText
    text: str = ""
    at: int = 0
    blocks: list[_Block] = field(default_factory=list[_Block])
    function: str = ""  # whose body begins with the next bracket
    heredocs: list[_Heredoc] = field(default_factory=list[_Heredoc])
    odd: set[str] = field(default_factory=set[str])  # variables that don't take the assigned value
    bare: bool = False  # flags on lines of their own were read
    outer: Branch = ()  # where the whole text is
    leading: int = 0  # how many assignments the statement begins with

    def read(self) -> None:
        """Read the text to its end."""
        self.text, self.outer = self.source.text, self.scan.branch
        words, before = list[_Word](), "\n"
        saved = dict[str, TracedText | None]()
        while self._skip():
            match = _OPERATOR.match(self.text, self.at)
            if match is None or self.text.startswith(("((", "<(", ">("), self.at):
                if not words and self._begins_function():
                    continue
                word = self._word()
                if not (word.raw.isdecimal() and self.text[self.at : self.at + 1] in ("<", ">")):
                    words.append(word)
                    self._see_word(words, saved)
                continue
            self.at = match.end()
            if match[0] in ("<<", "<<-"):
                self._see_heredoc(words, dashed=match[0] == "<<-")
            elif match[0] in _REDIRECTIONS:
                if self._skip() and not _OPERATOR.match(self.text, self.at):
                    self._word()
            else:
                before = self._end(words, saved, before, match[0])
                words, saved, self.leading = [], {}, 0
                if match[0] == "\n":
                    self._read_heredocs()
        self._end(words, saved, before, "\n")
        self.scan.branch = self.outer

    def run(self, words: Sequence[TracedText]) -> None:
        """Read one command whose words are split already."""
        statement = list[_Word]()
        for value in words:
            statement.append(_Word(value.text, value.line or 0, (_Part(value, quoted=True),)))
        self._statement(statement, "")

    # Statements.

    def _settle(self, pipe: str = "", line: int = 0) -> None:
        """Let the branch be that of the open blocks, and of a pipe that decides what runs."""
        self.scan.branch = self.outer + tuple(
            (f"{block.kind} {block.line}", str(block.arm))
            for block in self.blocks
            if block.kind != "{"
        )
        self.scan.branch += ((f"{pipe} {line}", ""),) if pipe else ()

    def _see_word(self, words: list[_Word], saved: dict[str, TracedText | None]) -> None:
        """Let an assignment hold for the rest of its statement, and find patterns of a `case`."""
        first = words[0].raw
        if len(words) > 2 and first == "case" and words[-1].raw == "in":
            self.blocks.append(_Block("case", words[0].line, pattern=True))
            words.clear()
        match = _ASSIGNMENT.match(words[-1].raw) if words else None
        if match is None or len(words) != self.leading + 1:
            return
        self.leading += 1
        if not match[2] and words[-1].elements is None:
            name, value = match[1], words[-1].value.cut(match.end())
            before = self.scan.values.get(name)
            saved.setdefault(name, before)
            self.scan.values[name] = before + value if match[3] and before else value

    def _end(
        self,
        words: list[_Word],
        saved: Mapping[str, TracedText | None],
        before: str,
        operator: str,
    ) -> str:
        """Process a statement and the operator that ends it; return what precedes the next."""
        for name, value in saved.items():
            if value is None:
                self.scan.values.pop(name, None)
            else:
                self.scan.values[name] = value
        top = self.blocks[-1] if self.blocks else None
        if top and top.pattern and operator in (")", "|", "(", "\n"):
            self._end_pattern(top, words, operator)
            return "\n"
        if operator == "(":
            self._statement(words, "")
            self._open("( )")
            return "\n"
        pipes = [pipe for pipe in (before, operator) if pipe in ("|", "|&")]
        pipes += [before] if before in ("||", "&&") else []
        pipes += [operator] if operator == "&" else []
        certain = self._statement(words, pipes[0] if pipes else "")
        if operator == ")":
            self._close(("( )",))
        elif operator in (";;", ";&", ";;&") and self.blocks:
            self._close_to("case")
            self.blocks[-1].arm += 1
            self.blocks[-1].pattern = True
            self._settle()
        return "\n" if operator == ")" or (operator == "&&" and certain) else operator

    def _end_pattern(self, block: _Block, words: list[_Word], operator: str) -> None:
        if words and words[0].raw == "esac":
            self._close(("case",))
            if operator == ")":
                self._close(("( )",))
        elif operator == ")":
            block.pattern = False

    def _open(self, kind: str, line: int = 0) -> None:
        kind, self.function = (f"function {self.function}" if self.function else kind), ""
        self.blocks.append(_Block(kind, line or self._line()))
        self._settle()

    def _close(self, kinds: Sequence[str]) -> None:
        """Close the innermost block of these kinds, and what is open in it."""
        for index in range(len(self.blocks) - 1, -1, -1):
            kind = self.blocks[index].kind
            if kind in kinds or (kind.startswith("function") and {"{", "( )"} & {*kinds}):
                del self.blocks[index:]
                self._settle()
                return

    def _close_to(self, kind: str) -> None:
        for index in range(len(self.blocks) - 1, -1, -1):
            if self.blocks[index].kind == kind:
                del self.blocks[index + 1 :]
                return
        self.blocks.append(_Block(kind, self._line()))

    def _begins_function(self) -> bool:
        match = _FUNCTION.match(self.text, self.at)
        if match is None or (self.blocks and self.blocks[-1].pattern):
            return False
        self.at, self.function = match.end(), match[1] or match[2]
        while self._skip() and self.text[self.at] == "\n":
            self.at += 1
        return True

    def _statement(self, words: list[_Word], pipe: str) -> bool:
        """Process a statement; return whether it succeeds for certain."""
        words = self._past_keywords(words)
        if not words:
            return True
        first = words[0].raw
        if first in _DECLARE or all(_ASSIGNMENT.match(word.raw) for word in words):
            self._settle(pipe, words[0].line)
        certain = self._run(words, first)
        self._settle()
        return certain

    def _past_keywords(self, words: list[_Word]) -> list[_Word]:
        for index, word in enumerate(words):
            raw = word.raw
            if raw in ("for", "select", "case"):
                if raw != "case":
                    self._open(raw, word.line)
                    for name in words[index + 1 : index + 2]:
                        self.scan.lose(name.raw, word.line)
                return []
            if raw in _OPENS:
                self._open(raw, word.line)
            elif raw in _CLOSES:
                self._close(_CLOSES[raw])
            elif raw == "esac":
                self._close(("case",))
            elif raw in ("elif", "else"):
                self._close_to("if")
                self.blocks[-1].arm += 1
                self._settle()
            elif raw not in _BETWEEN:
                return words[index:]
        return []

    def _run(self, words: list[_Word], first: str) -> bool:
        if first.startswith("(("):
            for name in _NAME.findall(first):
                self.scan.lose(name, words[0].line)
        elif first in _DECLARE:
            self._declare(words)
            return True
        elif first == "unset":
            for word in words[1:]:
                self.scan.unset(word.raw, word.line)
        elif first == "set":
            if match := _ALL_EXPORTED.search(" ".join(word.raw for word in words[1:])):
                self.scan.exports_all = match[1] == "-"
                self.scan.exports = True
            return True
        elif first.startswith("--"):
            self._flags(words)
        else:
            return self._command(words)
        return False

    def _declare(self, words: list[_Word]) -> None:
        first, options = (
            words[0].raw,
            "".join(word.raw[1:] for word in words[1:] if re.match(r"[-+]\w", word.raw)),
        )
        if first == "local" and not any(block.kind.startswith("function") for block in self.blocks):
            return
        exports = first == "export" or "x" in options
        taken_back = "n" in options or any(word.raw == "+x" for word in words)
        for word in words[1:]:
            text = word.value.text
            match = _ASSIGNMENT.match(text)
            if match and not match[2]:
                self.odd |= {match[1]} if set(options) & _ODD else set()
                self._assign(word, match)
                if exports and not taken_back and word.elements is None:
                    self.scan.export(match[1])
            elif word.raw.startswith("--"):
                self._outside_quotes(word)
            elif re.match(r"[-+]\w", word.raw):
                continue
            elif not _NAME.fullmatch(text):
                self.scan.leave(word.line, f"{first} {word.raw}")
            elif exports and not taken_back:
                self.scan.export(text)
            elif exports:
                self.scan.exported.discard(text)
                self.scan.given.pop(text, None)

    def _assign(self, word: _Word, match: re.Match[str]) -> None:
        name, adds, line = match[1], bool(match[3]), word.line
        if match[2]:  # one element of an array
            self.scan.lose(name, line)
        elif word.elements is not None:
            earlier = self.scan.arrays.get(name)
            if earlier is None:
                earlier = [value] if (value := self.scan.values.get(name)) else []
            elements = [*earlier, *word.elements] if adds else [*word.elements]
            self.scan.budget.spend_on(sum(element.size for element in elements), line)
            self.scan.values[name] = elements[0] if elements else TracedText()
            self.scan.arrays[name] = [value.within(self.scan.branch) for value in elements]
            self.scan.exported.discard(name)  # bash exports no arrays
        elif adds and name in self.scan.arrays:
            self.scan.lose(name, line)
        else:
            value = word.value.cut(match.end())
            if name in self.odd or word.braces:
                value = unknown(word.raw[match.end() :], line)
            self.scan.assign(name, value, line, adds=adds)

    def _flags(self, words: list[_Word]) -> None:
        """Read flags on a line of their own, as in notes; XLA removes their quotes."""
        if not words[0].raw.startswith(("--xla", "--megascale")):
            return
        values = [
            word.value if set("$`") & set(word.raw) else known(word.raw, word.line)
            for word in words
        ]
        adds = "XLA_FLAGS" in self.scan.values
        between = [known(" ", words[0].line)] if adds and self.bare else []
        self.bare = True
        self.scan.exported.add("XLA_FLAGS")
        value = joined([*between, joined(values, " ")])
        self.scan.assign("XLA_FLAGS", value, words[0].line, adds=adds)

    def _outside_quotes(self, word: _Word) -> None:
        """Report a flag after an unquoted space, at which the shell ends the value."""
        why = "not quoted: the shell ends the value at the space before it"
        self.scan.issue(IssueKind.STRAY, "XLA_FLAGS", word.raw, why, word.line)

    def _command(self, words: list[_Word]) -> bool:
        """Process a command with its assignments, which persist if no command follows."""
        matches = [_ASSIGNMENT.match(word.raw) for word in words]
        count = next((at for at, match in enumerate(matches) if match is None), len(words))
        before = [(word, match) for word, match in zip(words, matches, strict=True) if match]
        if count == len(words):
            for word, match in before:
                self._assign(word, match)
            return True
        own = [(match[1], word.value.cut(match.end()), word.line) for word, match in before[:count]]
        if own and words[count].raw.startswith("--xla"):
            self._outside_quotes(words[count])
        values = [(value, word.line) for word in words[count:] for value in word.expanded]
        return self._start(values, own) if values else False

    def _start(
        self, words: list[tuple[TracedText, int]], own: list[tuple[str, TracedText, int]]
    ) -> bool:
        """Process a command; `own` are the variables before it."""
        texts = [value.shown for value, _ in words]
        name, line = texts[0].rpartition("/")[2], words[0][1]
        if name in _FILLS:
            for match in filter(None, map(_NAMED.fullmatch, texts[1:])):
                self.scan.lose(match[1], line)
        elif name in ("source", ".") and texts[1:]:
            self.scan.leave(line, " ".join(texts))
        elif name == "eval":
            self._eval(words, texts, line)
        sources = name in ("source", ".")
        if name in (*_FILLS, "eval") or (is_harmless(texts) and not sources):
            return name not in _TESTS
        for variable, value, at in own:
            self.scan.give(variable, value, at)
        if sources:
            return True
        self._launch(Command(words, texts), {variable: value for variable, value, _ in own})
        self.scan.programs += 1
        return False

    def _eval(self, words: list[tuple[TracedText, int]], texts: list[str], line: int) -> None:
        script = joined((value for value, _ in words[1:]), " ")
        if script.text.strip(HOLE + " ") and may_set(script.text, colon=False):
            self._nested(script, line)
        elif texts[1:2] != ["set"]:
            self.scan.leave(line, " ".join(texts))

    def _launch(self, command: Command, own: dict[str, TracedText]) -> None:
        """Process the words of a command that pass variables on."""
        scan = self.scan
        line = command.words[0][1]
        scan.budget.spend_on(command.work, line)
        scan.numbers += command.numbers
        if command.records and not scan.nsys:
            scan.nsys, scan.nsys_line = True, line or None
        taken: set[int] = set()
        for passed in command.passed():
            taken.add(passed.at)
            at = command.words[passed.at][1]
            if passed.name:
                scan.give(passed.name, passed.value, at, passed.via)
            elif passed.via == "-x":
                scan.export(passed.value.text)
            elif passed.via == "srun --export":
                self._check_export(passed.value, at)
            elif passed.channel:
                scan.take(passed.value, passed.channel, passed.via)
            else:
                scan.leave(at, passed.value.shown)
        for channel, name, value, at in command.trainer_options():
            scan.option(channel, name, value, at, text=f"--{name}={value.shown}")
        for script, at, inherits in command.scripts(taken):
            values = {name: it for name, it in scan.values.items() if name in scan.exported}
            with scan.another_shell({**values, **own} if inherits else {}):
                self._nested(script, at)

    def _nested(self, script: TracedText, line: int) -> None:
        """Read a script in a string."""
        scan = self.scan
        scan.budget.spend_on(len(script.text) // 4, line)
        if scan.depth >= _DEEPEST:
            scan.leave(line, script.shown)
            return
        scan.depth, branch = scan.depth + 1, scan.branch
        try:
            ShellScanner(scan, script).read()
        except TooMuchError:
            raise
        except InputError as failure:
            scan.leave(line, f"{script.shown} ({failure.what.rpartition(': ')[2]})")
        scan.depth, scan.branch = scan.depth - 1, branch

    def _check_export(self, value: TracedText, line: int) -> None:
        """Report what `srun --export` cuts off, or does not pass on without ALL."""
        items = value.text.partition("=")[2].split(",")
        for item in items:
            if item and (item.startswith("-") or not ("=" in item or item.isidentifier())):
                why = "Slurm ends a variable at the comma; what follows is lost"
                self.scan.issue(IssueKind.STRAY, "XLA_FLAGS", item, why, line)
        passed = {item.partition("=")[0] for item in items}
        for name in FLAG_VARIABLES:
            one = self.scan.got(name)
            if one and one.line and name in self.scan.exported and not passed & {"ALL", name}:
                why = f"without ALL, srun does not pass on the export of line {one.line}"
                suggestion = value.shown.replace("--export=", "--export=ALL,").replace(",NONE", "")
                self.scan.issue(IssueKind.OVERWRITTEN, name, value.shown, why, line, suggestion)

    # Heredocs.

    def _see_heredoc(self, words: list[_Word], *, dashed: bool) -> None:
        if not self._skip():
            return
        word = self._word()
        mark, line = word.value.text, self._line()
        expands = not set("'\"\\") & set(word.raw)
        begin, end = self.text.rfind("\n", 0, self.at) + 1, self.text.find("\n", self.at)
        goes_on = bool(set(">|") & set(self.text[begin : end if end >= 0 else None]))
        self.heredocs.append(_Heredoc(mark, dashed, expands, line, words, goes_on))

    def _read_heredocs(self) -> None:
        """Read the heredocs of a line that ends here; an unterminated one extends to the end."""
        for heredoc in self.heredocs:
            start = end = self.at
            while self.at < len(self.text):
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                row, begin = self.text[self.at : end], self.at
                self.at = min(end + 1, len(self.text))
                if (row.lstrip("\t") if heredoc.dashed else row) == heredoc.mark:
                    end = begin
                    break
            if names_any(self.text[start:end]):
                self._heredoc(heredoc, self.source.cut(start, end))
        self.heredocs = []

    def _heredoc(self, heredoc: _Heredoc, body: TracedText) -> None:
        words = [word.value.text for word in heredoc.words if not _ASSIGNMENT.match(word.raw)]
        name = words[0].rpartition("/")[2] if words else ""
        if name == ":":  # a comment
            self.scan.aside.append(body.text)
            return
        printed = name in ("", "cat", "echo") and not heredoc.goes_on
        if printed or self.scan.depth >= _DEEPEST:
            self.scan.leave(heredoc.line, "the text of a heredoc")
            return
        body = self._expanded(body) if heredoc.expands else body
        if name == "read":  # into the variable that the last word names
            self.scan.values[words[-1]] = body
            return
        form = "python" if name.startswith("python") else "shell" if name in _SHELLS else None
        self.scan.depth += 1
        with self.scan.inside(f"heredoc {heredoc.line}"), self.scan.another_shell({}):
            if not self.scan.embed(body, self.scan, form):
                self.scan.leave(heredoc.line, "the text of a heredoc")
        self.scan.depth -= 1

    def _expanded(self, body: TracedText) -> TracedText:
        """Return the text of a heredoc as a shell passes it on."""
        inner = ShellScanner(self.scan, body, body.text)
        return joined(part.value for part in inner.parts(_HEREDOC))

    def _printed(self, match: re.Match[str]) -> TracedText | None:
        """Read `$(cat <<EOF ...)`, whose value is the text of the heredoc."""
        start, end = match.end(), self.text.find(f"\n{match[2]}", match.end() - 1)
        self.scan.budget.spend_on((len(self.text) - start) // 64, self._line())
        after = _AFTER_MARK.match(self.text, end + 1 + len(match[2]))
        if end < 0 or after is None:
            return None
        self.at = after.end()
        body = self.source.cut(start, end)
        return body if match[1] else self._expanded(body)

    # Words.

    def _line(self) -> int:
        return self.source.line_at(self.at) or 0

    def _skip(self) -> bool:
        while match := _SKIPPED.match(self.text, self.at):
            self.at = match.end()
        return self.at < len(self.text)

    def _word(self) -> _Word:
        start, line = self.at, self._line()
        if self.text.startswith(("((", "<(", ">("), start):  # `<<` in it is no heredoc
            self._bracket("(", ")")
            raw = self.text[start : self.at]
            return _Word(raw, line, (_Part(self._hole(start, line)),))
        parts = self.parts(_WORD)
        elements = None
        if self.text.startswith("(", self.at) and _ASSIGNMENT.fullmatch(self.text, start, self.at):
            elements = tuple(self._array())
        self.at += self.at == start  # a character that begins no word here
        raw = self.text[start : self.at]
        if raw == "[[":
            self.at = (self.text.find("]]", self.at) + 1 or self.at - 1) + 1
        elif match := _TILDE.match(raw):  # a home directory
            head = len(match[1] or "")
            hole = _Part(unknown(raw[head:], line))
            parts = [_Part(self.source.cut(start, start + head)), hole] if head else [hole]
        return _Word(raw, line, tuple(parts), elements)

    def _array(self) -> Iterator[TracedText]:
        """Read the elements of NAME=(...); of `[key]=value` and file name patterns, none."""
        line = self._line()
        self.at += 1
        while True:
            while self._skip() and self.text[self.at] == "\n":
                self.at += 1
            if self.at >= len(self.text):
                raise self._unclosed("(", line)
            if self.text[self.at] == ")":
                self.at += 1
                return
            word = self._word()
            plain = all(
                part.quoted or not set("*?[{") & set(part.value.text) for part in word.parts
            )
            if plain or len(word.parts) == 1 or word.raw.startswith("-"):
                yield from word.expanded
            else:
                yield unknown(word.raw, word.line)

    def parts(self, context: _Context) -> list[_Part]:
        """Read parts up to where the context ends; the text may end first."""
        parts: list[_Part] = []
        while self.at < len(self.text):
            start, character = self.at, self.text[self.at]
            if match := context.plain.match(self.text, start):
                self.at = match.end()
                parts.append(_Part(self.source.cut(start, self.at), context.quoted, literal=True))
            elif character in context.ends:
                break
            elif character == "\\":
                parts += self._escape(quoted=context.quoted)
            elif character == "'":
                self._until("'", start + 1)
                parts.append(_Part(self.source.cut(start + 1, self.at - 1), quoted=True))
            elif character == '"':
                parts += self._double()
            else:
                parts.append(self._expansion(quoted=context.quoted))
        return parts

    def _escape(self, *, quoted: bool) -> list[_Part]:
        start = self.at
        escaped = self.text[start + 1 : start + 2]
        self.at += 2
        if escaped == "\n":
            return []
        first = start + 1 if escaped and (escaped in _ESCAPED or not quoted) else start
        return [_Part(self.source.cut(first, start + 2), quoted=True)]

    def _double(self) -> list[_Part]:
        line = self._line()
        self.at += 1
        parts = self.parts(_DOUBLE)
        if self.at >= len(self.text):
            raise self._unclosed('"', line)
        self.at += 1
        return parts or [_Part(TracedText(), quoted=True)]

    def _hole(self, start: int, line: int) -> TracedText:
        return unknown(self.source.shown_between(start, self.at), line)

    def _expansion(self, *, quoted: bool) -> _Part:
        """Read what starts with `$` or a backquote."""
        start, line, two = self.at, self._line(), self.text[self.at : self.at + 2]
        if match := _REFERENCE.match(self.text, start):
            return self._reference(match, line, quoted=quoted)
        self.at += 1
        if two[0] == "`":
            self._until("`", self.at)
        elif two == "$(":
            cat = _CAT.match(self.text, start)
            if cat and (printed := self._printed(cat)) is not None:
                return _Part(printed, quoted)
            self._bracket("(", ")")
            arithmetic = self.text.startswith("$((", start)
            if not arithmetic and _NOT_FOLLOWED.search(self.text, start, self.at):
                self.scan.leave(line, "a command substitution with `case` or `<<`")
        elif two == "${":
            self._bracket("{", "}")
        elif two == "$'" and not quoted:
            return self._ansi(line, start)
        elif two[1:] and two[1] in "0123456789@*#?$!-_":
            self.at += 1
        else:
            return _Part(self.source.cut(start, self.at), quoted)
        return _Part(self._hole(start, line), quoted)

    def _reference(self, match: re.Match[str], line: int, *, quoted: bool) -> _Part:
        """Read `$NAME`, `${NAME}`, or `${NAME:-default}` with its value."""
        name, index, operator = match[1] or match[2], match[3] or "", match[4] or ""
        self.at = match.end()
        operand = TracedText()
        if match[2]:
            inner = self.parts(_DEFAULT_IN_DOUBLE if quoted else _DEFAULT)
            if self.at >= len(self.text):
                raise self._unclosed("{", line)
            operand = joined(part.value for part in inner)
            self.at += 1
        shown = self.source.shown_between(match.start(), self.at)
        array = self.scan.arrays.get(name) if index else None
        if array is not None and index == "[@]" and quoted:
            return _Part(joined(array, " "), quoted, several=tuple(array))
        if array is not None and "IFS" not in self.scan.values:
            value = joined(array, " ")
        else:
            value = self.scan.values.get(name) if array is None else None
        value = self._substituted(name, value, operator, operand, unknown(shown, line))
        self.scan.budget.spend(value, line)
        if quoted or operator:
            return _Part(value, quoted)
        words = [value.cut(*found.span()) for found in re.finditer(r"\S+", value.text)]
        return _Part(value, quoted, several=tuple(words))

    def _substituted(
        self,
        name: str,
        value: TracedText | None,
        operator: str,
        operand: TracedText,
        hole: TracedText,
    ) -> TracedText:
        line = hole.line
        if value is None:
            return self._unset_value(name, operator[-1:], operand, hole)
        sure = value.known or value.text.strip(HOLE + " ")
        if not operator or operator == "?" or not sure:
            return hole if operator.endswith("+") else value
        empty = operator.startswith(":") and not value.text
        if empty == operator.endswith("+"):
            return TracedText() if empty else value
        operand = operand.as_default() if value.default else operand
        operand = operand.within(next((it.branch for it in value.pieces if it.branch), ()))
        if operator.endswith("="):
            self.scan.values[name] = self.scan.budget.spend(operand, line)
        return operand

    def _unset_value(
        self, name: str, operator: str, operand: TracedText, hole: TracedText
    ) -> TracedText:
        """Return an unset variable's value; flags that it inherits are checked elsewhere."""
        flags = name in FLAG_VARIABLES
        before = self.scan.inherited(name, hole.line)
        if self.scan.certain and not flags:
            return hole
        if operator not in ("-", "=", "+"):
            return before if flags else hole
        if operator == "+":
            return before
        operand = operand if self.scan.whole else operand.as_default()
        if operator == "=":
            self.scan.values[name] = operand
        return before + operand

    def _ansi(self, line: int, start: int) -> _Part:
        match = _ANSI.match(self.text, start)
        if match is None:
            raise self._unclosed("'", line)
        self.at = match.end()
        try:
            plain = _ONE_DIGIT.sub(lambda it: it[1] or f"\\x0{it[2]}", match[1] or "")
            text = plain.encode().decode("unicode_escape").encode("latin-1").decode()
        except UnicodeDecodeError:
            text = "\0"
        if match[1] is None or "\0" in text:
            return _Part(unknown(match[0], line), quoted=True)
        return _Part(known(text, line), quoted=True)

    def _bracket(self, opening: str, closing: str) -> None:
        """Move past the bracket that closes the one here."""
        line, depth = self._line(), 0
        while self.at < len(self.text):
            if match := _IN_BRACKETS.match(self.text, self.at):
                self.at = match.end()
                continue
            character = self.text[self.at]
            comment = _SKIPPED.match(self.text, self.at) if character == "#" else None
            if character == "'":
                self._until("'", self.at + 1)
            elif character == '"':
                self._double()
            elif comment and opening == "(":
                self.at = comment.end()
            else:
                self.at += 2 if character == "\\" else 1
                depth += (character == opening) - (character == closing)
                if depth == 0 and character == closing:
                    return
        raise self._unclosed(opening, line)

    def _until(self, quote: str, start: int) -> None:
        end = self.text.find(quote, start)
        if end < 0:
            raise self._unclosed(quote, self._line())
        self.at = end + 1

    def _unclosed(self, quote: str, line: int) -> InputError:
        what = "bracket" if quote in "({" else "quote"
        closing = {"(": ")", "{": "}"}.get(quote, quote)
        place = f"{self.scan.where}:{line}" if line else self.scan.where
        return InputError(f"{place}: unclosed {what}", next=f"close it with {closing}")


def scan_shell(text: TracedText, scan: Scan) -> str:
    """Read a script; return its form, that of a job for Slurm or of any shell."""
    ShellScanner(scan, text).read()
    job = slurm_numbers(text.text)
    scan.numbers = (*job, *scan.numbers)
    scan.in_place = bool(scan.others) or scan.programs > 1
    return "slurm" if job else "shell"


def scan_words(words: Sequence[str], scan: Scan, script: TracedText | None) -> str:
    """Read a command in words, and the shell script that it starts."""
    ShellScanner(scan, TracedText()).run([known(word, None) for word in words])
    if script is None:
        return "shell"
    for one in [*scan.given.values()]:
        scan.exported.add(one.name)
        scan.values[one.name] = one.value
    form = scan_shell(script, scan)
    scan.in_place = False
    return form
