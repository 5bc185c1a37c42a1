"""What no walk over a program could stand is refused by its reader."""

from __future__ import annotations

import pytest

from counterpoint.core import InputError
from counterpoint.hlo.text_reader import program_from_text
from counterpoint.hlo.work import bytes_accessed

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


FUSIONS = """HloModule m, is_scheduled=true

%inner (x: f32[8], y: f32[8]) -> f32[8] {
  %x = f32[8]{0} parameter(0)
  %y = f32[8]{0} parameter(1)
  ROOT %sum = f32[8]{0} add(%x, %y)
}

%outer (z: f32[8]) -> f32[8] {
  %z = f32[8]{0} parameter(0)
  ROOT %nested = f32[8]{0} fusion(OPERANDS), kind=kLoop, calls=%inner
}

ENTRY %main (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  %plain = f32[8]{0} fusion(%p), kind=kLoop
  ROOT %last = f32[8]{0} fusion(%plain), kind=kLoop, calls=%outer
}
"""


def test_a_fusion_without_an_argument_of_what_it_calls_is_refused() -> None:
    with pytest.raises(InputError, match="damaged") as refused:
        program_from_text(FUSIONS.replace("OPERANDS", "%z"))
    assert "nested passes 1 of 2 arguments to inner" in str(refused.value)


def test_a_fusion_of_unknown_instructions_reads_its_operands_and_writes_its_result() -> None:
    program = program_from_text(FUSIONS.replace("OPERANDS", "%z, %z"))
    plain = program.instruction("plain")
    assert plain is not None
    assert bytes_accessed(program, plain) == 2 * 8 * 4
