"""What no walk over a program could stand is refused by its reader."""

from __future__ import annotations

import pytest

from counterpoint.core import InputError
from counterpoint.hlo.text_reader import program_from_text

BEFORE = """HloModule made, is_scheduled=true

body {
  ROOT b = (f32[8], f32[8]) parameter(0)
}

ENTRY main {
  p = (f32[8], f32[8]) parameter(0)
"""


@pytest.mark.parametrize(
    ("instruction", "why"),
    [
        ("f32[8] get-tuple-element(p), index=2", "reads element 2 of p, which has 2"),
        ("f32[8] get-tuple-element(p), index=-1", "reads element -1 of p"),
        ("f32[8] get-tuple-element(), index=0", "is a get-tuple-element of 0 operands"),
        ("f32[8] while(p), body=body", "is a while that calls 1 computations"),
        ("f32[8] while(), body=body, condition=body", "is a while of 0 operands"),
        ("f32[8] dynamic-slice(), dynamic_slice_sizes={8}", "is a dynamic-slice of 0 operands"),
    ],
)
def test_an_instruction_without_what_it_needs(instruction: str, why: str) -> None:
    with pytest.raises(InputError) as refused:
        program_from_text(f"{BEFORE}  ROOT r = {instruction}\n}}\n")
    assert refused.value.why
    assert f"r {why}" in refused.value.why


def test_the_last_element_is_one() -> None:
    program_from_text(f"{BEFORE}  ROOT r = f32[8] get-tuple-element(p), index=1\n}}\n")
