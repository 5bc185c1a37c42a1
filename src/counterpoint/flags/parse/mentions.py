"""What a text search would find, and the readers did not, by name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from counterpoint.core.printable import some
from counterpoint.flags.parsed import Occurrence, ParsedSource

_SHOWN: Final = 8
_COMMENT: Final = re.compile(r"^[ \t]*(?:#|//|;|--\s).*$", re.MULTILINE)
_NAMED: Final = re.compile(
    r"--(xla_\w++)(?!\*)"
    r"|\b(xla_(?:gpu|cpu|tpu)_\w+)[\"']?\s*[:=](?!=)"
    r"|(?<![$\w{])([A-Z]+_[A-Z0-9_]+)[\"']?\]?\s*(?:\+?=(?!=)|:(?=\s))"
)
_BEFORE_VALUE: Final = re.compile(
    r"^[ \t]*set(?:env)?[ \t](?:-\w+[ \t])*([A-Z]+_[A-Z0-9_]+)[ \t]+\S", re.MULTILINE
)


def mentions(text: str, written: ParsedSource, aside: Sequence[str]) -> str:
    """Return the names that a text seems to set, and that were not read.

    Comments are left out, and the texts `aside`, of which it is known that they set nothing. If
    nothing was read, any name before a value counts, as in the language of another shell.
    """
    bare, read = _COMMENT.sub("", text), {one.name for one in _given(written)}
    matches = (*_NAMED.finditer(bare), *(() if read else _BEFORE_VALUE.finditer(bare)))
    names = dict.fromkeys(next(filter(None, match.groups())) for match in matches)
    told = " ".join(
        [
            *aside,
            *(text for one in written.programs for text in (*one.notes, *one.not_read)),
            *(one.text for one in _given(written)),
            *(f"{one.text} {one.why}" for program in written.programs for one in program.issues),
        ]
    )
    read |= {name.upper() for name in read} | {one.variable for one in written.given}
    read |= {one.name for issue in written.issues for one in issue.lost}
    read |= {str(issue.channel) for issue in written.issues}
    names = [name for name in names if name not in read and name not in told]
    left = [name for name in names if _is_known(name, program=written.form == "python")]
    return some(left, _SHOWN) if left else ""


def _given(written: ParsedSource) -> Iterator[Occurrence]:
    for program in written.programs:
        yield from program.given


def _is_known(name: str, *, program: bool) -> bool:
    """Return whether a name is a setting; in a program, others like it are its own constants."""
    from counterpoint.flags.catalogue.variable import nccl_names, variables  # rarely needed

    if name.startswith(("xla_", "XLA_FLAGS", "LIBTPU_INIT_ARGS")):
        return True
    family = not program and name.startswith(("XLA_", "JAX_", "NCCL_")) and "_VERSION" not in name
    return family or name in variables() or name in nccl_names()
