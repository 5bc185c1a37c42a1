"""Parts of a shell script that run somewhere else: functions, and scripts that a heredoc holds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from counterpoint.core.errors import InputError
from counterpoint.flags.sources.shell_lexer import Heredoc, Lexer, Token
from counterpoint.flags.sources.sniff import sniff
from counterpoint.flags.sources.state import Body
from counterpoint.flags.sources.variables import may_set

RUNS_ITS_INPUT: Final = ("bash", "sh", "zsh", "dash", "ksh", "ssh", "sbatch", "salloc", "qsub")
"""Commands whose heredoc is a script."""

_ESCAPED: Final = re.compile(r"\\([$`\\])")


def function_body(tokens: Sequence[Token], at: int, line: int) -> tuple[Body, int]:
    """A function's body behind its name, and the token behind it."""
    depth, begun, start = 0, False, at
    while at < len(tokens) and not (begun and depth == 0):
        token = tokens[at]
        opens = token.text == "{" or (token.operator and token.text == "(")
        closes = token.text == "}" or (token.operator and token.text == ")")
        start = at + 1 if token.text == "{" and not begun else start
        depth += opens - closes
        begun = begun or token.text == "{"
        at += 1
    inner = tuple(tokens[start : at - 1])
    end = Token("\n", line, operator=True)
    return Body(line, (*inner, end), any(_sets(token) for token in inner)), at


def _sets(token: Token) -> bool:
    return may_set(token.text) or (token.heredoc is not None and may_set(token.heredoc.text))


def script_body(heredoc: Heredoc, where: str, name: str = "job.sh") -> Body:
    """The script in a heredoc, which becomes the file `name`; without tokens, where it is none."""
    text = heredoc.text if heredoc.quoted else _ESCAPED.sub(r"\1", heredoc.text)
    tokens: tuple[Token, ...] = ()
    if sniff(text, name) == "shell":
        try:
            tokens = tuple(Lexer(text, where, heredoc.start).tokens())
        except InputError:
            tokens = ()
    return Body(heredoc.line, tokens, may_set(text))
