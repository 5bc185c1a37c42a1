"""What XLA asks a profile for, held against XLA's own counts and lists of what it missed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from counterpoint.hlo.model.program import Program
from counterpoint.hlo.schedule import is_start
from counterpoint.hlo.text_reader import program_from_text
from counterpoint.pgle.lookups import base_name, costs_found, visited_computations, xla_lookups
from counterpoint.pgle.profiles.files import write_profile
from counterpoint.pgle.profiles.profile import InstructionCost, Profile
from counterpoint.pgle.unused_costs import unused_costs
from xla_compiler import Compilation, Compiler, Option

_MISSING = re.compile(r"profile_guided_latency_estimator\.cc:\d+\]   (\S+)$", re.MULTILINE)
_FOUND_COUNT = re.compile(r"Found (\d+) instructions from the profile")
_MISSING_COUNT = re.compile(r"Missing (\d+) instructions from the profile")
_FOUND = re.compile(r"PGLE found (?:cost for: (\S+)|latency for async op (\S+) and)")

DOUBLED: dict[str, Option] = {
    "xla_gpu_enable_while_loop_double_buffering": True,  # the flags of pipelining are gone in 0.12
}
MODELS: dict[str, tuple[str, dict[str, Option]]] = {
    "small": ("small", {}),
    "a scanned step": ("step", {}),
    "double buffered": ("step", DOUBLED),
    "branches, loops, every collective": ("zoo", {}),
    "recomputed": ("recomputed", {"xla_gpu_memory_limit_slop_factor": 4}),
}

Build = Callable[..., Program]


@pytest.fixture(scope="session")
def nothing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A profile without costs: XLA then lists everything it asks for."""
    path = tmp_path_factory.mktemp("profiles") / "empty.pbtxt"
    path.write_text("")
    return path


def names(program: Program) -> set[str]:
    return {it.names[0] for it in xla_lookups(program)}


def missed(compilation: Compilation) -> set[str]:
    listed = _MISSING.findall(compilation.log)
    count = _MISSING_COUNT.search(compilation.log)
    assert int(count[1] if count else 0) == len(listed)
    return set(listed)


@pytest.mark.parametrize("model", MODELS)
def test_of_an_empty_profile_xla_misses_exactly_what_is_needed(
    compiler: Compiler, nothing: Path, model: str
) -> None:
    name, options = MODELS[model]
    compilation = compiler.with_profile(name, nothing, **options)
    assert names(compilation.program) == missed(compilation) != set()


def test_the_recomputed_program_holds_clones_that_xla_never_asks_for(
    compiler: Compiler, nothing: Path
) -> None:
    name, options = MODELS["recomputed"]
    program = compiler.with_profile(name, nothing, **options).program
    clones = [it.name for it in program.instructions if ".remat" in it.name]
    if not clones:
        pytest.skip(f"jax {compiler.jax} recomputes nothing of this program")
    assert not names(program) & set(clones)


def test_collectives_that_a_flag_makes_synchronous_are_asked_here_and_not_by_xla(
    compiler: Compiler, nothing: Path
) -> None:
    compilation = compiler.with_profile(
        "step", nothing, xla_gpu_disable_async_collectives="ALLCOLLECTIVES"
    )
    lookups = xla_lookups(compilation.program)
    assert {it.names[0] for it in lookups if not it.sync} == missed(compilation)
    assert sum(it.sync for it in lookups) == sum(it.collective for it in lookups) == 6


@pytest.mark.parametrize("part", [slice(None, None, 2), slice(1, None, 3)])
def test_xla_counts_what_a_partial_profile_has(
    compiler: Compiler, tmp_path: Path, part: slice
) -> None:
    lookups = xla_lookups(compiler.compile("step").program)
    wanted = sorted(it.names[0] for it in lookups)
    given = wanted[part]
    # Of an async start that is no collective XLA asks for the cost and for the latency.
    twice = [it.names[0] for it in lookups if is_start(it.instruction) and not it.collective]
    path = tmp_path / "part.pbtxt"
    write_profile(Profile(tuple(InstructionCost(name, 10.0) for name in given)), path)
    compilation = compiler.with_profile("step", path)
    count = _FOUND_COUNT.search(compilation.log)
    assert count is not None
    assert int(count[1]) == len(given) + len(set(given) & set(twice))
    assert missed(compilation) == set(wanted) - set(given)


def test_xla_uses_costs_of_copies_that_it_never_misses(compiler: Compiler, tmp_path: Path) -> None:
    program = compiler.compile("step").program
    copies = [
        it.name
        for computation in visited_computations(program)
        for it in computation.instructions
        if it.opcode == "copy"
    ]
    costs = tuple(InstructionCost(name, 10.0) for name in copies)
    write_profile(Profile(costs), tmp_path / "copies.pbtxt")
    compilation = compiler.with_profile("step", tmp_path / "copies.pbtxt")
    in_vain = {it.name for it in unused_costs(costs, program, xla_lookups(program))}
    assert _found(compilation) == set(copies) - in_vain != set()


