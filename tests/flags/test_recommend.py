"""`flags recommend`: what is left of the recipes for a release, a chip, a cluster and a program."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from counterpoint.cli.app import main
from counterpoint.core.errors import UsageError
from counterpoint.flags.catalogue.lookup import release, releases
from counterpoint.flags.check.examination import check
from counterpoint.flags.forms import SettingsForm, render
from counterpoint.flags.lint import Severity
from counterpoint.flags.parse.source import read_text
from counterpoint.flags.recommendation import (
    GOALS,
    WORKLOADS,
    ProgramFacts,
    Recommendation,
    RecommendationRequest,
    program_facts,
    recommend,
)
from counterpoint.flags.settings import Channel, Settings
from counterpoint.flags.showing import show
from counterpoint.flags.tried import tried_flags
from counterpoint.hlo.reader import read_program
from counterpoint.workflow.variant import candidate
from xla_compiler import why_none

LHS = "xla_gpu_enable_latency_hiding_scheduler"
GATHER = "xla_gpu_all_gather_combine_threshold_bytes"
REDUCE = "xla_gpu_all_reduce_combine_threshold_bytes"

TOOLS = Path(__file__).parent.parent.parent / "tools"
VIRTUAL = "--xla_force_host_platform_device_count=8"
LOWER = """
import sys
sys.path.insert(0, sys.argv[1])
from common_steps import fsdp
step, arguments = fsdp(8)
lowered = step.trace(*arguments).lower(lowering_platforms=("cuda",))
open(sys.argv[2], "w").write(lowered.as_text(debug_info=True))
"""

CHIPS = ("H100", "B200", "A100-80GB", None)

STEP = """
HloModule step, is_scheduled=true, num_partitions=8

