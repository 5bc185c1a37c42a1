"""Ways to write a fix of one setting into its line: other words, no words, or no line.

A way is the whole text with that change. The likely way comes first; fix.py decides by reading the
result, so a way need not be right, but a wrong one must not read as if it were. That is why the
brackets of Python are looked at here, and the blocks of a shell: no reader knows an argument that
is missing from one that never was.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Sequence
from typing import Final

from counterpoint.flags.lint import Remark
from counterpoint.flags.settings import Channel
from counterpoint.flags.text import Pairs

_PLAIN: Final = re.compile(r"[\w=.,:/+-]*", re.ASCII)
"""Characters that mean the same in a shell, in YAML and between quotes."""
_VALUE: Final = r"""(?:\\?"[^"\n]*"|'[^'\n]*'|[^\s"'\\`,;&|#()\[\]{}<>]*)"""
_ENDS: Final = r"(?![^\s\"'\\`,;:&|()\[\]{}<>])"
"""After a setting nothing follows that would belong to it."""
_REST: Final = r"[ \t\r]*+(?:\#[^\n]*)?"
_PROMPT: Final = r"[ \t]*+(?:(?:\$|>>>|\.\.\.|%) )?"
_QUOTED: Final = re.compile(r"""(?P<before>.*?)[fr]?(?P<quote>\\?["'])[ \t]*$""", re.DOTALL)
_EXPORTS: Final = r"(?:export|declare|typeset|readonly|local|ENV|env|set)[ \t]++(?:-\w++[ \t]++)*"
_BODY_BEGINS: Final = re.compile(r"(?:.*[\s;])?(?:then|do|else|\{|[^()]*\))[ \t]*(?:#.*)?\r?")
_BODY_ENDS: Final = re.compile(r"[ \t]*(?:fi|done|else|elif|esac|\}|;;)(?:\W.*)?", re.DOTALL)
_CELL: Final = re.compile(r'([ \t]*)(".*?")(,?[ \t]*\r?)', re.DOTALL)


class Rows:
    """The lines of a text; those of a notebook's cells without JSON's quotes."""

    def __init__(self, text: str, form: str) -> None:
        self.form = form
        self.raw = text.split("\n")
        self.rows = [self._shown(row) for row in self.raw] if form == "notebook" else self.raw

    def with_rows(self, low: int, high: int, new: Sequence[str]) -> str | None:
        """Return the text with other lines instead of these; a line of a cell can't go."""
        if self.form == "notebook":
            filled = [*new, *[""] * (high - low - len(new))]
            written = [
                self._written(at, row) for at, row in zip(range(low, high), filled, strict=False)
            ]
            if None in written or len(filled) != high - low:
                return None
            new = [row for row in written if row is not None]
        return "\n".join([*self.raw[:low], *new, *self.raw[high:]])

    @staticmethod
    def _shown(raw: str) -> str:
        cell = _CELL.fullmatch(raw)
        if cell is None:
            return raw
        try:
            return str(json.loads(cell[2])).removesuffix("\n")
        except ValueError:
            return raw

    def _written(self, at: int, row: str) -> str | None:
        raw, shown = self.raw[at], self.rows[at]
        if row == shown:
            return raw
        cell = _CELL.fullmatch(raw)
        if cell is None:
            return None
        end = "\n" if cell[2].endswith('\\n"') else ""
        plain = json.dumps(shown + end, ensure_ascii=False) == cell[2]
        if not plain and json.dumps(shown + end) != cell[2]:
            return None
        return f"{cell[1]}{json.dumps(row + end, ensure_ascii=not plain)}{cell[3]}"

    def use_of(self, name: str) -> int | None:
        """Return the first line that reads a variable that is set elsewhere, or hands it on."""
        word = re.escape(name)
        uses = re.compile(
            rf"\$\{{?{word}\b|\b(?:get|getenv)\(\s*[\"']{word}[\"']"
            rf"|environ\[[\"']{word}[\"']\](?!\s*=[^=])"
            rf"|(?:^|\s)(?:-x|-e|-{{2}}env)[ =]{word}(?![\w=])"
            rf"|\bexport\s[^=]*\b{word}(?![\w=])"
        )
        for at, row in enumerate(self.rows, 1):
            if name in row and not row.lstrip().startswith("#") and uses.search(row):
                return at
        return None

    def line_of(self, remark: Remark) -> int | None:
        """Return the line that has a setting; its place may be where its text begins."""
        words = remark.name if self.form == "toml" else remark.text.partition("=")[0]
        word = re.compile(rf"(?<![\w-]){re.escape(words)}(?!\w)")
        at = (remark.place.line or 1) - 1
        if at < len(self.rows) and word.search(self.rows[at]):
            return at
        lines = [at for at, row in enumerate(self.rows) if word.search(row)]
        return lines[0] if len(lines) == 1 else None

    def dropped(self, low: int, high: int) -> str | None:
        """Return the text without these lines, nor a backslash that leads to them."""
        before = self.rows[low - 1] if low else ""
        on = self.rows[high - 1].rstrip().endswith("\\")
        if before.rstrip().endswith("\\") and not on:
            end = "\r" if before.endswith("\r") else ""
            return self.with_rows(low - 1, high, [before.rstrip()[:-1].rstrip(" \t") + end])
        return self.with_rows(low, high, [])


