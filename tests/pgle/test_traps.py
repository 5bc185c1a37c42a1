"""Each trap of docs/reference/pgle-traps.md, sprung with the real compiler (or the real JAX)."""

from __future__ import annotations

import importlib.util
import mmap
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from counterpoint.core.errors import InputError
from counterpoint.flags.observed import has
from counterpoint.flags.versions import false_stops_scheduler
from counterpoint.hlo.model.program import Program
from counterpoint.pgle.checking.check import check_profile
from counterpoint.pgle.checking.verdict import judge
from counterpoint.pgle.compiler_log import VERBOSE_LOG, ProfileUse, read_compiler_log
from counterpoint.pgle.complaints import ComplaintKind
from counterpoint.pgle.lookups import xla_lookups
from counterpoint.pgle.profiles.files import (
    content_addressed,
    content_addressed_name,
    read_profile,
    write_profile,
)
from counterpoint.pgle.profiles.profile import PROFILE, InstructionCost, Latency, Profile
from xla_compiler import CHECKER_FLAG, Compilation, Compiler, Option

pytestmark = pytest.mark.system

DOCS = Path(__file__).parent.parent.parent / "docs" / "reference" / "pgle-traps.md"
STRICT: dict[str, Option] = {CHECKER_FLAG: "PGLE_STRICTNESS_LEVEL_ERROR"}
MODEL = "small"  # the smallest whose schedule a profile changes

Make = Callable[[Program], Profile]


def full(program: Program, fingerprint: str | None = None) -> Profile:
    """Costs that make every schedule differ: collectives long, all else short."""
    return Profile(
        tuple(
            InstructionCost(it.names[0], 5000.0 if it.collective else 1.0 + number % 3, fingerprint)
            for number, it in enumerate(xla_lookups(program))
        )
    )


def schedule(compilation: Compilation) -> dict[str, list[str]]:
    computations = compilation.program.computations
    return {name: [it.name for it in found.instructions] for name, found in computations.items()}


def strict(compiler: Compiler) -> dict[str, Option]:
    """Errors asked for, where that alone fails nothing."""
    return {} if has("strict-profile-needs-overlap", compiler.jax) else {**STRICT}


def same_as_without(compiler: Compiler, compilation: Compilation, plain: Compilation) -> bool:
    """Whether a profile without use left the schedule alone.

    In older releases it does harm: what it lacks is priced by a rougher model than without one.
    """
    same = schedule(compilation) == schedule(plain)
    return same if has("empty-profile-keeps-estimator", compiler.jax) else not same


@pytest.fixture(scope="session")
def plain(compiler: Compiler) -> Compilation:
    return compiler.compile(MODEL)


@pytest.fixture
def good(plain: Compilation, tmp_path: Path) -> Path:
    """The file that does work, for the traps to spoil."""
    return write_profile(full(plain.program), tmp_path / "good.pbtxt")


def test_a_good_profile_changes_the_schedule(
    compiler: Compiler, plain: Compilation, good: Path
) -> None:
    compilation = compiler.with_profile(MODEL, good)
    assert schedule(compilation) != schedule(plain)
    assert read_compiler_log(compilation.log).use is ProfileUse.USED


@pytest.mark.parametrize("name", ["good.txt", "good", "good.pbtxt.bak", "good.prototxt"])
def test_a_file_of_another_ending_is_ignored_in_silence(
    compiler: Compiler, plain: Compilation, good: Path, name: str
) -> None:
    path = good.with_name(name)
    shutil.copy(good, path)
    compilation = compiler.with_profile(MODEL, path)
    assert schedule(compilation) == schedule(plain)
    assert name not in compilation.log
    log = read_compiler_log(compilation.log)
    assert log.use is ProfileUse.NOT_USED
    assert ".pbtxt" in log.reason
    with pytest.raises(InputError, match="silently ignores"):
        read_profile(path)


def test_a_missing_file_fails_nothing(
    compiler: Compiler, plain: Compilation, tmp_path: Path
) -> None:
    compilation = compiler.with_profile(MODEL, tmp_path / "absent.pbtxt", **strict(compiler))
    assert schedule(compilation) == schedule(plain)
    log = read_compiler_log(compilation.log)
    assert log.use is ProfileUse.NOT_USED
    assert [it.kind for it in log.complaints] == [ComplaintKind.MISSING_FILE]


