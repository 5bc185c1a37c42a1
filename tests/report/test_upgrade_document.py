"""The report of `upgrade` says what is the same, what a flag undoes, and what has no effect."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from counterpoint.core import InputError
from counterpoint.hlo import Program
from counterpoint.report.predict.upgrade_document import upgrade_document
from counterpoint.report.terminal import print_document
from counterpoint.workflow.upgrade import Upgrade
from counterpoint.workflow.upgrade.upgrade import compared
from hand_made import Told
from made_upgrade import TARGET, flag_try, made, op, side, slower_upgrade, with_text

GIB = 1 << 30
CALLS = ", kind=kLoop, calls=fused"
FLAG = (("xla_gpu_enable_triton_gemm", "false"),)


def text_of(found: Upgrade) -> str:
    screen = io.StringIO()
    print_document(upgrade_document(found), screen)
    return " ".join(screen.getvalue().split())


@pytest.mark.parametrize(
    ("temp", "verdict", "changed"),
    [
        (GIB, "both compile to the same program", "nothing but names"),
        (
            2 * GIB,
            "both run the same operations in the same time; only memory differs",
            "memory only",
        ),
    ],
)
def test_a_program_that_needs_other_memory_is_not_the_same(
    temp: int, verdict: str, changed: str
) -> None:
    told = Told({"wave": 0.01, "x.1": 0.01})
    before = side("0.10.1", made(op("ROOT wave")), told, GIB)
    after = side("0.10.2", made(op("ROOT x.1", scope="wave")), told, temp)
    found = compared(before, after, TARGET)
    text = text_of(found)
    assert verdict in text
    assert f"What changed {changed}" in text
    assert found.is_same_program is (temp == GIB)


def test_another_function_inside_a_kernel_is_not_the_same_program() -> None:
    def kernel(opcode: str) -> Program:
        return with_text(
            "\nfused {\n  q = f32[64,32] parameter(0)\n"
            f"  ROOT r = f32[64,32] {opcode}(q)\n}}\n\nENTRY main {{\n"
            f"  p = f32[64,32] parameter(0)\n{op('ROOT wave', 'fusion', rest=CALLS)}\n}}\n"
        )

    told = Told({"wave": 0.01})
    before, after = (
        side(version, kernel(opcode), told, GIB)
        for version, opcode in (("0.10.1", "logistic"), ("0.10.2", "tanh"))
    )
    text = text_of(compared(before, after, TARGET))
    assert "both take the same time, with different operations" in text
    assert "operations in the same time: 1 fewer logistic, 1 more tanh" in text


def test_a_flag_that_saves_next_to_nothing_is_not_listed_as_one_that_undoes_it() -> None:
    found = slower_upgrade()
    step = found.after.forecast.step_s
    little = flag_try(found, FLAG, step * (1 - 5e-4))
    assert not little.has_effect
    text = text_of(replace(found, tries=(little,)))
    assert "none makes the step shorter" in text
    assert "the same step time, within 0.1%: --xla_gpu_enable_triton_gemm=false" in text
    assert "undoes" not in text
    useful = flag_try(found, FLAG, step * (1 - 5e-3))
    assert useful.helps
    assert "the best saves" in text_of(replace(found, tries=(useful, little)))
    worse = flag_try(found, FLAG, step * (1 + 5e-3))
    assert worse.has_effect
    assert not worse.helps
    assert "none makes the step shorter" in text_of(replace(found, tries=(worse,)))


def test_a_change_across_a_release_that_failed_is_not_pinned_on_the_next_one() -> None:
    found = slower_upgrade()
    text = text_of(found)
    assert "Releases between the step changed in one of 0.10.1.1 to 0.10.2" in text
    assert "jax 0.10.1.1: it can't compile it" in text
    failed = InputError("with jax 0.10.1.1: python x.py failed", why="Traceback\n  KeyError: 1")
    steps = (found.steps[0], replace(found.steps[1], error=failed), found.steps[2])
    assert "jax 0.10.1.1: python x.py failed: KeyError: 1" in text_of(replace(found, steps=steps))
    whole = replace(found, steps=(found.steps[0], found.steps[2]))
    assert "the step changed in 0.10.2" in text_of(whole)


def test_a_change_below_what_predictions_tell_is_too_close_to_call() -> None:
    before, after = (
        side(version, made(op("ROOT wave", opcode)), Told({"wave": seconds}))
        for version, opcode, seconds in (("0.10.1", "sine", 0.01), ("0.10.2", "cosine", 0.0101))
    )
    close = compared(before, after, TARGET)
    assert "too close to call, since a prediction can't resolve less than 1.5%: +1.0%" in text_of(
        close
    )
    assert "jax 0.10.2 is slower: +10.0%" in text_of(slower_upgrade())