def ways_to_fix(rows: Rows, remark: Remark, heirs: Pairs) -> Iterator[str]:
    """Yield the text with the fix in its line, in each way that may be meant."""
    if word := _without_blank(remark):
        yield from _separated(rows, word)
        return
    at = rows.line_of(remark)
    if at is None:
        return
    if rows.form == "toml":
        ways = _of_table(rows, at, remark, heirs)
    elif remark.text.startswith("--"):
        ways = _of_flag(rows, at, remark, heirs)
    elif heirs:
        ways = _renamed(rows, at, remark, heirs)
    else:
        ways = _without_variable(rows, at, remark)
    yield from (way for way in ways if way is not None)


def _of_flag(rows: Rows, at: int, remark: Remark, heirs: Pairs) -> Iterator[str | None]:
    row = rows.rows[at]
    for start, end in _places(row, remark):
        if not heirs:
            yield from _without_word(rows, at, start, end)
            continue
        name, value = heirs[0]
        old = remark.text.partition("=")[2]
        if len(heirs) == 1 and value == (old or "true"):
            words = f"--{name}{row[start + len(remark.name) + 2 : end]}"
            yield rows.with_rows(at, at + 1, [row[:start] + words + row[end:]])
        if all(_PLAIN.fullmatch(one) for _, one in heirs):
            words = " ".join(f"--{name}={value}" for name, value in heirs)
            yield rows.with_rows(at, at + 1, [row[:start] + words + row[end:]])


def _without_blank(remark: Remark) -> str:
    """Return the start of a flag before which only a blank is missing, or nothing."""
    instead = remark.fix.instead if remark.fix else ()
    words = [f"--{name}={value}" for name, value in instead]
    return f"--{words[-1][2:].partition('--')[0]}" if "".join(words) == remark.text else ""


def _separated(rows: Rows, word: str) -> Iterator[str]:
    """Yield the text with a blank before a flag, which may be on another line than its setting."""
    for at, row in enumerate(rows.rows):
        for match in re.finditer(rf"(?<=\S){re.escape(word)}(?:{_ENDS}|(?=--))", row):
            new = f"{row[: match.start()]} {row[match.start() :]}"
            if (text := rows.with_rows(at, at + 1, [new])) is not None:
                yield text


def _places(row: str, remark: Remark) -> Iterator[tuple[int, int]]:
    """Yield where a flag is in its line: as it reads, or with a value that a shell replaces."""
    exact = [*re.finditer(rf"(?<![\w-]){re.escape(remark.text)}{_ENDS}", row)]
    name = re.escape(remark.text.partition("=")[0])
    value = rf"=(?:\$\{{[^{{}}\n]*\}}|\$\w+|{_VALUE})" if "=" in remark.text else ""
    matches = exact or re.finditer(rf"(?<![\w-]){name}{value}{_ENDS}", row)
    yield from (match.span() for match in matches)


