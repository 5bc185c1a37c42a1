"""Shapes in HLO text: `bf16[8,128]{1,0:T(8,128)(2,1)S(1)}`, `(f32[], s32[2]{0})`, `token[]`."""

from __future__ import annotations

import re

from counterpoint.core.errors import InputError
from counterpoint.hlo.shape import Shape, element_bits
from counterpoint.hlo.text_scan import closing, shown, split, without_comments

_ARRAY = re.compile(r"([a-z][a-z0-9]*)\[([\d,<=\s?]*)\](?:\{([^{}]*)\})?")
_MEMORY_SPACE = re.compile(r"S\((\d+)\)")
_BUFFER = re.compile(r"b\((.*)\)", re.DOTALL)


class Shapes:
    """Reads shapes, each spelling once."""

    def __init__(self) -> None:
        self._known: dict[str, Shape] = {}

    def at_start(self, text: str) -> tuple[Shape, int]:
        """The shape at the start of the text and the index after it."""
        if text.startswith(("(", "b(")):
            end = closing(text, text.index("("))
        else:
            match = _ARRAY.match(text)
            if not match:
                raise _unreadable(text)
            end = match.end()
        return self.read(text[:end]), end

    def read(self, text: str) -> Shape:
        """The shape which the whole text spells."""
        shape = self._known.get(text)
        if shape is None:
            shape = self._known[text] = self._parse(without_comments(text).strip())
        return shape

    def _parse(self, text: str) -> Shape:
        if text.startswith("("):
            return Shape("tuple", parts=tuple(map(self.read, split(text[1:-1]))))
        buffer = _BUFFER.fullmatch(text)
        if buffer:
            return Shape("buffer", parts=(self.read(buffer[1]),))
        match = _ARRAY.fullmatch(text)
        if not match:
            raise _unreadable(text)
        dtype, dims, layout = match.groups()
        element_bits(dtype)
        order, _, rest = (layout or "").partition(":")
        space = _MEMORY_SPACE.search(rest)
        return Shape(
            dtype,
            dims=tuple(int(dim) for dim in re.findall(r"\d+", dims)),
            minor_to_major=tuple(int(dim) for dim in re.findall(r"\d+", order)),
            memory_space=int(space[1]) if space else 0,
        )


def _unreadable(text: str) -> InputError:
    return InputError(
        f"shape {shown(text)} can't be read",
        why="shapes look like bf16[8,128]{1,0} or (f32[], s32[2])",
    )
