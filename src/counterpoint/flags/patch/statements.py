"""The statements of a shell script, as far as the place of exports depends on them.

This is no shell: a command that is not known to be harmless counts as a launch, so that settings
stand before it, not after it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_LONGEST: Final = 400
"""Lines of one statement; more are an unclosed quotation mark."""
_HEREDOC: Final = re.compile(
    r"""'[^'\n]*'|"(?:\\.|[^"\\\n])*"|\\.|(?<!\S)\#.*|<<<|\(\(.{0,2000}?\)\)"""
    r"""|<<(?P<tabs>-?)[ \t]*(?:'(?P<a>[^'\n]+)'|"(?P<b>[^"\n]+)"|\\?(?P<c>[A-Za-z_][\w.-]*))"""
)
_QUOTED: Final = re.compile(
    r"""'[^']*'|"(?:\\.|[^"\\])*"|\\\r?\n|\\.|(?P<comment>(?<!\S)\#[^\n]*)""", re.DOTALL
)
_INNER: Final = re.compile(r"\$\([^()]*\)|`[^`]*`|\$\{[^{}]*\}")
_WORD: Final = re.compile(r"\d*[<>]+&[-\d]*|&>>?|[;&|\n]+|[^\s;&|]+")
_ASSIGNED: Final = re.compile(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=")
_OPENS: Final = frozenset(("if", "case", "for", "while", "until", "select", "{"))
_CLOSES: Final = frozenset(("fi", "esac", "done", "}"))
_BEFORE: Final = frozenset(
    ("if", "while", "until", "then", "do", "else", "elif", "{", "!", "time", "function")
)
_EXPORTS: Final = frozenset(("export", "declare", "typeset", "readonly", "local", "unset"))
_READS: Final = frozenset(("source", ".", "module", "ml"))
"""Commands that can set variables that their lines don't show."""
_ACTIVATES: Final = re.compile(r"(?:conda|(?:micro)?mamba) (?:de)?activate\b")
_EVAL: Final = re.compile(r'\s*eval\s+"?\$\([^()]*\)"?\s*(?:#.*)?$')
_HARMLESS: Final = """
echo printf cd pushd popd set shopt ulimit umask trap wait test [ [[ : true false read shift return
exit break continue alias unalias type command hash let mapfile readarray getopts mkdir rm cp mv ln
ls cat touch chmod chown date hostname whoami pwd sleep head tail grep sed awk cut sort uniq tr wc
tee basename dirname realpath readlink which find du df free uname nproc seq scontrol sinfo squeue
nvidia-smi rocm-smi rocminfo lscpu git tar gsutil rsync
"""
_NO_LAUNCH: Final = frozenset(_HARMLESS.split()) | _READS | _OPENS | _CLOSES | _EXPORTS


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement with the lines of its heredocs; `depth` is that of the compound after it."""

    line: int
    text: str
    code: str
    bodies: tuple[tuple[int, str], ...] = ()
    launches: bool = False
    first: str = ""
    reads: bool = False
    depth: int = 0


def statements(lines: Sequence[str]) -> Iterator[Statement]:
    """Yield the statements; their texts together are the lines."""
    number, depth, inner = 0, 0, 0
    while number < len(lines):
        count, bodies = _length(lines, number)
        chosen = range(number, number + count)
        code = "".join(lines[at] for at in chosen if at not in bodies)
        launches, first, reads, depth, inner = _examined(code, depth, inner)
        yield Statement(
            number,
            "".join(lines[number : number + count]),
            code,
            tuple((at, lines[at]) for at in bodies),
            launches,
            first,
            reads,
            depth + inner,
        )
        number += count


def length(lines: Sequence[str], first: int) -> int:
    """Return the number of lines of the statement that begins there."""
    return _length(lines, first)[0]


def _length(lines: Sequence[str], first: int) -> tuple[int, tuple[int, ...]]:
    """Return the number of lines, and which of them are within heredocs."""
    if lines[first].lstrip().startswith("#"):
        return 1, ()
    whole = ""
    bodies: list[int] = []
    shortest: tuple[int, tuple[int, ...]] | None = None
    at = first
    while at < min(len(lines), first + _LONGEST):
        line = lines[at]
        whole += line
        at += 1
        for found in _HEREDOC.finditer(line):
            end = found["a"] or found["b"] or found["c"]
            while end and at < len(lines):
                bodies.append(at)
                at += 1
                body = lines[at - 1].rstrip("\r\n")
                if (body.lstrip("\t") if found["tabs"] else body) == end:
                    break
        shortest = shortest or (at - first, tuple(bodies))
        if line.rstrip("\r\n").endswith("\\"):
            continue
        try:
            shlex.split(whole, comments=True)
        except ValueError:
            continue
        return at - first, tuple(bodies)
    return shortest or (1, ())


def uncommented(code: str) -> str:
    """Return the code without comments."""
    return _QUOTED.sub(lambda found: "" if found["comment"] else found[0], code)


def plain(code: str) -> str:
    """Return the code without comments, with `_` for what is quoted or substituted."""

    def one(found: re.Match[str]) -> str:
        whole = found[0]
        return "" if found["comment"] else " " if whole.endswith("\n") else "_"

    text = _QUOTED.sub(one, code)
    while (shorter := _INNER.sub("_", text)) != text:
        text = shorter
    return text


def _examined(code: str, depth: int, inner: int) -> tuple[bool, str, bool, int, int]:
    """Return whether it launches, its first word, whether it may set variables, and the depth."""
    if _EVAL.match(code):  # such as the set-up of conda
        return False, "eval", True, depth, inner
    start, launches, reads = True, False, False
    words: list[str] = _WORD.findall(plain(code))
    for at, given in enumerate(words):
        if re.fullmatch(r"[;&|\n]+", given):
            start = True
            continue
        word, inner = _unwrapped(given, inner, start=start)
        if not start or not word or word.endswith(")"):  # an argument, `f()`, a pattern of `case`
            continue
        depth += (word in _OPENS) - (word in _CLOSES and depth > 0)
        named = at > 0 and words[at - 1] == "function"
        if named or word in _BEFORE or _ASSIGNED.match(word):
            continue
        start = False
        two = " ".join(words[at : at + 2])
        reading = word in _READS or bool(_ACTIVATES.match(two))
        reads = reads or reading
        launches = launches or not (reading or _is_harmless(word, two))
    return launches, next(iter(words), ""), reads, depth, inner


def _is_harmless(word: str, two: str) -> bool:
    """Return whether a command launches nothing; `exec` may have redirections alone."""
    only_redirects = bool(re.match(r"exec (?:\d*[<>]|&>)", two)) or two == "exec"
    return word in _NO_LAUNCH or only_redirects or word.startswith(("((", *"<>&"))


def _unwrapped(word: str, inner: int, *, start: bool) -> tuple[str, int]:
    """Return a word without the parentheses of a subshell, and how many of these are open."""
    if re.search(r"=\([^)]*$", word):  # an array
        inner += 1
    while start and word.startswith("(") and not word.startswith("(("):
        inner, word = inner + 1, word[1:]
    if word.endswith(")") and inner and not word.endswith("()"):
        inner, word = inner - 1, word.rstrip(")")
    return word, inner
