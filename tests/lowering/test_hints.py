"""The hint of a program that failed is that of its last exception."""

from __future__ import annotations

from pathlib import Path

import pytest

import counterpoint.lowering
from counterpoint.lowering.errors import failed, is_of_stand_in, is_own_refusal

CAUGHT = """\
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    import transformer_engine
ModuleNotFoundError: No module named 'transformer_engine'
"""
LAST = """\
Traceback (most recent call last):
  File "train.py", line 9, in <module>
    run()
ValueError: the batch is odd
"""
IN_PALLAS = """\
Traceback (most recent call last):
  File "/jax/_src/pallas/mosaic_gpu/lowering.py", line 1248, in lower_jaxpr_to_mosaic_gpu
    raise NotImplementedError(
NotImplementedError: Unimplemented primitive in Pallas Mosaic GPU lowering: sort
"""
CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        (IN_PALLAS, None),
        (IN_PALLAS + LAST, "run the command by itself, with JAX_PLATFORMS=cpu"),
        (CAUGHT, "install transformer_engine where the program runs"),
        (f"WARNING: going on\n{CAUGHT}{LAST}", "run the command by itself, with JAX_PLATFORMS=cpu"),
        (CAUGHT + CAUSE + LAST, "install transformer_engine where the program runs"),
        ("No module named 'flax'", "install flax where the program runs"),
    ],
    ids=["Pallas", "after Pallas", "alone", "caught before", "the cause", "without a traceback"],
)
def test_the_last_exception_is_hinted_at(errors: str, expected: str | None) -> None:
    assert failed(["python", "train.py"], 1, errors, [], ["it failed"]).next == expected


FRAME = 'Traceback (most recent call last):\n  File "{}", line 9, in check\n    {}\n{}\n'


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        (FRAME.format("trainer.py", "raise ValueError(x)", "ValueError: batch 7 is odd"), True),
        (FRAME.format("trainer.py", "assert n % 2 == 0", "AssertionError"), True),
        (FRAME.format("trainer.py", "step(x)", "ValueError: 7 should be divisible by 2"), True),
        (FRAME.format("trainer.py", "import x", "ModuleNotFoundError: No module named 'x'"), True),
        ("usage: train.py [-h]\ntrain.py: error: unrecognized arguments: --lr", True),
        (FRAME.format("t.py", "raise ValueError(x)", "ValueError: flash needs a GPU"), False),
        (FRAME.format("t.py", "step(x)", "XlaRuntimeError: INTERNAL: no such thing"), False),
        (CAUGHT, False),
        ("", False),
    ],
)
def test_a_refusal_of_the_programs_own_does_not_depend_on_devices(
    errors: str, expected: bool
) -> None:
    assert is_own_refusal(errors) is expected


def test_an_error_of_a_stand_in_is_known_by_its_file() -> None:
    home = Path(counterpoint.lowering.__file__).parent / "emulator"
    raised = ("raise NotImplementedError()", "NotImplementedError: dropout")
    assert is_of_stand_in(FRAME.format(home / "transformer_engine.py", *raised))
    assert not is_of_stand_in(FRAME.format("/me/emulator/transformer_engine.py", *raised))
    assert not is_of_stand_in(LAST)