def _without_word(rows: Rows, at: int, start: int, end: int) -> Iterator[str | None]:
    row = rows.rows[at]
    left, right = row[:start], row[end:]
    if left.strip() in ("", "-") and right.strip() in ("", "\\"):
        yield rows.dropped(at, at + 1)
    quoted = _QUOTED.fullmatch(left)
    if quoted and right.lstrip(" \t").startswith(quoted["quote"]):
        before, after = quoted["before"], right.lstrip(" \t")[len(quoted["quote"]) :]
        yield from _without_string(rows, at, (before, row[start:end], after))
    if left.strip() and left[-1].isspace():
        left = left.rstrip(" \t")
    elif not left.endswith("="):
        right = right.lstrip(" \t")
    yield rows.with_rows(at, at + 1, [left + right])


def _without_string(rows: Rows, at: int, parts: tuple[str, str, str]) -> Iterator[str | None]:
    """Yield ways to remove a text in quotes that has nothing else."""
    before, word, after = parts
    comma = re.match(r"[ \t]*,[ \t]*", after)
    if before.strip() in ("", "-") and after.strip() in ("", "\\"):
        yield rows.dropped(at, at + 1)
    elif comma and _is_listed(rows, at, word):
        if not before.strip() and not after[comma.end() :].strip():
            yield rows.dropped(at, at + 1)
        yield rows.with_rows(at, at + 1, [before + after[comma.end() :]])
    elif before.rstrip().endswith(",") and _is_listed(rows, at, word):
        yield rows.with_rows(at, at + 1, [before.rstrip()[:-1] + after])
    elif before[-1:] in ("", " ", "\t") and after[:1] in ("", " ", "\t", "\r"):
        kept = before.rstrip(" \t") if before.strip() else before
        yield rows.with_rows(at, at + 1, [kept + after])


def _is_listed(rows: Rows, at: int, word: str) -> bool:
    """Return whether a text is in a list, and not an argument of a function."""
    if rows.form != "python":
        return rows.form in ("yaml", "kubernetes")
    return any(
        isinstance(item, ast.Constant)
        and item.lineno == at + 1
        and isinstance(item.value, str)
        and item.value.strip() == word
        for node in ast.walk(ast.parse("\n".join(rows.raw).lstrip("\N{ZERO WIDTH NO-BREAK SPACE}")))
        if isinstance(node, ast.List | ast.Tuple | ast.Set)
        for item in node.elts
    )


def _of_table(rows: Rows, at: int, remark: Remark, heirs: Pairs) -> Iterator[str | None]:
    """Yield the text with another line, or none, for `name = value`."""
    row, name = rows.rows[at], re.escape(remark.name)
    entry = re.fullmatch(rf"([ \t]*)([\"']?){name}\2([ \t]*=[ \t]*){_VALUE}({_REST})", row)
    if entry is None:
        return
    if not heirs:
        yield rows.dropped(at, at + 1)
    elif not heirs[1:] and _PLAIN.fullmatch(heirs[0][1]):
        name, value = heirs[0]
        yield rows.with_rows(at, at + 1, [f'{entry[1]}{name}{entry[3]}"{value}"{entry[4]}'])


def _renamed(rows: Rows, at: int, remark: Remark, heirs: Pairs) -> Iterator[str | None]:
    """Yield the text with another name for a variable, or for the key of an option."""
    (name, value), *more = heirs
    old = remark.text.partition("=")[2]
    if remark.channel is Channel.ENVIRONMENT:
        if more or value != old:
            return
        pairs = [(at, remark.name), (at - 1, remark.name)]
    elif more:
        return
    else:
        pairs = [(at, remark.name), (at, remark.name.removeprefix("jax_"))]
    for number, word in pairs:
        row = rows.rows[number] if number >= 0 else ""
        for match in re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", row):
            new = row[: match.start()] + name + row[match.end() :]
            yield rows.with_rows(number, number + 1, [new])


