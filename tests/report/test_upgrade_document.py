"""The report of `upgrade` says what is the same, what a flag undoes, and what has no effect."""

from __future__ import annotations

from dataclasses import replace

import pytest

from counterpoint.core import InputError
from counterpoint.hlo.model.program import Program
from counterpoint.report.predict.upgrade_document import upgrade_document
from counterpoint.report.terminal import plain_text
from counterpoint.workflow.upgrade import Upgrade, UpgradeSide
from counterpoint.workflow.upgrade.upgrade import compared
from golden_files import Golden, cases
from hand_made import Told
from made_upgrade import TARGET, flag_try, made, op, side, slower_upgrade, with_text

GIB = 1 << 30
CALLS = ", kind=kLoop, calls=fused"
FLAG = (("xla_gpu_enable_triton_gemm", "false"),)


def text_of(found: Upgrade) -> str:
    return " ".join(report_of(found).split())


def report_of(found: Upgrade) -> str:
    """The same in lines."""
    return plain_text(upgrade_document(found))


@pytest.mark.parametrize(
    ("temp", "verdict", "changed"),
    [
        (GIB, "the same program", "nothing but names"),
        (2 * GIB, "memory differs", "memory only"),
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


def test_another_function_inside_a_kernel_is_not_the_same_program(golden: Golden) -> None:
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
    found = compared(before, after, TARGET)
    assert found.has_same_ops
    assert not found.is_same_program
    assert found.other_opcodes == (("logistic", -1), ("tanh", 1))
    golden("upgrade_with_other_operations.txt", report_of(found))


def test_a_flag_that_saves_next_to_nothing_is_not_listed_as_one_that_undoes_it(
    golden: Golden,
) -> None:
    found = slower_upgrade()
    step = found.after.forecast.step_s
    little = flag_try(found, FLAG, step * (1 - 5e-4))
    assert not little.has_effect
    useful = flag_try(found, FLAG, step * (1 - 5e-3))
    assert useful.helps
    worse = flag_try(found, FLAG, step * (1 + 5e-3))
    assert worse.has_effect
    assert not worse.helps
    texts = {
        "it saves next to nothing": report_of(replace(found, tries=(little,))),
        "one saves something": report_of(replace(found, tries=(useful, little))),
        "it makes the step longer": report_of(replace(found, tries=(worse,))),
    }
    golden("upgrade_flags.txt", cases({name: flags_of(text) for name, text in texts.items()}))
    assert "undoes" not in texts["it saves next to nothing"]


def flags_of(report: str) -> str:
    """What it says of flags."""
    return report[report.index("\nFlags that may") : report.index("\nReleases between")].strip()


def test_a_change_across_a_release_that_failed_is_not_pinned_on_the_next_one(
    golden: Golden,
) -> None:
    found = slower_upgrade()
    failed = InputError("with jax 0.10.1.1: python x.py failed", why="Traceback\n  KeyError: 1")
    steps = (found.steps[0], replace(found.steps[1], error=failed), found.steps[2])
    texts = {
        "a release between can't compile it": report_of(found),
        "a release between fails with a traceback": report_of(replace(found, steps=steps)),
        "no release failed": report_of(replace(found, steps=(found.steps[0], found.steps[2]))),
    }
    releases = {
        name: text[text.index("\nReleases between") :].partition("\n\n")[0].strip()
        for name, text in texts.items()
    }
    golden("upgrade_releases.txt", cases(releases))
    assert ["one of 0.10.1.1" in text for text in releases.values()] == [True, True, False]


def test_a_package_has_one_name_however_an_installer_writes_it() -> None:
    found = slower_upgrade()

    def with_packages(side: UpgradeSide, **versions: str) -> UpgradeSide:
        python = replace(side.installation.interpreter, versions=versions)
        return replace(side, installation=replace(side.installation, interpreter=python))

    uv = {"jax": "0.9.2", "ml-dtypes": "0.5.4", "opt-einsum": "3.4.0", "jaxtyping": "0.3.2"}
    pip = {"jax": "0.10.2", "ml_dtypes": "0.5.4", "opt_einsum": "3.5.0", "Jaxtyping": "0.3.3"}
    found = replace(
        found, before=with_packages(found.before, **uv), after=with_packages(found.after, **pip)
    )
    assert found.other_packages == {
        "jaxtyping": ("0.3.2", "0.3.3"),
        "opt-einsum": ("3.4.0", "3.5.0"),
    }


def test_a_change_below_what_predictions_tell_is_too_close_to_call() -> None:
    before, after = (
        side(version, made(op("ROOT wave", opcode)), Told({"wave": seconds}))
        for version, opcode, seconds in (("0.10.1", "sine", 0.01), ("0.10.2", "cosine", 0.0101))
    )
    close = compared(before, after, TARGET)
    assert "too close to call" in text_of(close)
    assert "+1.0%" in text_of(close)
    assert "jax 0.10.2 is slower: +10.0%" in text_of(slower_upgrade())