@pytest.mark.parametrize(
    ("name", "content"),
    [("bad.pbtxt", b"costs { name: "), ("bad.pb", b"costs { }"), ("cut.pb", b"\n\x40\n\x05fus")],
)
def test_a_damaged_file_fails_nothing(
    compiler: Compiler, plain: Compilation, tmp_path: Path, name: str, content: bytes
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    compilation = compiler.with_profile(MODEL, path, **strict(compiler))
    assert schedule(compilation) == schedule(plain)
    log = read_compiler_log(compilation.log)
    assert log.use is ProfileUse.NOT_USED
    assert [it.kind for it in log.complaints] == [ComplaintKind.UNREADABLE]
    with pytest.raises(InputError):
        read_profile(path)


def test_a_directory_needs_a_file_of_the_modules_fingerprint(
    compiler: Compiler, plain: Compilation, good: Path
) -> None:
    directory = good.parent / "profiles"
    directory.mkdir()
    shutil.copy(good, directory / "step.pbtxt")
    compilation = compiler.with_profile(MODEL, directory)
    assert read_compiler_log(compilation.log).use is ProfileUse.NOT_USED
    with pytest.raises(InputError, match="never looks for"):
        read_profile(directory)
    fingerprint = plain.program.fingerprint
    write_profile(full(plain.program, fingerprint), good.parent / "right")
    assert (good.parent / "right" / f"{fingerprint}.pbtxt").is_file()
    compilation = compiler.with_profile(MODEL, good.parent / "right")
    assert read_compiler_log(compilation.log).use is ProfileUse.USED


def test_partial_cover_fails_the_compile_where_errors_are_asked_for(
    compiler: Compiler, plain: Compilation, tmp_path: Path
) -> None:
    costs = full(plain.program).costs
    part = Profile(costs[: len(costs) // 2])
    path = write_profile(part, tmp_path / "part.pbtxt")
    assert compiler.with_profile(MODEL, path).error is None
    compilation = compiler.with_profile(MODEL, path, **STRICT)
    assert compilation.error is not None
    log = read_compiler_log(f"{compilation.log}\n{compilation.error}")
    assert log.use is ProfileUse.FAILED
    coverage = check_profile(part, plain.program)
    said = re.search(r"Found (\d+) missing", compilation.error)
    assert said is not None
    assert int(said[1]) == len(coverage.missing)


def test_errors_asked_for_fail_programs_without_any_profile_in_newer_releases(
    compiler: Compiler,
) -> None:
    compilation = compiler.compile(MODEL, **STRICT)
    log = read_compiler_log(f"{compilation.log}\n{compilation.error}")
    if not has("strict-profile-needs-overlap", compiler.jax):
        assert compilation.error is None
    else:
        assert compilation.error is not None
        assert log.use is ProfileUse.FAILED
        assert [it.kind for it in log.complaints] == [ComplaintKind.RENAMED]


@pytest.mark.parametrize("kind", ["empty", "foreign"])
def test_an_empty_or_foreign_profile_is_found_and_is_of_no_use(
    compiler: Compiler, plain: Compilation, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / f"{kind}.pbtxt"
    foreign = full(plain.program, "0" * 32)
    if kind == "empty":
        path.write_text("")
    else:
        write_profile(foreign, path)
    compilation = compiler.with_profile(MODEL, path)
    assert "Found profile" in compilation.log
    assert same_as_without(compiler, compilation, plain)
    assert read_compiler_log(compilation.log).use is ProfileUse.NOT_USED
    if kind == "foreign":
        assert not judge(check_profile(foreign, plain.program), min_coverage=0.0).passed


def test_collectives_without_start_are_missed_in_silence_of_their_own(
    compiler: Compiler, plain: Compilation, tmp_path: Path
) -> None:
    talks = {it.names[0] for it in xla_lookups(plain.program) if it.collective}
    bare = tuple(
        InstructionCost(
            cost.name.replace("-start", "") if cost.name in talks else cost.name, cost.us
        )
        for cost in full(plain.program).costs
    )
    path = write_profile(Profile(bare), tmp_path / "bare.pbtxt")
    module = read_compiler_log(compiler.with_profile(MODEL, path).log).of("jit_loss")
    assert module is not None
    assert set(module.missing_names) == talks
    coverage = check_profile(Profile(bare), plain.program)
    assert {it.name for it in coverage.missing} == talks
    assert not judge(coverage, min_coverage=0.5).passed


def test_latencies_are_left_out(compiler: Compiler, plain: Compilation, tmp_path: Path) -> None:
    profile = Profile(
        (InstructionCost("nothing.of.this.name", 1.0),),
        (Latency("all-gather-start", "all-gather-done", 5000.0),),
    )
    path = write_profile(profile, tmp_path / "latencies.pbtxt")
    compilation = compiler.with_profile(MODEL, path)
    assert same_as_without(compiler, compilation, plain)
    assert read_compiler_log(compilation.log).use is ProfileUse.NOT_USED
    assert any("one latency" in it for it in judge(check_profile(profile, plain.program)).remarks)


def test_false_switches_the_scheduler_off_on_hopper_in_some_releases(
    compiler: Compiler, plain: Compilation
) -> None:
    off = compiler.compile(MODEL, xla_gpu_enable_latency_hiding_scheduler=False)
    gone = compiler.compile(MODEL, xla_disable_hlo_passes="latency-hiding-scheduler")
    assert schedule(gone) != schedule(plain)
    assert gone.program.fingerprint == plain.program.fingerprint
    assert schedule(off) == schedule(gone if false_stops_scheduler(compiler.jax) else plain)


def test_false_keeps_a_profile_out_in_newer_releases(compiler: Compiler, good: Path) -> None:
    flags = {
        "xla_gpu_enable_latency_hiding_scheduler": "false",
        "xla_gpu_enable_analytical_sol_latency_estimator": "false",
    }
    compilation = compiler.with_profile(MODEL, good, **dict.fromkeys(flags, False))
    log = read_compiler_log(compilation.log, flags)
    if not false_stops_scheduler(compiler.jax, profile=True):
        assert log.use is ProfileUse.USED
        assert ComplaintKind.SCHEDULER_ANYWAY in {it.kind for it in log.complaints}
    else:
        assert log.use is ProfileUse.NOT_USED
        assert "xla_gpu_enable_latency_hiding_scheduler=false" in log.reason


def test_a_profile_runs_the_scheduler_that_would_not_run_without(
    compiler: Compiler, good: Path
) -> None:
    off = {"xla_gpu_enable_analytical_sol_latency_estimator": False}
    log = read_compiler_log(compiler.with_profile(MODEL, good, **off).log)
    assert log.use is ProfileUse.USED
    assert ComplaintKind.SCHEDULER_ANYWAY in {it.kind for it in log.complaints}


def test_found_profile_is_said_even_where_the_scheduler_is_disabled(
    compiler: Compiler, good: Path
) -> None:
    disabled = {"xla_disable_hlo_passes": "latency-hiding-scheduler"}
    compilation = compiler.with_profile(MODEL, good, **disabled)
    assert "Found profile" in compilation.log
    assert read_compiler_log(compilation.log, disabled).use is ProfileUse.NOT_USED


def test_the_90th_percentile_of_three_runs_is_their_median() -> None:
    profiler = pytest.importorskip("jaxlib._profiler")
    runs = [_proto(us) for us in (30.0, 10.0, 20.0)]
    aggregated = PROFILE.FromString(profiler.aggregate_profiled_instructions(runs, 90))
    assert [(it.name, it.cost_us) for it in aggregated.costs] == [("fusion.1", 20.0)]


def _proto(us: float) -> bytes:
    message = PROFILE()
    message.costs.add(name="fusion.1", cost_us=us)
    data: bytes = message.SerializeToString()
    return data


CACHE_KEY = """
import sys, numpy, jax
from jax._src import cache_key, compiler, xla_bridge
from jax._src.interpreters import mlir
lowered = jax.jit(lambda x: x + 1).lower(1.0)
for path in sys.argv[1:]:
    options = compiler.get_compile_options(
        num_replicas=1, num_partitions=1,
        env_options_overrides={"xla_gpu_pgle_profile_file_or_directory_path": path})
    devices = numpy.array(jax.devices()[:1])
    print(cache_key.get(lowered.compiler_ir(), devices, options, xla_bridge.get_backend()))
"""


def cache_keys(*paths: Path) -> list[str]:
    pytest.importorskip("jax")
    done = subprocess.run(
        [sys.executable, "-c", CACHE_KEY, *map(str, paths)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_jaxs_cache_keys_the_name_of_a_profile_and_not_its_content(tmp_path: Path) -> None:
    old, new = (_proto(us) for us in (1.0, 2.0))
    fixed = tmp_path / "step.pb"
    fixed.write_bytes(old)
    first = content_addressed(fixed)
    first.write_bytes(old)
    before = cache_keys(fixed, first)
    fixed.write_bytes(new)
    second = content_addressed(fixed)
    second.write_bytes(new)
    after = cache_keys(fixed, second)
    assert before[0] == after[0]
    assert before[1] != after[1]


def test_a_name_by_content_is_stable_and_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    name = content_addressed_name(b"costs", "step")
    assert re.fullmatch(r"step-[0-9a-f]{12}\.pbtxt", name)
    path = tmp_path / name
    path.write_bytes(b"costs")
    assert content_addressed(path) == path
    path.write_bytes(b"other costs")
    assert content_addressed(path).name == content_addressed_name(b"other costs", "step")
    with pytest.raises(ValueError, match="txt"):
        content_addressed_name(b"costs", ending=".txt")


def test_the_log_variable_that_pages_recommend_does_not_exist() -> None:
    libraries = _libraries()
    assert any(_holds(path, b"TF_CPP_MIN_LOG_LEVEL") for path in libraries)
    assert not any(_holds(path, b"TF_CPP_MAX_LOG_LEVEL") for path in libraries)
    assert "TF_CPP_MAX_LOG_LEVEL" not in VERBOSE_LOG


def _libraries() -> list[Path]:
    """Everything compiled that comes with jaxlib and its GPU plugin."""
    found = [importlib.util.find_spec(name) for name in ("jaxlib", "jax_plugins")]
    places = [Path(place) for it in found if it for place in (it.submodule_search_locations or ())]
    libraries = [path for place in places for path in place.rglob("*.so*") if path.is_file()]
    if not libraries:
        pytest.skip("jaxlib is not installed")
    return libraries


def _holds(path: Path, words: bytes) -> bool:
    with path.open("rb") as file:
        if not path.stat().st_size:
            return False
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(words) >= 0


def test_the_page_of_traps_names_its_tests() -> None:
    """Every test that the page points to exists, so that no claim loses its proof."""
    text = DOCS.read_text()
    named = set(re.findall(r"`(test_\w+)`", text))
    assert len(named) >= 12
    sources = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert not [name for name in named if f"def {name}(" not in sources]