body {
  p = (s32[], f32[8388608], f32[8388608]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  a = f32[8388608] get-tuple-element(p), index=1
  b = f32[8388608] get-tuple-element(p), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  s = f32[1048576] slice(a), slice={[0:1048576]}
  t = f32[1048576] slice(b), slice={[0:1048576]}
  g = f32[8388608] all-gather(s), channel_id=1, replica_groups=[1,8]<=[8], dimensions={0}, use_global_device_ids=true
  h = f32[8388608] all-gather(t), channel_id=2, replica_groups=[1,8]<=[8], dimensions={0}, use_global_device_ids=true
  ROOT r = (s32[], f32[8388608], f32[8388608]) tuple(next, g, h)
}

condition {
  q = (s32[], f32[8388608], f32[8388608]) parameter(0)
  j = s32[] get-tuple-element(q), index=0
  n = s32[] constant(4)
  ROOT less = pred[] compare(j, n), direction=LT
}

ENTRY main {
  x = f32[8388608] parameter(0)
  y = f32[8388608] parameter(1)
  zero = s32[] constant(0)
  start = (s32[], f32[8388608], f32[8388608]) tuple(zero, x, y)
  ROOT loop = (s32[], f32[8388608], f32[8388608]) while(start), condition=condition, body=body
}
"""  # noqa: E501 - an instruction is a line


def facts(text: str = STEP) -> ProgramFacts:
    return program_facts(read_program(text))


def asked(
    *workloads: str,
    goal: str = "speed",
    version: str = "0.10.2",
    chip: str | None = "H100",
    hosts: int | None = 1,
    devices: int | None = None,
    program: ProgramFacts | None = None,
) -> Recommendation:
    return recommend(
        RecommendationRequest(
            workloads=workloads,
            goal=goal,
            release=release(version),
            chip=chip,
            hosts=hosts,
            devices=devices,
            program=program,
        )
    )


def why_not(found: Recommendation) -> dict[str, str]:
    return {it.name: it.why for it in found.dropped}


@pytest.mark.parametrize("version", releases())
def test_all_that_is_said_exists_matters_and_passes_the_check(version: str) -> None:
    known = release(version)
    texts: dict[tuple[str, str | None], tuple[str, str]] = {}  # many requests have one answer
    for workload in WORKLOADS:
        for goal in GOALS:
            for chip in (None, "TPU v6e") if workload == "multislice" else CHIPS:
                found = asked(workload, goal=goal, version=version, chip=chip, hosts=None)
                for name, value in found.settings.flags.items():
                    assert known.flags[name].xla_flags, name
                    assert not known.flags[name].is_default(value), name
                text = render(found.settings, SettingsForm.BASH, known)
                texts.setdefault((text, chip), (workload, goal))
    for (text, chip), request in texts.items():
        remarks = check(read_text(text, "x.sh"), version=version, chip=chip)
        bad = [it for it in remarks if it.severity is not Severity.NOTE]
        assert not bad, (request, chip, bad)


def test_each_line_has_a_reason_a_basis_and_a_source() -> None:
    for one in asked("fsdp", "tp", "pp").lines:
        assert one.line.reason
        assert one.line.basis
        assert one.source.startswith("https://")


def test_what_a_release_calls_otherwise_or_does_anyhow() -> None:
    old, new = asked("fsdp", version="0.11.0"), asked("fsdp", version="0.12.0.1")
    assert old.settings.flags["xla_gpu_enable_pipelined_all_gather"] == "true"
    assert new.settings.flags["xla_gpu_pipeline_all_gather"] == "on"
    assert "xla_gpu_enable_pipelined_all_gather" not in new.settings.flags
    assert "xla_gpu_enable_dynamic_slice_fusion" not in new.settings.flags  # the default


def test_what_a_chip_does_by_itself_is_not_asked_for() -> None:
    assert LHS not in asked("fsdp").settings.flags
    assert why_not(asked("fsdp"))[LHS].endswith("on H100")
    assert LHS in asked("fsdp", chip="A100-80GB").settings.flags
    assert LHS in asked("fsdp", version="0.6.2").settings.flags
    assert "CUDA_DEVICE_MAX_CONNECTIONS" not in asked("fsdp", chip="B200").settings.variables


def test_what_is_for_some_chips_is_left_out_where_the_chip_is_not_known() -> None:
    found = asked("fsdp", chip=None)
    assert "xla_gpu_enable_command_buffer" not in found.settings.flags
    assert "CUDA_DEVICE_MAX_CONNECTIONS" not in found.settings.variables
    told = why_not(found)
    assert told["xla_gpu_enable_command_buffer"].startswith("only on Blackwell,")
    assert told["CUDA_DEVICE_MAX_CONNECTIONS"].startswith("only on Ampere, Ada, Hopper,")
    assert "xla_gpu_enable_pipelined_all_gather" in found.settings.flags


def test_slices_are_of_tpus_and_get_what_tpus_read() -> None:
    for chip in ("TPU v5p", None):
        found = asked("multislice", chip=chip)
        assert not found.settings.flags
        assert [*found.settings.variables] == ["LIBTPU_INIT_ARGS"]
        assert "nccl" not in dict(found.advice)
        assert any(name.startswith("sysctl net.") for name, _ in found.advice)
        assert found.layout is None
    with pytest.raises(UsageError, match="H100"):
        asked("multislice", chip="H100")


def test_nothing_for_gpus_is_recommended_on_tpus() -> None:
    found = asked("fsdp", "tp", "pp", "dp", "ep", chip="TPU v6e")
    assert {it.line.channel for it in found.lines} == {Channel.LIBTPU_INIT_ARGS}
    assert not found.advice
    assert "for GPUs only" in why_not(found).values()


def test_what_only_libtpu_reads_is_not_named_for_gpus() -> None:
    found = asked("fsdp", "tp", "dp")
    assert not any("xla_tpu_" in name for name in (*found.settings.flags, *why_not(found)))


def test_one_device_has_no_collectives_to_be_hidden() -> None:
    found = asked("fsdp", "tp", "pp", "dp", "ep", devices=1)
    assert not found.settings.flags
    assert not found.settings.variables
    assert found.layout is None
    assert "one device" in why_not(found)[GATHER]


def test_what_is_the_default_by_now_is_not_called_gone() -> None:
    told = why_not(asked("fsdp"))
    assert told["xla_gpu_triton_gemm_any"] == "the default since 0.5.1"
    newer = why_not(asked("fsdp", version="0.12.0"))
    name = "xla_gpu_enable_pipelined_all_gather"
    assert newer[name].endswith("name of xla_gpu_pipeline_all_gather")


def test_all_that_is_left_out_is_a_setting() -> None:
    known = release("0.10.2")
    for workload in WORKLOADS:
        for it in asked(workload, chip=None).dropped:
            assert it.name in known.flags or show(it.name, known).name == it.name


def test_workloads_combine_and_the_first_has_its_way() -> None:
    both = asked("pp", "fsdp", chip="B200")
    assert both.settings.flags["xla_gpu_enable_command_buffer"] == ""
    lost = next(it for it in both.dropped if it.name == "xla_gpu_enable_command_buffer")
    assert lost.why.endswith("by pipeline-parallel")
    assert both.settings.flags.keys() >= asked("fsdp").settings.flags.keys() - {LHS}


def test_several_hosts_are_told_of_their_network() -> None:
    assert "network" in dict(asked("fsdp", hosts=4).advice)
    assert "network" not in dict(asked("fsdp", hosts=1).advice)


def test_a_program_decides_what_can_matter() -> None:
    found = asked("fsdp", "pp", program=facts())
    flags = found.settings.flags
    assert flags[GATHER] == str(2 * 8388608 * 4)
    line = next(one.line for one in found.lines if one.line.name == GATHER)
    assert line.basis == "predicted"
    assert why_not(found)[REDUCE].endswith("has no all-reduce")
    assert "step has no" in why_not(found)["xla_disable_hlo_passes"]
    assert "xla_gpu_enable_pipelined_all_gather" in flags


def test_a_program_whose_default_is_enough_needs_no_threshold() -> None:
    small = facts(STEP.replace("8388608", "8192").replace("1048576", "1024"))
    found = asked("fsdp", program=small)
    assert GATHER not in found.settings.flags
    assert "default" in why_not(found)[GATHER]


def test_a_program_without_a_loop_has_nothing_to_pipeline() -> None:
    text = "HloModule m, is_scheduled=true\n\nENTRY e {\n  ROOT p = f32[2] parameter(0)\n}\n"
    found = asked("fsdp", "tp", "dp", program=facts(text))
    assert not found.settings.flags
    assert "has no loop" in why_not(found)["xla_gpu_enable_while_loop_double_buffering"]


def test_what_is_beyond_the_model_asks_for_the_scheduler() -> None:
    sends = STEP.replace("= f32[8388608] all-gather(s)", "= f32[8388608] collective-broadcast(s)")
    found = asked("fsdp", program=facts(sends.replace(", dimensions={0}", "", 1)))
    line = next(one.line for one in found.lines if one.line.name == LHS)
    assert line.basis == "predicted"


@pytest.mark.parametrize(
    ("text", "version", "beyond"),
    [
        ("p = f32[8] collective-permute(x), source_target_pairs={{0,1}}", "0.10.2", False),
        ("p = f32[8] collective-permute(x), source_target_pairs={{0,1}}", "0.8.1", True),
        ("p = (f32[8], u32[], token[]) send(x, t), channel_id=1", "0.8.1", False),
        ("p = (f32[8], u32[], token[]) recv(t), channel_id=1", "0.10.2", False),
        ("p = f32[8] collective-broadcast(x), replica_groups={{0,1}}", "0.10.2", True),
    ],
)
def test_what_stops_the_scheduler_was_compiled(text: str, version: str, beyond: bool) -> None:
    """Send and recv do in no release, a permute in older ones (catalogue/observed.tsv)."""
    step = (
        "HloModule m, is_scheduled=true\n\nENTRY e {\n  x = f32[8] parameter(0)\n"
        f"  t = token[] after-all()\n  {text}\n  ROOT r = f32[8] negate(x)\n}}\n"
    )
    assert program_facts(read_program(step), version).beyond_model is beyond


def test_pgle_and_debug_are_other_settings() -> None:
    assert asked("fsdp", goal="pgle").settings.variables["TF_CPP_MIN_LOG_LEVEL"] == "0"
    assert "xla_dump_to" in asked("fsdp", goal="debug").settings.flags
    assert "XLA_CLIENT_MEM_FRACTION" in asked("fsdp", goal="memory").settings.variables


@pytest.mark.parametrize(
    ("workloads", "goal"), [((), "speed"), (("zero3",), "speed"), (("dp",), "fun")]
)
def test_what_is_not_known_is_refused(workloads: tuple[str, ...], goal: str) -> None:
    with pytest.raises(UsageError):
        asked(*workloads, goal=goal)


@pytest.mark.parametrize("form", list(SettingsForm))
def test_the_command_prints_each_form(
    capsys: pytest.CaptureFixture[str], form: SettingsForm
) -> None:
    arguments = ["--for", "fsdp,tp", "--target", "8xH100", "--jaxlib", "0.10.2", "--as", form]
    assert main(["flags", "recommend", *arguments]) == 0
    told = capsys.readouterr().out
    assert "xla_gpu_threshold_for_windowed_einsum_mib" in told
    assert "# Candidates; " in told


def test_the_command_tells_all_as_json_and_text(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "step.hlo").write_text(STEP)
    words = ["--for", "fsdp", "--target", "2x8xH100", "--program", str(tmp_path / "step.hlo")]
    assert main(["flags", "recommend", *words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "counterpoint.flags.recommend/1"
    assert told["hosts"] == 2
    assert told["program"] == "step"
    assert GATHER in told["xla_flags"]
    assert main(["flags", "recommend", *words]) == 0
    shown = capsys.readouterr().out
    assert "predicted" in shown
    assert "were not compiled with this program" in shown  # it is scheduled already
    assert "by measuring" in shown


@pytest.mark.parametrize("target", ["8xH100", "2x8xH100"])
def test_the_last_line_is_the_prediction_that_checks_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, target: str
) -> None:
    words = ["flags", "recommend", "--for", "fsdp", "--target", target, "--jaxlib", "0.10.2"]
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert main(words) == 0
    last = capsys.readouterr().out.splitlines()[-1].removeprefix("next: ")
    first, _, second = last.partition(" && ")
    *kept, _, file = shlex.split(first)
    assert kept == ["counterpoint", *words, "--as", "env"]
    typed = shlex.split(second)
    assert typed == [
        *("counterpoint", "predict", "--target", target, "--candidate", file),
        *("--", "python", "train.py"),
    ]
    assert main(kept[1:]) == 0
    (tmp_path / file).write_text(capsys.readouterr().out)
    made = candidate(str(tmp_path / file), Settings()).settings
    assert (made.flags, made.variables) == (told["xla_flags"], told["environment"])


def test_what_predict_has_no_compiler_for_ends_in_the_settings(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["flags", "recommend", "--for", "multislice"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("multislice --as bash")


def test_what_is_recommended_for_slices_ends_in_a_prediction_of_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["flags", "recommend", "--for", "fsdp", "--target", "2xv6e-256"]) == 0
    told = capsys.readouterr().out
    assert "on TPU v6e, 2 slices, 128 hosts" in told
    assert "predict --target 2xv6e-256 --candidate recommended.env" in told.splitlines()[-1]


def test_a_dump_of_cpus_is_refused_and_how_to_get_one_of_gpus_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "module_0001.jit_step.cpu_after_optimizations.txt").write_text(STEP)
    assert main(["flags", "recommend", "--for", "fsdp", "--program", str(tmp_path)]) == 3
    told = capsys.readouterr().err
    assert "xla_force_host_platform_device_count" in told
    assert "next: counterpoint run" in told


def test_names_may_be_written_in_any_case_and_with_spaces(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words in ("fsdp, tp", "FSDP,TP"):
        assert main(["flags", "recommend", "--for", words, "--target", "8xMI300X", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["for"], told["chip"], told["devices"]) == (["fsdp", "tp"], "MI300X", 8)


def test_advice_names_the_program_that_was_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "step.hlo"
    path.write_text(STEP)
    assert main(["flags", "recommend", "--for", "fsdp", "--program", str(path), "--json"]) == 0
    advice = json.loads(capsys.readouterr().out)["advice"]
    assert any(f"flags thresholds --program {path}" in it["text"] for it in advice)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--for", "zero"], "--for zero: "),
        (["--for", "dp", "--goal", "fun"], "--goal fun: unknown goal"),
        (["--for", "dp", "--target", "H100"], "--target H100: not a target"),
        (["--for", "dp", "--json", "--as", "bash"], "cannot be combined"),
        (["--for", "dp", "--program", "/nowhere"], "no such file"),
    ],
)
def test_wrong_options_are_told(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["flags", "recommend", *arguments]) in (2, 3)
    assert message in capsys.readouterr().err


def test_a_slurm_job_asks_for_the_hosts_and_processes_of_the_target(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert (
        main(["flags", "recommend", "--for", "fsdp", "--target", "16x8xH100", "--as", "slurm"]) == 0
    )
    wanted = ("--nodes=16", "--ntasks-per-node=8", "--gpus-per-node=8")
    out = capsys.readouterr().out
    assert all(f"#SBATCH {option}\n" in out for option in wanted)


@pytest.mark.parametrize(
    ("target", "where", "one"),
    [
        ("v5e-256", "on TPU v5e, 1 slice, 64 hosts of 4 chips\n", True),
        ("2xv5e-256", "on TPU v5e, 2 slices, 128 hosts of 4 chips\n", False),
        ("v6e-8", "on TPU v6e, 1 slice, 1 host of 8 chips\n", True),
        ("2xv6e-8", "on TPU v6e, 2 slices, 4 hosts of 4 chips\n", False),
        ("v3-32", "on TPU v3, 1 slice\n", True),  # how many chips its hosts have is not known here
    ],
)
def test_a_slice_is_no_host(
    target: str, where: str, one: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["flags", "recommend", "--for", "multislice", "--target", target]) == 0
    shown = capsys.readouterr().out
    assert where in shown
    assert ("this target is one slice" in shown) is one


def test_what_ended_the_compile_of_a_common_step_is_left_out() -> None:
    name = "xla_gpu_enable_dynamic_slice_fusion"
    for workload in ("fsdp", "tp", "dp", "pp", "ep"):
        found = asked(workload)
        assert name not in found.settings.flags
        assert "Slice not assigned" in why_not(found)[name]
    # A program that is going to be compiled decides for itself.
    request = RecommendationRequest(workloads=("fsdp",), goal="speed", release=release("0.10.2"))
    assert name in recommend(replace(request, compiled=True)).settings.flags


def test_what_helps_comes_first_and_what_cost_time_last() -> None:
    assert next(iter(asked("pp").settings.flags)) == "xla_disable_hlo_passes"
    lines = asked("fsdp").lines
    assert lines[-1].promise == max(one.promise for one in lines)


@pytest.mark.parametrize("workload", ["fsdp", "tp", "dp", "pp", "ep"])
def test_what_was_measured_or_clearly_predicted_to_be_slower_is_not_recommended(
    workload: str,
) -> None:
    found = asked(workload, chip="H100")
    assert [one.line.name for one in found.lines if one.line.effect == "slower"] == []
    changes = [trial.change or 0.0 for one in found.lines for trial in one.tried]
    assert all(change < 0.015 for change in changes)


def test_thresholds_that_cost_time_are_left_out_with_what_is_known() -> None:
    reasons = why_not(asked("dp", chip="H100"))
    assert reasons[REDUCE].startswith("predicted 6.2% slower on a common dp step")
    assert reasons[GATHER].startswith("measured elsewhere: 512 MB made a good run")
    assert GATHER in why_not(asked("dp", chip="MI300X"))


def test_the_order_of_the_lines_is_that_of_what_was_predicted_and_measured() -> None:
    """Clear gains come first; then, in each of two parts (not known, or measured to be slower),
    losses ascend, in whatever release they were predicted."""
    for workload in ("fsdp", "tp", "dp", "pp", "ep"):
        lines = asked(workload, chip="H100").lines
        gains = [min(trial.change or 0.0 for trial in one.tried) for one in lines if one.tried]
        clear = [gain for gain in gains if gain <= -0.015]
        assert gains[: len(clear)] == sorted(clear)
        losses = [
            (one.line.effect == "slower", one.cost)
            for one, gain in zip((it for it in lines if it.tried), gains, strict=True)
            if gain > -0.015
        ]
        assert losses == sorted(losses)


def test_a_small_gain_in_one_release_does_not_put_a_flag_first() -> None:
    """Double buffering of the common FSDP step: 0.2% faster in one release, slower in another."""
    name = "xla_gpu_enable_while_loop_double_buffering"
    flags = list(asked("fsdp", chip="H100").settings.flags)
    assert flags.index(name) > flags.index("xla_gpu_enable_nccl_user_buffers")


def test_what_was_tried_on_the_gpus_of_one_vendor_is_not_said_of_another() -> None:
    assert any(one.tried for one in asked("fsdp", chip="A100").lines)
    assert not any(one.tried for one in asked("fsdp", chip="MI300X").lines)


def test_each_line_says_what_it_depends_on() -> None:
    told = {one.line.name: one.depends_on for one in asked("fsdp").lines}
    assert told["xla_gpu_enable_pipelined_all_gather"] == (
        "all-gather in a loop over layers (a scan)"
    )
    assert told["xla_gpu_enable_while_loop_double_buffering"] == "a loop over layers (a scan)"


@pytest.mark.parametrize("version", ["0.7.2", "0.10.2", "0.12.0"])
def test_the_nearest_tried_release_is_quoted(version: str) -> None:
    flag = ("xla_gpu_all_gather_combine_threshold_bytes", "1073741824")
    rows = tried_flags(*flag, version, ["fsdp"])
    assert [row.step for row in rows] == ["fsdp"]
    assert not tried_flags("xla_gpu_none", "1", version, ["fsdp"])


def test_a_check_warns_of_a_flag_that_ended_the_compile_of_common_steps() -> None:
    for value in ("true", "1", "True"):
        written = read_text(f"--xla_gpu_enable_dynamic_slice_fusion={value}", "flags")
        (one,) = check(written, version="0.10.2")
        assert (one.code, one.severity) == ("FLAG203", Severity.WARNING)
        assert "FLAG203" not in [it.code for it in check(written, version="0.12.0")]


@pytest.mark.system
def test_a_program_is_compiled_with_each_flag_first(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    if reason := why_none():
        pytest.skip(reason)
    program = tmp_path / "step.mlir"
    done = subprocess.run(
        [sys.executable, "-c", LOWER, str(TOOLS), str(program)],
        env={**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": VIRTUAL},
        check=False,
    )
    assert done.returncode == 0
    words = ["flags", "recommend", "--for", "fsdp", "--target", "8xH100", "--program", str(program)]
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    lines = [line for line in told["lines"] if line["channel"] == "XLA_FLAGS"]
    changes = [line["predicted"]["change"] for line in lines]
    assert changes == sorted(changes)
    assert all(change <= 0.001 for change in changes)
    assert told["together"]["change"] <= 0.001
    left_out = {line["name"]: line["why"] for line in told["left_out"]}
    assert left_out["xla_gpu_enable_dynamic_slice_fusion"].startswith("does not compile: ")
    assert any("predicted" in why and "slower" in why for why in left_out.values())
    assert main([*words, "--no-predict"]) == 3  # StableHLO has no facts before it is compiled


def test_what_the_run_has_set_already_is_not_recommended() -> None:
    name = "xla_gpu_enable_while_loop_double_buffering"
    request = RecommendationRequest(
        workloads=("fsdp",), goal="speed", release=release("0.10.2"), given={name: "True"}
    )
    found = recommend(request)
    assert name not in found.settings.flags
    assert why_not(found)[name] == "the run of this program has set it already"
    assert name in recommend(replace(request, given={name: "false"})).settings.flags