def test_xla_finds_a_collective_by_the_instruction_inside_its_async_start(
    compiler: Compiler, tmp_path: Path
) -> None:
    program = compiler.compile("step").program
    lookup = next(it for it in xla_lookups(program) if it.collective and len(it.names) > 1)
    start, inner = lookup.names
    path = tmp_path / "inner.pbtxt"
    write_profile(Profile((InstructionCost(inner, 10.0),)), path)
    compilation = compiler.with_profile("step", path)
    assert start not in missed(compilation)
    assert _found(compilation) == {start}


def test_xla_averages_clones_and_takes_the_last_duplicate(
    compiler: Compiler, tmp_path: Path
) -> None:
    """Seen in the schedule's own report of a cost: XLA prints the profile it has filtered."""
    costs = (
        InstructionCost("a.1", 10.0),
        InstructionCost("a.1", 30.0),
        InstructionCost("b", 1.0, "0" * 32),
        InstructionCost("c", 2.0),
    )
    clones = (*costs, InstructionCost("c.remat2", 6.0))
    for given in (costs, clones):
        path = tmp_path / f"{len(given)}.pbtxt"
        write_profile(Profile(given), path)
        log = compiler.with_profile("small", path).log
        shown = re.findall(r'costs \{\s*name: "([^"]+)"\s*cost_us: ([\d.]+)', log)
        assert shown, "XLA prints none"
        assert {n: float(us) for n, us in shown} == costs_found(given, None)


def _found(compilation: Compilation) -> set[str]:
    return {one or other for one, other in _FOUND.findall(compilation.log)}


def test_costs_of_another_fingerprint_are_dropped() -> None:
    costs = (
        InstructionCost("a", 1.0, "f" * 32),
        InstructionCost("a", 2.0, "0" * 32),
        InstructionCost("b", 3.0),
    )
    assert costs_found(costs, "f" * 32) == {"a": 1.0, "b": 3.0}
    assert costs_found(costs, None) == {"b": 3.0}


def test_the_last_of_duplicates_counts_unless_a_clone_is_among_the_costs() -> None:
    twice = (InstructionCost("a", 1.0), InstructionCost("a", 3.0))
    assert costs_found(twice, None) == {"a": 3.0}
    assert costs_found(
        (*twice, InstructionCost("b.remat", 4.0), InstructionCost("b", 8.0)), None
    ) == {"a": 2.0, "b": 6.0}


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("fusion.3.remat", "fusion.3"),
        ("fusion.3.remat12", "fusion.3"),
        ("fusion.3.remat2.1", "fusion.3"),
        ("gte.rematerialised", "gte.rematerialised"),
        ("remat2.18.0", "remat2.18.0"),
    ],
)
def test_the_name_before_rematerialisation(name: str, base: str) -> None:
    assert base_name(name) == base


def program_of(entry: str, before: str = "") -> Program:
    return program_from_text(
        f"HloModule test, is_scheduled=true\n\n{before}\n"
        f"ENTRY %main (p: f32[8]) -> f32[8] {{\n{entry}\n}}\n"
    )


def test_instructions_of_a_command_buffer_are_asked_for_and_its_call_is_not() -> None:
    buffer = (
        "%command_buffer (q: f32[8]) -> f32[8] {\n"
        "  %q = f32[8] parameter(0)\n  ROOT %negate.1 = f32[8] negate(%q)\n}\n"
    )
    program = program_of(
        "  %p = f32[8] parameter(0)\n  ROOT %call = f32[8] call(%p), to_apply=%command_buffer",
        buffer,
    )
    assert names(program) == {"negate.1"}


def test_a_plain_call_is_asked_for_and_what_it_calls_is_not() -> None:
    function = (
        "%function (q: f32[8]) -> f32[8] {\n"
        "  %q = f32[8] parameter(0)\n  ROOT %negate.1 = f32[8] negate(%q)\n}\n"
    )
    entry = "  %p = f32[8] parameter(0)\n  ROOT %call.7 = f32[8] call(%p), to_apply=%function"
    assert names(program_of(entry, function)) == {"call.7"}


def test_copies_and_names_of_values_are_not_asked_for() -> None:
    program = program_of(
        "  %p = f32[8] parameter(0)\n  %copy.1 = f32[8] copy(%p)\n"
        "  %bitcast.1 = f32[8] bitcast(%copy.1)\n  ROOT %tanh.1 = f32[8] tanh(%bitcast.1)"
    )
    assert names(program) == {"tanh.1"}


def test_sends_are_asked_by_their_start_alone() -> None:
    program = program_of(
        "  %p = f32[8] parameter(0)\n  %after-all = token[] after-all()\n"
        "  %send = (f32[8], u32[], token[]) send(%p, %after-all), channel_id=1\n"
        "  %send-done = token[] send-done(%send), channel_id=1\n"
        "  ROOT %tanh.1 = f32[8] tanh(%p)"
    )
    asked = {it.names[0]: it.collective for it in xla_lookups(program)}
    assert asked == {"after-all": False, "send": True, "tanh.1": False}
