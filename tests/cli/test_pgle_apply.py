"""`counterpoint pgle apply` as a user runs it: the proof, what moved, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counterpoint.cli.app import main
from counterpoint.flags.versions import PROFILE
from counterpoint.hlo.model.program import Program
from counterpoint.pgle.lookups import xla_lookups
from counterpoint.pgle.profiles.files import write_profile
from lowered import Lowered, costs_of
from transcripts import next_command

pytestmark = pytest.mark.system
Data = dict[str, Any]


def profile_of(program: Program, path: Path, fingerprint: str | None = None) -> Path:
    return write_profile(costs_of(program, fingerprint), path)


def apply(*words: object) -> int:
    return main(["pgle", "apply", *map(str, words)])


def applied(capsys: pytest.CaptureFixture[str], code: int, *words: object) -> tuple[str, Data]:
    """What it says on one line, and all of it as data; it ends with this code."""
    assert apply(*words) == code
    said = " ".join(capsys.readouterr().out.split())
    assert apply(*words, "--json") == code
    return said, json.loads(capsys.readouterr().out)


@pytest.fixture(scope="session")
def good(lowered: Lowered, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return profile_of(lowered.compile().program, tmp_path_factory.mktemp("good") / "step.pbtxt")


def test_the_proof_and_what_moved_are_told(
    lowered: Lowered, good: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert apply(good, "--program", lowered.ir, "--target", "8xH100") == 0
    out = capsys.readouterr().out
    words = " ".join(out.split())
    # Whole lines of the compiler's, for whoever searches for them.
    assert any("] Using PGLE profile" in it and str(good) in it for it in out.splitlines())
    fingerprint = lowered.compile().fingerprint
    assert words.startswith("Profile used yes")
    assert f"jit_step, fingerprint {fingerprint}" in words
    assert "Found profile for module jit_step, using profile guided latency estimator" in words
    assert "0 missing" in words
    assert "collectives moved" in words
    assert "peak per device (predicted)" in words
    assert next_command(out)[:3] == ["pgle", "manual", "--profile"]


def test_as_data_nothing_is_cut(
    lowered: Lowered, good: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert apply(good, "--program", lowered.mlir, "--target", "8xH100", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["schema"] == "counterpoint.pgle-apply/1"
    assert data["used"] is True
    assert data["changed"] is True
    assert data["fit"] == "fits"
    assert data["found"] >= len(xla_lookups(lowered.compile().program))
    assert data["missing"] == 0
    assert data["fallback"] == "SolLatencyEstimator"
    assert len(data["proof"]) >= 2
    assert data["target"] == "8xH100"
    assert {it["kind"] for it in data["movement"]["moves"]} >= {"all-gather", "reduce-scatter"}
    assert data["memory"]["with"]["peak"] > data["memory"]["with"]["argument"] > 0
    assert data["warnings"] == []


def test_a_foreign_profile_is_not_called_used(
    lowered: Lowered, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign = profile_of(lowered.compile().program, tmp_path / "foreign.pbtxt", "0" * 32)
    words, data = applied(capsys, 1, foreign, "--program", lowered.ir, "--target", "8xH100")
    assert words.startswith("Profile used NO")
    assert (data["used"], data["found"]) == (False, 0)
    assert "collectives moved" not in words
    assert next_command(words)[:2] == ["pgle", "show"]


def test_a_stale_profile_is_warned_of(
    lowered: Lowered, good: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--set", "xla_gpu_disable_async_collectives=ALLCOLLECTIVES")
    words, data = applied(capsys, 1, good, "--program", lowered.ir, "--target", "8xH100", *flags)
    assert words.startswith("Profile used yes")
    assert " STALE" in words
    assert "WARNING" in words
    assert (data["used"], data["fit"]) == (True, "stale")
    assert data["warnings"]
    assert "xla_gpu_disable_async_collectives=ALLCOLLECTIVES" in words


@pytest.mark.parametrize("keyed", [True, False])
def test_a_profile_of_what_the_run_itself_compiled_is_not_called_foreign(
    lowered: Lowered, tmp_path: Path, capsys: pytest.CaptureFixture[str], keyed: bool
) -> None:
    """The dump tells: the run had other kernels than any compile without a device."""
    own = lowered.compile(
        {"xla_gpu_enable_triton_gemm": "false", "xla_disable_hlo_passes": "priority-fusion"}
    )
    dump = tmp_path / "dump"
    dump.mkdir()
    (dump / "jax_ir0001_jit_step_compile.mlir").write_bytes(lowered.mlir.read_bytes())
    ending = "sm_9.0_gpu_after_optimizations.hlo.pb"
    (dump / f"module_0001.jit_step.{ending}").write_bytes(own.hlo)
    path = profile_of(own.program, tmp_path / "p.pbtxt", own.fingerprint if keyed else None)
    words, data = applied(capsys, 0, path, "--program", dump, "--target", "8xH100")
    assert f"({own.fingerprint})" in words
    assert "of another program" not in words
    # A compile without a device has another fingerprint: then names alone decide, and it is said.
    assert data["used"] is True
    assert words.startswith("Profile used yes")
    assert "applied by the names of instructions, without fingerprints" in words
    assert next_command(words)[:2] == ["pgle", "manual"]
    # All counts are of one population: XLA's.
    found, missing = data["found"], data["missing"]
    assert f"{found} of the {found + missing} costs that XLA looks up" in words
    assert f"XLA found {found} costs, and missed {missing}" in words


def test_a_profile_of_a_part_is_told_by_its_share(
    lowered: Lowered, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = costs_of(lowered.compile().program)
    few = write_profile(replace(whole, costs=whole.costs[:3]), tmp_path / "few.pbtxt")
    words, data = applied(capsys, 0, few, "--program", lowered.ir, "--target", "8xH100")
    assert words.startswith("Profile used yes")
    assert " only 3 of " in words
    assert (data["used"], data["found"]) == (True, 3)
    assert data["missing"] > 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "--target is missing"),
        (("--target", "8xH1000"), 2, "H1000"),
        (("--target", "2x8xH100"), 2, "made for 8 devices"),
        (("--target", "8xH100", "--module", "train"), 2, "--module train"),
        (("--target", "8xH100", "--set", "xla_gpu_no_such=1"), 2, "xla_gpu_no_such"),
        (("--target", "8xH100", "--set", "nonsense"), 2, "nonsense"),
        (("--target", "8xH100", "--set", f"{PROFILE}=x.pb"), 2, PROFILE),
        (("--target", "8xH100", "--top", "0"), 2, "--top"),
        (("--target", "8xH100", "--timeout", "0"), 2, "--timeout"),
    ],
)
def test_what_can_not_be_done_is_said_in_one_error(
    lowered: Lowered,
    good: Path,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    code: int,
    said: str,
) -> None:
    assert apply(good, "--program", lowered.ir, *words) == code
    told = capsys.readouterr()
    assert told.out == ""
    assert said in told.err
    assert told.err.count("error: ") == 1


@pytest.mark.usefixtures("compiled_anew")
def test_a_compile_that_takes_too_long_is_one_error(
    lowered: Lowered, good: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--program", lowered.ir, "--target", "8xH100", "--timeout", "0.1")
    assert apply(good, *words) == 3
    told = capsys.readouterr()
    assert told.out == ""
    assert "more than 0.1 s" in told.err
    assert told.err.count("error: ") == 1


@pytest.mark.parametrize("name", ["absent.pbtxt", "step.txt", "bad.pbtxt"])
def test_a_profile_that_xla_would_pass_over_is_refused(
    lowered: Lowered, good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    if name == "step.txt":
        (tmp_path / name).write_bytes(good.read_bytes())
    elif name == "bad.pbtxt":
        (tmp_path / name).write_text("costs { name: ")
    assert apply(tmp_path / name, "--program", lowered.ir, "--target", "8xH100") == 3
    assert name in capsys.readouterr().err


def test_a_scheduled_module_is_refused_with_what_helps(
    lowered: Lowered, good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "step.hlo.pb").write_bytes(lowered.compile().hlo)
    assert apply(good, "--program", tmp_path / "step.hlo.pb", "--target", "8xH100") == 3
    assert "JAX_DUMP_IR_TO" in capsys.readouterr().err
