"""The whole loop without a GPU: a step that ran on eight virtual CPU devices, compiled for eight
H100s by the real compiler, with costs for its instructions; log and schedule prove the use."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from counterpoint.compile.inputs.workload import load_workload
from counterpoint.core.errors import CounterpointError, InputError, UsageError
from counterpoint.flags.versions import LHS, PROFILE
from counterpoint.hardware.targets import parse_target
from counterpoint.hlo.model.program import Program
from counterpoint.pgle.applying.apply import AppliedProfile, apply_profile, compare_compiles
from counterpoint.pgle.lookups import xla_lookups
from counterpoint.pgle.profiles.files import read_profile, write_profile
from counterpoint.pgle.staleness import ProfileFit
from lowered import H100, Lowered, costs_of

CUBLAS = {"xla_gpu_enable_triton_gemm": "false"}
NO_ASYNC = {"xla_gpu_disable_async_collectives": "ALLCOLLECTIVES"}


def apply(lowered: Lowered, path: Path, options: dict[str, str] | None = None) -> AppliedProfile:
    """What `apply_profile` does, with the compile without a profile made once for all tests."""
    plain = options or {}
    compiled = lowered.compile({**plain, PROFILE: str(path)})
    return compare_compiles(path, read_profile(path), lowered.compile(plain), compiled)


@pytest.fixture(scope="module")
def applied(lowered: Lowered, tmp_path_factory: pytest.TempPathFactory) -> AppliedProfile:
    path = tmp_path_factory.mktemp("profile") / "step.pbtxt"
    write_profile(costs_of(lowered.compile().program), path)
    said: list[str] = []
    applied = apply_profile(load_workload(lowered.ir), H100, path, say=said.append)
    assert [line.rpartition(" ")[0] for line in said] == [
        "compiling jit_step for 8xH100 without the",
        "compiling jit_step for 8xH100 with the",
    ]
    return applied


@pytest.mark.smoke
def test_log_and_schedule_prove_that_the_profile_was_used(applied: AppliedProfile) -> None:
    assert applied.used
    assert applied.found >= len(applied.profile.costs)
    assert applied.missing == 0
    assert applied.changed
    assert applied.warnings == ()
    assert applied.coverage.staleness.fit is ProfileFit.FITS
    assert any("PGLE profile from" in line for line in applied.proof)
    assert any("module jit_step" in line for line in applied.proof)
    assert applied.module is not None
    assert applied.module.fallback == "SolLatencyEstimator"


@pytest.mark.smoke
def test_the_movement_is_that_of_the_two_schedules(applied: AppliedProfile) -> None:
    """Counted again from the programs, by a walk that knows costs by kind only."""
    assert applied.movement.moved
    for move in applied.movement.moves:
        for program, place in (
            (applied.without.program, move.before),
            (applied.compiled.program, move.after),
        ):
            found = program.computations[place.computation].instructions
            start = found[place.index]
            done = next((it for it in found if it.operands[:1] == (start.name,)), start)
            names = {it.names[0] for it in xla_lookups(program) if not it.collective}
            within = found[start.index + 1 : done.index]
            works = [it for it in within if it.name in names and "-" not in it.opcode]
            if not place.sync:
                assert place.within_us == 30.0 * len(works)
            assert place.cost_us == 500.0


def test_nothing_but_the_order_and_the_profile_differ(applied: AppliedProfile) -> None:
    def asked(program: Program) -> set[str]:
        return {it.names[0] for it in xla_lookups(program)}

    assert asked(applied.without.program) == asked(applied.compiled.program)
    assert applied.without.fingerprint == applied.compiled.fingerprint
    added = set(applied.compiled.options) - set(applied.without.options)
    assert added == {PROFILE}
    assert applied.compiled.memory.argument == applied.without.memory.argument


def test_a_profile_of_other_flags_is_used_and_loudly_doubted(
    lowered: Lowered, tmp_path: Path
) -> None:
    """The flags of the profile run that pages recommend: every name matches, no cost is right."""
    sync = lowered.compile(NO_ASYNC).program
    path = write_profile(costs_of(sync), tmp_path / "step.pbtxt")
    stale = apply(lowered, path)
    assert stale.used
    assert stale.stale
    assert not stale.fits
    assert "another program" in stale.warnings[0]
    assert sum(str(sync.fingerprint) in it for it in stale.warnings) == 1
    assert str(sync.fingerprint) in stale.warnings[0]
    assert str(stale.compiled.fingerprint) in stale.warnings[0]


def test_a_profile_of_another_program_is_caught(lowered: Lowered, tmp_path: Path) -> None:
    other = lowered.compile(CUBLAS).program
    named = write_profile(costs_of(other, other.fingerprint), tmp_path / "named.pbtxt")
    foreign = apply(lowered, named)
    assert not foreign.used
    assert foreign.found == 0
    assert not foreign.changed
    assert foreign.coverage.staleness.fit is ProfileFit.FOREIGN
    assert not any("few of its" in it for it in foreign.warnings)
    # XLA itself says that it found a profile: that is why its word alone is no proof.
    assert any("Found profile" in line for line in foreign.proof)


def test_the_same_flags_with_which_it_was_made_make_it_fit(
    lowered: Lowered, tmp_path: Path
) -> None:
    made = costs_of(lowered.compile(CUBLAS).program)
    path = write_profile(made, tmp_path / "step.pb")  # no room for its origin, so bare
    fitting = apply(lowered, path, CUBLAS)
    assert fitting.used
    assert fitting.missing == 0
    assert fitting.coverage.staleness.fit is ProfileFit.UNTOLD


def test_costs_that_predict_made_fit_the_program_that_it_compiled(
    lowered: Lowered, tmp_path: Path
) -> None:
    """XLA's first choice for GEMMs is Triton, while `predict` compiles library calls."""
    path, said = tmp_path / "step.pbtxt", []
    predicted = lowered.compile(CUBLAS)
    assert predicted.fingerprint != lowered.compile().fingerprint
    write_profile(costs_of(predicted.program), path)
    found = apply_profile(load_workload(lowered.ir), H100, path, say=said.append)
    assert found.used
    assert found.missing == 0
    assert found.coverage.staleness.fit is ProfileFit.FITS
    assert found.without.fingerprint == predicted.fingerprint
    assert found.options.items() >= CUBLAS.items()
    assert len(said) == 3


