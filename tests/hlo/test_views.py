"""Who wrote what an instruction reads."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from counterpoint.hlo.model.program import Program
from counterpoint.hlo.views import VIEWS, writer_of


@pytest.fixture
def program(module: Callable[..., Program]) -> Program:
    """Two values in a tuple, of which the second is read."""
    return module("""
  %p = f32[8] parameter(0)
  %first = f32[8] sine(%p)
  %second = f32[8] cosine(%p)
  %both = (f32[8], f32[8]) tuple(%first, %second)
  %held = (f32[8], f32[8]) opt-barrier(%both)
  %part = f32[8] get-tuple-element(%held), index=1
  %moved = f32[8] copy(%part)
  %view = f32[8] bitcast(%moved)
  ROOT %reader = f32[8] negate(%view)
""")


@pytest.mark.parametrize(
    ("reader", "through", "writer"),
    [
        ("reader", VIEWS, "moved"),
        ("reader", (*VIEWS, "copy"), "second"),
        ("moved", VIEWS, "second"),
        ("first", VIEWS, "p"),
        ("p", VIEWS, None),
    ],
)
def test_the_writer_is_found_through_views(
    program: Program, reader: str, through: tuple[str, ...], writer: str | None
) -> None:
    it = program.instruction(reader)
    assert it is not None
    found = writer_of(program, it, through)
    assert (found.name if found else None) == writer
