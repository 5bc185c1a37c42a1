"""Flags in any text: documents, logs, templates. What is said of them there is not understood."""

from __future__ import annotations

import re
from typing import Final

from counterpoint.flags.channel import Channel
from counterpoint.flags.names import LIBTPU
from counterpoint.flags.sources.variables import is_setting
from counterpoint.flags.written import Given, Place, Written

_FLAG: Final = re.compile(
    r"""(?<![\w-])--((?:xla|megascale)_\w+)(?:=("[^"\n]*"|'[^'\n]*'|[^\s"'`\\|<>]*))?"""
)
_VARIABLE: Final = re.compile(r"""\b([A-Z][A-Z0-9_]+)=("[^"\n]*"|'[^'\n]*'|[^\s"'`\\|<>]+)""")
_PUNCTUATION: Final = ".,;:)]}*"


def read_any_text(text: str, where: str) -> Written:
    """Each flag and each variable of JAX, NCCL or CUDA with a value, once."""
    found: dict[tuple[str, str | None], Given] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#"):  # a comment: it talks of settings, and sets none
            continue
        for match in _FLAG.finditer(line):
            one = _given(match, where, number)
            found.setdefault((one.name, one.value), one)
        for match in _VARIABLE.finditer(line):
            if is_setting(match[1]) and match[1] not in ("XLA_FLAGS", "LIBTPU_INIT_ARGS"):
                one = _variable(match, where, number)
                found.setdefault((one.name, one.value), one)
    return Written(
        where=where,
        form="text",
        given=tuple(found.values()),
        notes=("flags found in a text, in its order; what it says of them is not understood",)
        if found
        else (),
    )


def _given(match: re.Match[str], where: str, line: int) -> Given:
    name, value = match[1], _bare(match[2])
    return Given(
        channel=Channel.LIBTPU_INIT_ARGS if name.startswith(LIBTPU) else Channel.XLA_FLAGS,
        name=name,
        value=value,
        place=Place(where, line),
        text=f"--{name}" if value is None else f"--{name}={value}",
        known=value is None or "$" not in value,
    )


def _variable(match: re.Match[str], where: str, line: int) -> Given:
    value = _bare(match[2]) or ""
    return Given(
        channel=Channel.ENVIRONMENT,
        name=match[1],
        value=value,
        place=Place(where, line),
        text=f"{match[1]}={value}",
        known="$" not in value,
    )


def _bare(value: str | None) -> str | None:
    if value is None or value[:1] in ("'", '"'):
        return value and value[1:-1]
    return value.rstrip(_PUNCTUATION)