def test_a_directory_of_fingerprints_is_used(lowered: Lowered, tmp_path: Path) -> None:
    program = lowered.compile().program
    place = tmp_path / "profiles"
    write_profile(costs_of(program, program.fingerprint), place)
    found = apply(lowered, place)
    assert found.used
    assert found.coverage.staleness.fit is ProfileFit.FITS
    assert any(f"{program.fingerprint}.pbtxt" in line for line in found.proof)


def test_a_profile_where_xla_takes_none_is_refused_before_any_compile(
    lowered: Lowered, tmp_path: Path
) -> None:
    good = write_profile(costs_of(lowered.compile().program), tmp_path / "good.pbtxt")
    text = good.read_bytes()
    for name, content in {
        "absent.pbtxt": None,
        "good.txt": text,
        "good": text,
        "good.pb": text,
        "cut.pbtxt": text[: len(text) // 2],
        "empty.pbtxt": b"",
    }.items():
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        said: list[str] = []
        with pytest.raises(InputError, match=name):
            apply_profile(load_workload(lowered.ir), H100, path, say=said.append)
        assert said == []


def test_partial_cover_is_counted_and_under_error_fails_the_compile(
    lowered: Lowered, tmp_path: Path
) -> None:
    whole = costs_of(lowered.compile().program)
    kept = len(whole.costs) // 2
    path = write_profile(replace(whole, costs=whole.costs[:kept]), tmp_path / "part.pbtxt")
    part = apply(lowered, path)
    assert part.used
    assert part.found >= kept  # XLA looks some up that it would not miss
    assert 0 < part.missing <= len(whole.costs) - kept + 1
    assert len(part.module.missing_names if part.module else ()) == part.missing
    assert part.partial
    assert any("its own model" in it for it in part.warnings)
    strict = {"xla_gpu_pgle_accuracy_checker": "PGLE_STRICTNESS_LEVEL_ERROR"}
    with pytest.raises(CounterpointError, match="not used") as told:
        apply_profile(load_workload(lowered.ir), H100, path, strict)
    assert told.value.exit_code == 1
    assert "PGLE_STRICTNESS_LEVEL_WARN" in str(told.value.next)


def test_without_the_scheduler_a_profile_is_not_called_used(
    lowered: Lowered, tmp_path: Path
) -> None:
    path = write_profile(costs_of(lowered.compile().program), tmp_path / "step.pbtxt")
    off = apply(lowered, path, {"xla_disable_hlo_passes": "latency-hiding-scheduler"})
    assert any("Found profile" in line for line in off.proof)
    assert not off.used
    assert not off.changed
    assert "latency-hiding-scheduler" in off.reason


def test_the_profile_is_not_credited_with_what_the_scheduler_does(
    lowered: Lowered, tmp_path: Path
) -> None:
    """On an A100 it runs with a profile only, unless its flag says otherwise."""
    path = write_profile(costs_of(lowered.compile().program), tmp_path / "step.pbtxt")
    both = apply_profile(load_workload(lowered.ir), parse_target("8xA100"), path)
    assert both.options[LHS] == both.without.options[LHS] == "true"
    assert any(move.before.overlaps for move in both.movement.moves)
    assert not any(LHS in it for it in both.warnings)


def test_a_scheduler_that_was_denied_is_warned_of(lowered: Lowered, tmp_path: Path) -> None:
    path = write_profile(costs_of(lowered.compile().program), tmp_path / "step.pbtxt")
    off = apply_profile(load_workload(lowered.ir), H100, path, {LHS: "false"})
    assert off.without.options[LHS] == off.options[LHS] == "false"
    assert sum(f"{LHS}=false" in it for it in off.warnings) == 1


def test_a_path_in_the_options_gives_way_to_the_profile(lowered: Lowered, tmp_path: Path) -> None:
    path = write_profile(costs_of(lowered.compile().program), tmp_path / "step.pbtxt")
    options = {PROFILE: "/of/the/run.pbtxt"}
    found = apply_profile(load_workload(lowered.ir), H100, path, options)
    assert found.used
    assert PROFILE not in found.options
    assert "/of/the/run" not in found.without.log + found.compiled.log


def test_a_real_profile_of_another_model_is_doubted(lowered: Lowered, shared: Path) -> None:
    """Names of Llama 70B on 16 nodes: most of this little model's are among them by chance."""
    found = apply(lowered, shared / "data" / "pgle" / "bf16_16vm.pbtxt")
    assert found.found > found.missing > 0
    assert found.coverage.staleness.fit is ProfileFit.UNTOLD
    assert "is unknown whether" in found.warnings[0]


def test_an_option_that_does_not_exist_is_named(lowered: Lowered, tmp_path: Path) -> None:
    path = write_profile(costs_of(lowered.compile().program), tmp_path / "step.pbtxt")
    with pytest.raises(UsageError, match="xla_gpu_no_such"):
        apply_profile(load_workload(lowered.ir), H100, path, {"xla_gpu_no_such": "1"})


def test_a_schedule_that_is_the_same_is_said(lowered: Lowered, tmp_path: Path) -> None:
    """Costs for the scheduler, and nothing that it could move."""
    options = {**NO_ASYNC, **CUBLAS}
    path = write_profile(costs_of(lowered.compile(options).program), tmp_path / "step.pbtxt")
    found = apply(lowered, path, options)
    assert found.used
    assert found.changed or any("is the same" in it for it in found.warnings)


def test_names_that_stand_for_other_operations_than_in_the_run_make_it_stale(
    lowered: Lowered, tmp_path: Path
) -> None:
    deep, plain = lowered.compile({"xla_gpu_enable_triton_gemm": "false"}), lowered.compile()
    path = write_profile(costs_of(deep.program), tmp_path / "step.pbtxt")
    compiled = lowered.compile({PROFILE: str(path)})
    there = compare_compiles(path, read_profile(path), plain, compiled, deep.program)
    assert there.renamed <= 0.1 * there.found
    assert there.fits
    swapped = replace(there, own=lowered.compile(NO_ASYNC).program)
    assert (swapped.renamed > 0.1 * swapped.found) is swapped.stale
    told = any(f"{swapped.renamed:,} names seem" in it for it in swapped.warnings)
    assert told is (swapped.renamed > 0)