def _without_variable(rows: Rows, at: int, remark: Remark) -> Iterator[str | None]:
    name, row = re.escape(remark.name), rows.rows[at]
    before = rows.rows[at - 1] if at else ""
    after = rows.rows[at + 1] if at + 1 < len(rows.rows) else ""
    if re.fullmatch(rf"{_PROMPT}(?:{_EXPORTS})?{name}={_VALUE}[ \t]*;?[ \t]*\\?{_REST}", row):
        yield _without_statement(rows, at)
    if re.fullmatch(rf"[ \t]*%(?:set_)?env[ \t]+{name}[= \t]+{_VALUE}{_REST}", row):
        yield rows.dropped(at, at + 1)
    if _is_entry(row, name):
        yield rows.dropped(at, at + 1)
    named, value = rf"[ \t]*- name:[ \t]+[\"']?{name}[\"']?{_REST}", rf"[ \t]+value:[ \t]+{_VALUE}"
    for low, first, second in ((at, row, after), (at - 1, before, row)):
        if re.fullmatch(named, first) and re.fullmatch(value + _REST, second):
            yield rows.dropped(low, low + 2)
    if re.fullmatch(
        rf"[ \t]*(?:(?:os\.)?(?:environ\[[\"']{name}[\"']\][ \t]*=[ \t]*{_VALUE}"
        rf"|(?:environ\.setdefault|putenv)\([\"']{name}[\"'],[ \t]*{_VALUE}\))"
        rf"|[\w.]+\.update\([\"']{name}[\"'],[ \t]*{_VALUE}\)){_REST}",
        row,
    ):
        yield rows.dropped(at, at + 1)
        yield rows.with_rows(at, at + 1, [re.sub(r"\S.*?(\r?)$", r"pass\1", row)])
    yield from _without_words(rows, at, name)


def _is_entry(row: str, name: str) -> bool:
    """Return whether a line is one entry of a mapping, a list or a dict."""
    key = rf"[\"']?{name}[\"']?"
    entries = (
        rf"(?:- )?{key}[ \t]*:[ \t]+{_VALUE},?",
        rf"- [\"']?{name}={_VALUE}[\"']?",
        rf"- \{{[ \t]*name:[ \t]*{key},[ \t]*value:[ \t]*{_VALUE}[ \t]*\}}",
        rf"{name}[ \t]*=[ \t]*{_VALUE},",
    )
    return any(re.fullmatch(rf"[ \t]*{entry}{_REST}", row) for entry in entries)


def _without_statement(rows: Rows, at: int) -> str | None:
    """Return the text without a statement; a shell's block that would be empty gets a `:`."""
    code = re.compile(r"\s*(?:#.*)?", re.DOTALL)
    before = next((row for row in reversed(rows.rows[:at]) if not code.fullmatch(row)), "")
    after = next((row for row in rows.rows[at + 1 :] if not code.fullmatch(row)), "")
    if _BODY_BEGINS.fullmatch(before) and _BODY_ENDS.fullmatch(after):
        row = re.sub(r"\S.*?(\r?)$", r":\1", rows.rows[at])
        return rows.with_rows(at, at + 1, [row])
    return rows.dropped(at, at + 1)


def _without_words(rows: Rows, at: int, name: str) -> Iterator[str | None]:
    """Yield ways to remove `NAME=value` from a line with other words."""
    row, setting = rows.rows[at], rf"{name}={_VALUE}{_ENDS}"
    for match in re.finditer(
        rf"{_EXPORTS}{setting}[ \t]*(?:;|&&)[ \t]*|[ \t]*(?:;|&&)[ \t]*{_EXPORTS}{setting}(?=\s*$)",
        row,
    ):
        yield rows.with_rows(at, at + 1, [row[: match.start()] + row[match.end() :]])
    option = r"(?:(?:-x|-e|-{2}env|-{2}test_env)[ =])?"
    for match in re.finditer(rf"(?<!\S){option}([\"']?){setting}\1(?![^\s;)])", row):
        left, right = row[: match.start()], row[match.end() :]
        alone = re.fullmatch(rf".*\b{_EXPORTS}", left) and re.match(r"\s*(?:[;&|#]|$)", right)
        if alone:
            continue
        if not left.strip() and right.strip() in ("", "\\"):
            yield rows.dropped(at, at + 1)
        elif left.strip() and right[:1] in ("", " ", "\t", "\r"):
            yield rows.with_rows(at, at + 1, [left.rstrip(" \t") + right])
        else:
            yield rows.with_rows(at, at + 1, [left + right.lstrip(" \t")])
