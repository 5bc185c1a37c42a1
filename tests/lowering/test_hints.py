"""The hint of a program that failed is that of its last exception."""

from __future__ import annotations

import pytest

from counterpoint.lowering.errors import failed

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
CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        (CAUGHT, "install transformer_engine where the program runs"),
        (f"WARNING: going on\n{CAUGHT}{LAST}", "run the command by itself, with JAX_PLATFORMS=cpu"),
        (CAUGHT + CAUSE + LAST, "install transformer_engine where the program runs"),
        ("No module named 'flax'", "install flax where the program runs"),
    ],
    ids=["alone", "caught before", "the cause", "without a traceback"],
)
def test_the_last_exception_is_hinted_at(errors: str, expected: str) -> None:
    assert failed(["python", "train.py"], 1, errors, [], ["it failed"]).next == expected
