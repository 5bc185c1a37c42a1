"""Settings in shell scripts, read in the order of their lines; nothing is run.

Branches, loops, functions and heredocs are read in their place and marked. A text that sets
variables and is an argument of a command (`bash -c`, `--command=`, `ssh`) is a script, and so is a
heredoc that goes to a file or a command.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from counterpoint.core import InputError
from counterpoint.flags.parse.flag_values import may_set, names_any
from counterpoint.flags.parse.launcher import Command, is_harmless, slurm_numbers
from counterpoint.flags.parse.scan import Scan
from counterpoint.flags.parse.shell_words import ASSIGNMENT, OPERATOR, Part, ShellWords, Word
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

_REDIRECTIONS: Final = (">", ">>", ">|", "&>", "&>>", "<", "<<<", "<&", ">&")
_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_NAMED: Final = re.compile(r"([A-Za-z_]\w*)(?:\[.*|\+?=.*|[-+]*)", re.ASCII | re.DOTALL)
"""A word that may change the variable that it names."""
_FUNCTION: Final = re.compile(
    r"(?:function[ \t]+)?([\w:.-]+)[ \t]*\([ \t]*\)|function[ \t]+([\w:.-]+)(?=\s*[{(])"
)
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
_DEEPEST: Final = 4  # a script in a script in a script
_SHELLS: Final = ("bash", "sh", "zsh", "dash", "ksh")


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
    words: list[Word]
    goes_on: bool  # to a file or to another command, not to the terminal


@dataclass(slots=True)
class ShellScanner(ShellWords):
    """The statements of a text, in order."""

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
        words, before = list[Word](), "\n"
        saved = dict[str, TracedText | None]()
        while self._skip():
            match = OPERATOR.match(self.text, self.at)
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
                if self._skip() and not OPERATOR.match(self.text, self.at):
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
        statement = list[Word]()
        for value in words:
            statement.append(Word(value.text, value.line or 0, (Part(value, quoted=True),)))
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

    def _see_word(self, words: list[Word], saved: dict[str, TracedText | None]) -> None:
        """Let an assignment hold for the rest of its statement, and find patterns of a `case`."""
        first = words[0].raw
        if len(words) > 2 and first == "case" and words[-1].raw == "in":
            self.blocks.append(_Block("case", words[0].line, pattern=True))
            words.clear()
        match = ASSIGNMENT.match(words[-1].raw) if words else None
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
        words: list[Word],
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

    def _end_pattern(self, block: _Block, words: list[Word], operator: str) -> None:
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

    def _statement(self, words: list[Word], pipe: str) -> bool:
        """Process a statement; return whether it succeeds for certain."""
        words = self._past_keywords(words)
        if not words:
            return True
        first = words[0].raw
        if first in _DECLARE or all(ASSIGNMENT.match(word.raw) for word in words):
            self._settle(pipe, words[0].line)
        certain = self._run(words, first)
        self._settle()
        return certain

    def _past_keywords(self, words: list[Word]) -> list[Word]:
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

    def _run(self, words: list[Word], first: str) -> bool:
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

    def _declare(self, words: list[Word]) -> None:
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
            match = ASSIGNMENT.match(text)
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

    def _assign(self, word: Word, match: re.Match[str]) -> None:
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

    def _flags(self, words: list[Word]) -> None:
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

    def _outside_quotes(self, word: Word) -> None:
        """Report a flag after an unquoted space, at which the shell ends the value."""
        why = "not quoted: the shell ends the value at the space before it"
        self.scan.issue(IssueKind.STRAY, "XLA_FLAGS", word.raw, why, word.line)

    def _command(self, words: list[Word]) -> bool:
        """Process a command with its assignments, which persist if no command follows."""
        matches = [ASSIGNMENT.match(word.raw) for word in words]
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

    def _see_heredoc(self, words: list[Word], *, dashed: bool) -> None:
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
        words = [word.value.text for word in heredoc.words if not ASSIGNMENT.match(word.raw)]
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


def scan_shell(text: TracedText, scan: Scan) -> str:
    """Read a script; return its form, that of a job for Slurm or of any shell."""
    ShellScanner(scan, text).read()
    job = slurm_numbers(text.text)
    scan.numbers = (*job, *scan.numbers)
    return "slurm" if job else "shell"


def scan_words(words: Sequence[str], scan: Scan, script: TracedText | None) -> str:
    """Read a command in words, and the shell script that it starts."""
    ShellScanner(scan, TracedText()).run([known(word, None) for word in words])
    if script is None:
        return "shell"
    for one in [*scan.given.values()]:
        scan.exported.add(one.name)
        scan.values[one.name] = one.value
    return scan_shell(script, scan)
