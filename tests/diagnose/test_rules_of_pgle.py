"""STEP602 to STEP604: no PGLE profile, one of another program, one that lacks costs.

The step is that of STEP101: a reduce of 8 ms of which 3 are exposed, on two H100s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from made_step import Work, hlo, made, negate, reduce_done, reduce_start, told
from runs_with_memory import run_with

from counterpoint.core.basis import Range, Unknown
from counterpoint.diagnose.collectives.requirement import Bound, classify
from counterpoint.diagnose.finding import Finding
from counterpoint.diagnose.rules import (
    exposed_collective,
    pgle_coverage,
    pgle_missing,
    pgle_stale,
)
from counterpoint.diagnose.step_data import StepData
from golden_sections import Said

LHS = "xla_gpu_enable_latency_hiding_scheduler"
PROFILE = "xla_gpu_pgle_profile_file_or_directory_path"
OURS, OTHER = "a" * 32, "b" * 32
ON = {LHS: "true"}
NAMES = ("work.1", "start", "work.2", "work.3", "work.4")

HLO = hlo(
    negate("work.1", "p"),
    reduce_start("start", "work.1"),
    negate("work.2", "work.1"),
    reduce_done("done", "start"),
    negate("work.3", "done"),
    root=negate("work.4", "work.3"),
).replace(
    "num_partitions=2",
    f'num_partitions=2, frontend_attributes={{fingerprint_before_lhs="{OURS}"}}',
)


def case(
    flags: Mapping[str, str] | None, reduce_ms: float = 8, *, movable_ms: float | None = None
) -> StepData:
    ready = max(10.0, 5 + reduce_ms)
    step: list[Work] = [
        ("work.1", 0, 5),
        ("start", 5, reduce_ms),
        ("work.2", 5, 5),
        ("work.3", ready, 5),
        ("work.4", ready + 5, 2),
    ]
    found = made(HLO, step, 20, beside=["start"], flags=flags, jaxlib="0.10.2")
    return told(found, start={"movable_ms": movable_ms, "bound": Bound.SCHEDULE})


def profile(path: Path, names: tuple[str, ...] = NAMES, fingerprint: str = OURS) -> dict[str, str]:
    costs = "\n".join(f'costs {{ name: "{fingerprint}::{name}" cost_us: 5000 }}' for name in names)
    file = path / "step.pbtxt"
    file.write_text(costs + "\n", encoding="utf-8")
    return {**ON, PROFILE: str(file)}


def all_of(case: StepData) -> list[Finding]:
    rules = (pgle_missing, pgle_stale, pgle_coverage)
    return [found for rule in rules for found in rule.check(case)]


def codes(case: StepData) -> list[str]:
    return [found.code for found in all_of(case)]


def test_the_program_of_these_tests_bears_its_fingerprint() -> None:
    program = case(ON).program
    assert program is not None
    assert program.fingerprint == OURS


def test_a_schedule_made_by_guesses_is_found(said: Said) -> None:
    (found,) = all_of(case(ON))
    assert found.code == "STEP602"
    assert isinstance(found.saves_ms, Unknown)
    assert "STEP101" in found.saves_ms.reason
    assert [it.what for it in found.evidence] == ["start"]
    said(found)


@pytest.mark.parametrize(
    "silent",
    [
        case(ON, reduce_ms=5),  # all hidden
        case(None),  # nobody knows the settings
        case({LHS: "false", "xla_disable_hlo_passes": "latency-hiding-scheduler"}),
        case(ON, movable_ms=0.0),  # nothing could run beside it: costs change nothing
    ],
)
def test_guesses_that_cost_nothing_known_are_not(silent: StepData) -> None:
    assert all_of(silent) == []


def test_a_profile_that_jax_makes_itself_is_one(tmp_path: Path) -> None:
    plain = case(ON)
    auto = replace(plain.context, environment={"JAX_ENABLE_PGLE": "true"})
    assert list(pgle_missing.check(replace_context(plain, auto))) == []
    off = replace(plain.context, environment={"JAX_ENABLE_PGLE": "false"})
    assert list(pgle_missing.check(replace_context(plain, off))) != []
    log = "I0101 00:00:00.000000 1 gpu_hlo_schedule.cc:1] Found profile, using profile guided\n"
    run = run_with(tmp_path, log=log)
    logged = replace(plain.context, run=run)
    assert list(pgle_missing.check(replace_context(plain, logged))) == []


def replace_context(of: StepData, context: object) -> StepData:
    made_of = StepData(selection=of.selection, context=context)  # pyright: ignore[reportArgumentType]
    made_of.tables[classify] = of.cached(classify)
    return made_of


def test_a_profile_of_this_program_with_all_costs_is_fine(tmp_path: Path) -> None:
    assert codes(case(profile(tmp_path))) == []


def test_a_profile_of_another_program_is_stale(tmp_path: Path) -> None:
    (found,) = all_of(case(profile(tmp_path, fingerprint=OTHER)))
    assert found.code == "STEP603"
    assert OTHER in found.detail
    assert isinstance(found.saves_ms, Range)
    assert (found.saves_ms.low, found.saves_ms.high) == pytest.approx((0.0, 3.0))


def test_who_has_a_profile_is_not_told_to_give_one(tmp_path: Path, said: Said) -> None:
    (without,) = exposed_collective.check(case(ON))
    (with_one,) = exposed_collective.check(case(profile(tmp_path)))
    assert "counterpoint pgle check" in with_one.remedy.text
    said(without)


def test_a_stale_profile_that_costs_nothing_is_not_worth_a_word(tmp_path: Path) -> None:
    assert codes(case(profile(tmp_path, fingerprint=OTHER), reduce_ms=5)) == []


def test_a_profile_that_is_not_there_any_more_says_nothing(tmp_path: Path) -> None:
    assert codes(case({**ON, PROFILE: str(tmp_path / "gone.pbtxt")})) == []


def test_a_collective_without_a_cost_is_found(tmp_path: Path, said: Said) -> None:
    (found,) = all_of(case(profile(tmp_path, ("work.1", "work.2", "work.3", "work.4"))))
    assert found.code == "STEP604"
    assert found.evidence[0].what == "start"
    assert "1 of 1" in found.title
    said(found)


def test_so_is_work_that_takes_much_time(tmp_path: Path, said: Said) -> None:
    # work.1 takes 5 of the 25 ms that are measured: 80% are covered.
    (found,) = all_of(case(profile(tmp_path, ("start", "work.2", "work.3", "work.4"))))
    assert found.code == "STEP604"
    assert "20%" in found.title
    said(found)


def test_little_work_without_a_cost_is_not(tmp_path: Path) -> None:
    # work.4 takes 2 of 25.
    assert codes(case(profile(tmp_path, ("work.1", "start", "work.2", "work.3")))) == []
