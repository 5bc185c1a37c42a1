"""Functions of one name are told apart by where they are defined."""

from __future__ import annotations

from dataclasses import replace

import pytest

from counterpoint.hlo.definition import same_definition
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.model.stack import StackTable
from counterpoint.hlo.reader import read_program

TEXT = """HloModule jit__lambda, is_scheduled=true

ENTRY main {
  p = f32[8] parameter(0)
  tanh.1 = f32[8] tanh(p), metadata={op_name="jit(<lambda>)/tanh" stack_frame_id=1}
  ROOT add.1 = f32[8] add(tanh.1, p), metadata={op_name="jit(<lambda>)/add" stack_frame_id=2}
}
"""
CALLER, MODEL = 90, 27


def traced(*lines: int, called_at: int = CALLER) -> Program:
    """A lambda on these lines, called from a loop; both call the model's function."""
    functions = ("train", "train.<locals>.<lambda>", "loss_of")
    table = StackTable(
        files=("train.py", "models.py"),
        functions=functions,
        locations=((1, 1, called_at), *((1, 2, line) for line in lines), (2, 3, MODEL)),
        # Instruction n: loss_of within the lambda's n-th line within the loop.
        frames=(
            *((2 + len(lines), 3 + at) for at in range(2)),
            *((2 + min(at, len(lines) - 1), 5) for at in range(2)),
            (1, 0),
        ),
    )
    return replace(read_program(TEXT.encode()), stacks=table)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (traced(40), traced(40), True),
        (traced(40), traced(41), False),  # two lambdas that share all that they call
        (traced(40), traced(40, called_at=95), True),
        (traced(40, 41), traced(40, 41), True),
        (traced(40), read_program(TEXT.encode()), None),
    ],
)
def test_a_function_is_where_it_is_defined(one: Program, other: Program, same: bool | None) -> None:
    assert same_definition(one, other) is same
