"""FLAG3xx, FLAG4xx and FLAG5xx: what fires, and what does not, by release and chip."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

import pytest

from counterpoint.flags.catalogue.lookup import release
from counterpoint.flags.check.examination import check
from counterpoint.flags.lint import Remark, Severity
from counterpoint.flags.parse.source import read_command, read_text, read_variables
from counterpoint.flags.rules import unknown_pass
from counterpoint.flags.rules.missing_partner import partners
from counterpoint.flags.rules.not_for_this_chip import suited
from flag_sources import script
from published_recipe import published

UNROLL = "--xla_gpu_enable_while_loop_unrolling=WHILE_LOOP_UNROLLING"
CHECKER = "--xla_gpu_pgle_accuracy_checker=PGLE_STRICTNESS_LEVEL"
OPTIONS = "--xla_gpu_analytical_latency_estimator_options=rtt_us=3"
LHS = "--xla_gpu_enable_latency_hiding_scheduler"
SOL = "--xla_gpu_enable_analytical_sol_latency_estimator"
PROFILE = "--xla_gpu_pgle_profile_file_or_directory_path"
PASSES = "--xla_disable_hlo_passes"
DOUBLE = "--xla_gpu_enable_while_loop_double_buffering=true"
USER_BUFFERS = "--xla_gpu_enable_nccl_user_buffers=true"
P2P = "--xla_gpu_enable_pipelined_p2p=true"
THRESHOLD = "--xla_gpu_collective_permute_decomposer_threshold=1024"
LEVEL = (
    "--xla_gpu_experimental_pipeline_parallelism_opt_level=PIPELINE_PARALLELISM_OPT_LEVEL_ENABLE"
)
POOL = "XLA_PYTHON_CLIENT_COLLECTIVE_MEM_SIZE_MB=2048"
EVERY = "--xla_gpu_enable_pipelined_collectives=true"
A2A = "--xla_gpu_experimental_enable_alltoall_windowed_einsum=true"
AG = "--xla_gpu_all_gather_combine_threshold_bytes"
PIPELINED = "--xla_gpu_enable_pipelined_all_gather=true"


def remarks(
    settings: Iterable[str], version: str, chip: str | None, *, profiling: bool = False
) -> tuple[Remark, ...]:
    """Of flags, and of variables `NAME=value`."""
    given = [*settings]
    flags = " ".join(one for one in given if one.startswith("--"))
    lines = [f"export {one}" for one in given if not one.startswith("--")]
    lines += [f"export XLA_FLAGS='{flags}'"] if flags else []
    written = read_text("\n".join(lines) + "\n", "job.sh")
    return check(written, version=version, chip=chip, profiling=profiling)


def found(code: str, settings: str, version: str, chip: str | None) -> list[Remark]:
    return [one for one in remarks(settings.split(), version, chip) if one.code == code]


FIRE = [
    # code, severity, settings, release, chip
    ("FLAG301", "note", "--xla_gpu_enable_triton_gemm=true", "0.10.2", None),
    ("FLAG301", "note", f"{AG}=31457287", "0.6.2", None),
    ("FLAG301", "note", f"{SOL}=true", "0.8.3", "H100"),
    ("FLAG302", "warning", f"{LHS}=false", "0.10.2", "H100"),
    ("FLAG302", "warning", f"{LHS}=false", "0.8.3", "NVIDIA B200"),
    ("FLAG302", "note", f"{LHS}=false", "0.8.3", None),
    ("FLAG302", "note", f"{LHS}=false", "0.6.2", "H100"),
    ("FLAG302", "note", f"{LHS}=false", "0.7.1", "H100"),
    ("FLAG302", "warning", f"{LHS}=false", "0.7.2", "H100"),
    ("FLAG302", "warning", f"{LHS}=false", "0.11.1", "H100"),
    ("FLAG302", "warning", f"{LHS}=false {PROFILE}=/p.pbtxt", "0.7.0", "H100"),
    ("FLAG302", "warning", f"{LHS}=false {PROFILE}=/p.pbtxt", "0.11.1", "A100"),
    ("FLAG302", "note", f"{LHS}=false", "0.10.2", "A100"),
    ("FLAG302", "warning", f"{LHS}=false {PROFILE}=/p.pbtxt", "0.10.2", "A100"),
    ("FLAG302", "note", f"{LHS}=true", "0.10.2", "H100"),
    ("FLAG302", "note", f"{LHS}=true {PROFILE}=/p.pbtxt", "0.6.2", "A100"),
    ("FLAG303", "warning", THRESHOLD, "0.8.3", None),
    ("FLAG303", "warning", f"{SOL}=false --xla_gpu_analytical_latency_estimator_options=rtt_us=3",
     "0.10.2", "H100"),
    ("FLAG303", "warning", OPTIONS, "0.6.2", None),
    ("FLAG303", "warning", "--xla_dump_latency_hiding_schedule", "0.10.2", None),
    ("FLAG303", "warning", "--xla_gpu_pgle_accuracy_checker=PGLE_STRICTNESS_LEVEL_ERROR", "0.10.2",
     None),
    ("FLAG303", "warning", "--xla_gpu_enable_triton_gemm=false --xla_gpu_cudnn_gemm_fusion_level=2",
     "0.10.2", "B200"),
    ("FLAG303", "warning", "--xla_gpu_enable_command_buffer= --xla_gpu_graph_min_graph_size=2",
     "0.10.2", None),
    ("FLAG303", "warning", f"{A2A} --xla_gpu_multi_streamed_windowed_einsum=false", "0.10.2", None),
    ("FLAG304", "warning", f"{AG}=256", "0.10.2", None),
    ("FLAG304", "note", f"{AG}=16777216", "0.10.2", None),
    ("FLAG304", "warning", f"{AG}=1099511627776", "0.10.2", "H100"),
    ("FLAG304", "note", f"{AG}=1073741824 {PIPELINED}", "0.10.2", None),
    ("FLAG304", "note", f"{AG}=1073741824 --xla_gpu_pipeline_all_gather=on", "0.12.0", None),
    ("FLAG305", "warning", f"{PASSES}=latency_hiding_scheduler", "0.10.2", None),
    ("FLAG305", "warning", f"{PASSES}=rematerialisation", "0.10.2", None),
    ("FLAG305", "note", f"{PASSES}=quux", "0.10.2", None),
    ("FLAG305", "warning", f"{PASSES}=rematerialization,dce JAX_COMPILER_ENABLE_REMAT_PASS=0",
     "0.10.2", None),
    ("FLAG306", "warning", f"{SOL}=true", "0.6.2", "A100"),
    ("FLAG306", "warning", "--xla_gpu_cudnn_gemm_fusion_level=1", "0.10.2", "H100"),
    ("FLAG306", "warning", "--xla_gpu_cudnn_gemm_fusion_level=3", "0.10.2", "MI300X"),
    ("FLAG401", "warning", f"{USER_BUFFERS} NCCL_NVLS_ENABLE=0", "0.10.2", "H100"),
    ("FLAG401", "warning", f"{USER_BUFFERS} {POOL}", "0.10.2", "A100"),
    ("FLAG401", "warning", f"{USER_BUFFERS} {POOL} XLA_PYTHON_CLIENT_ALLOCATOR=platform", "0.10.2",
     "H100"),
    ("FLAG401", "note", USER_BUFFERS, "0.10.2", "H100"),
    ("FLAG402", "note", f"{DOUBLE} XLA_CLIENT_MEM_FRACTION=0.98", "0.10.2", "H100"),
    ("FLAG402", "note", f"{DOUBLE} --xla_gpu_memory_limit_slop_factor=110", "0.10.2", "H100"),
    ("FLAG402", "note", f"{UNROLL}_FULL_UNROLL XLA_PYTHON_CLIENT_MEM_FRACTION=.95", "0.10.2",
     "H100"),
    ("FLAG403", "warning", "JAX_ENABLE_PGLE=true", "0.4.38", "H100"),
    ("FLAG403", "warning", "JAX_ENABLE_PGLE=yes --xla_enable_command_buffers_during_profiling=true",
     "0.10.2", "H100"),
    ("FLAG404", "note", "--xla_gpu_unsupported_enable_ragged_all_to_all_decomposer=true", "0.10.2",
     "H100"),
    ("FLAG405", "warning", f"{P2P} {THRESHOLD}", "0.10.2", None),
    ("FLAG405", "warning", f"{P2P} {THRESHOLD}", "0.12.0", None),
    ("FLAG406", "warning", f"{LHS}=false {PROFILE}=/p.pbtxt", "0.12.0", "H100"),
    ("FLAG406", "warning", f"{LHS}=false {PROFILE}=/p.pbtxt", "0.11.2", "H100"),
    ("FLAG406", "warning", f"{PASSES}=latency-hiding-scheduler {PROFILE}=/p.pbtxt", "0.10.2",
     "H100"),
    ("FLAG406", "warning", f"{PROFILE}=/p.pbtxt", "0.4.35", "H100"),
    ("FLAG406", "warning", f"{PROFILE}=/p.json", "0.10.2", "H100"),
    ("FLAG406", "warning", f"{PROFILE}=/host.xplane.pb", "0.10.2", "H100"),
    ("FLAG406", "warning", f"{PROFILE}=/run.sqlite", "0.10.2", "H100"),
    ("FLAG406", "note", f"{PROFILE}=/p.pbtxt JAX_COMPILATION_CACHE_DIR=/c", "0.10.2", "H100"),
    ("FLAG406", "note", f"{PROFILE}=/p.pbtxt {CHECKER}_ERROR", "0.10.2", "H100"),
    ("FLAG407", "warning", f"{LHS}=true {PASSES}=latency-hiding-scheduler", "0.10.2", None),
    ("FLAG407", "warning", f"{PIPELINED} --xla_gpu_disable_async_collectives=allgather", "0.10.2",
     None),
    ("FLAG407", "warning", f"{PIPELINED} --xla_gpu_disable_async_collectives=allcollectives",
     "0.10.2", None),
    ("FLAG407", "warning", f"{DOUBLE} {UNROLL}_FULL_UNROLL", "0.10.2", None),
    ("FLAG407", "warning", f"{EVERY} --xla_gpu_enable_pipelined_all_gather=false", "0.5.3", None),
    ("FLAG407", "error", "XLA_CLIENT_MEM_FRACTION=.9 XLA_PYTHON_CLIENT_MEM_FRACTION=.8", "0.10.2",
     None),
    ("FLAG408", "warning", "JAX_ENABLE_PGLE=1 NSYS_PROFILING_SESSION_ID=4", "0.10.2", None),
    ("FLAG408", "warning", "JAX_COMPILATION_CACHE_EXPECT_PGLE=yes", "0.10.2", None),
    ("FLAG408", "warning", "JAX_PGLE_PROFILING_RUNS=5", "0.10.2", None),
    ("FLAG408", "warning", "JAX_ENABLE_PGLE=1 JAX_PGLE_PROFILING_RUNS=0", "0.10.2", None),
    ("FLAG409", "warning", "CUDA_LAUNCH_BLOCKING=1", "0.10.2", None),
    ("FLAG409", "warning", "NCCL_DEBUG=TRACE", "0.10.2", None),
    ("FLAG409", "warning", "JAX_DEBUG_NANS=true", "0.10.2", None),
    ("FLAG409", "warning", "--xla_dump_to=/d --xla_dump_hlo_pass_re=.*", "0.10.2", None),
    ("FLAG501", "warning", "TF_CPP_MAX_LOG_LEVEL=100", "0.10.2", None),
    ("FLAG501", "warning", "JAX_ENABLE_PGEL=true", "0.10.2", None),
    ("FLAG501", "warning", "NCCL_NVL_ENABLE=0", "0.10.2", None),
    ("FLAG501", "warning", "NCCL_IB_QPS_PER_CONECTION=4", "0.10.2", None),
    ("FLAG501", "warning", "XLA_PYTHON_CLIENT_PREALOCATE=false", "0.10.2", None),
    ("FLAG501", "warning", "JAX_COMPILATION_CACHE_EXPECT_PGLE=yes", "0.4.35", None),
    ("FLAG502", "note", "XLA_PYTHON_CLIENT_MEM_FRACTION=0.9", "0.8.3", None),
    ("FLAG503", "error", "XLA_PYTHON_CLIENT_MEM_FRACTION=90%", "0.10.2", None),
    ("FLAG503", "warning", "XLA_CLIENT_MEM_FRACTION=2", "0.10.2", None),
    ("FLAG503", "error", "XLA_CLIENT_MEM_FRACTION=0", "0.10.2", None),
    ("FLAG503", "error", "XLA_PYTHON_CLIENT_PREALLOCATE=no", "0.10.2", None),
    ("FLAG503", "error", "XLA_PYTHON_CLIENT_ALLOCATOR=best", "0.10.2", None),
    ("FLAG503", "error", "JAX_ENABLE_PGLE=enabled", "0.10.2", None),
    ("FLAG503", "error", "NCCL_PROTO=LL128,Simpel", "0.10.2", None),
    ("FLAG503", "error", "NCCL_ALGO=gather:Ring", "0.10.2", None),
    ("FLAG503", "warning", "TF_CPP_VMODULE=gpu_compiler.cc=3", "0.10.2", None),
    ("FLAG503", "warning", "TF_CPP_VMODULE=gpu_compiler:3", "0.10.2", None),
    ("FLAG503", "warning", "NCCL_NVLS_ENABLE=on", "0.10.2", None),
    ("FLAG504", "note", "NCCL_LL_BUFFSIZE=-2", "0.10.2", None),
    ("FLAG504", "note", "JAX_ENABLE_PGLE=false", "0.10.2", None),
    ("FLAG505", "warning", "CUDA_DEVICE_MAX_CONNECTIONS=1", "0.10.2", "GB200"),
    ("FLAG506", "note", "XLA_PYTHON_CLIENT_PREALLOCATE=false XLA_CLIENT_MEM_FRACTION=.5", "0.10.2",
     None),
    ("FLAG506", "warning", "XLA_PYTHON_CLIENT_ALLOCATOR=platform XLA_CLIENT_MEM_FRACTION=.5",
     "0.10.2", None),
    ("FLAG506", "error", "NCCL_ALGO=NVLS NCCL_PROTO=LL128", "0.10.2", None),
    ("FLAG506", "error", "NCCL_ALGO=NVLS,NVLSTree NCCL_NVLS_ENABLE=0", "0.10.2", None),
    ("FLAG506", "warning", "NCCL_MIN_NCHANNELS=16 NCCL_MAX_NCHANNELS=8", "0.10.2", None),
]  # fmt: skip

SILENT = [
    ("FLAG301", "--xla_gpu_enable_triton_gemm=true --xla_gpu_enable_triton_gemm=false", "0.10.2",
     None),
    ("FLAG301", f"{SOL}=true", "0.6.2", "H100"),
    ("FLAG301", f"{LHS}=false", "0.12.0", "H100"),
    ("FLAG301", "--xla_gpu_enable_cudnn_fmha=false", "0.10.2", None),
    ("FLAG302", f"{LHS}=false", "0.12.0", "H100"),
    ("FLAG302", f"{LHS}=false", "0.11.2", "H100"),
    ("FLAG302", f"{LHS}=false {PROFILE}=/p.pbtxt", "0.11.2", "H100"),
    ("FLAG302", f"{LHS}=true", "0.7.1", "H100"),
    ("FLAG302", f"{LHS}=false {SOL}=true", "0.7.1", "H100"),
    ("FLAG302", f"{LHS}=true", "0.10.2", "A100"),
    ("FLAG302", f"{LHS}=true", "0.6.2", "H100"),
    ("FLAG302", f"{LHS}=true", "0.10.2", None),
    ("FLAG302", f"{LHS}=true {SOL}=false", "0.10.2", "H100"),
    ("FLAG303", f"{THRESHOLD} {LEVEL}", "0.10.2", None),
    ("FLAG303", f"{THRESHOLD} {P2P}", "0.8.3", None),
    ("FLAG303", THRESHOLD, "0.5.3", None),
    ("FLAG303", OPTIONS, "0.10.2", "H100"),
    ("FLAG303", "--xla_dump_latency_hiding_schedule --xla_dump_to=/d", "0.10.2", None),
    ("FLAG303", "--xla_gpu_multi_streamed_windowed_einsum=true", "0.10.2", None),
    ("FLAG303", "--xla_gpu_pgle_accuracy_checker=PGLE_STRICTNESS_LEVEL_ERROR JAX_ENABLE_PGLE=on",
     "0.10.2", None),
    ("FLAG303", "--xla_gpu_cudnn_gemm_fusion_level=2", "0.10.2", "B200"),
    ("FLAG303", "--xla_gpu_graph_min_graph_size=2", "0.10.2", None),
    ("FLAG303", A2A, "0.10.2", None),
    ("FLAG303", f"{OPTIONS} JAX_OPTIMIZATION_LEVEL=O1", "0.6.2", "H100"),
    ("FLAG304", f"{AG}=1073741824", "0.10.2", "H100"),
    ("FLAG304", f"{AG}=31457287 {PIPELINED}", "0.10.2", "H100"),
    ("FLAG305", f"{PASSES}=rematerialization,latency-hiding-scheduler,collective-permute-motion",
     "0.10.2", None),
    ("FLAG305", f"{PASSES}=priority-fusion,simplify-fp-conversions,multi_output_fusion", "0.6.2",
     None),
    ("FLAG305", f"{PASSES}=rematerialization,dce JAX_COMPILER_ENABLE_REMAT_PASS=0", "0.12.0", None),
    ("FLAG305", f"{PASSES}=rematerialization,dce JAX_COMPILER_ENABLE_REMAT_PASS=0", "0.11.1", None),
    ("FLAG306", f"{SOL}=true", "0.6.2", "H100"),
    ("FLAG306", f"{SOL}=true", "0.6.2", None),
    ("FLAG306", "--xla_gpu_cudnn_gemm_fusion_level=2", "0.10.2", "A100"),
    ("FLAG306", "--xla_gpu_cudnn_gemm_fusion_level=1", "0.10.2", "TPU v5p"),
    ("FLAG401", USER_BUFFERS, "0.10.2", "TPU v5p"),
    ("FLAG401", f"{USER_BUFFERS} {POOL}", "0.10.2", "H100"),
    ("FLAG401", f"{USER_BUFFERS} {POOL} NCCL_NVLS_ENABLE=1", "0.10.2", None),
    ("FLAG401", "NCCL_NVLS_ENABLE=0", "0.10.2", "H100"),
    ("FLAG402", f"{DOUBLE} XLA_CLIENT_MEM_FRACTION=0.9", "0.10.2", "H100"),
    ("FLAG402", "XLA_CLIENT_MEM_FRACTION=0.98", "0.10.2", "H100"),
    ("FLAG403", "JAX_ENABLE_PGLE=true", "0.10.2", "H100"),
    ("FLAG403", "JAX_ENABLE_PGLE=true", "0.5.0", "H100"),
    ("FLAG403", "JAX_ENABLE_PGLE=true --xla_gpu_enable_command_buffer=", "0.4.38", "H100"),
    ("FLAG403", "JAX_ENABLE_PGLE=true --xla_gpu_cuda_graph_level=0", "0.4.38", "H100"),
    ("FLAG403", "NSYS_PROFILING_SESSION_ID=1 --xla_gpu_graph_level=0", "0.10.2", "H100"),
    ("FLAG403", "--xla_enable_command_buffers_during_profiling=true", "0.10.2", "H100"),
    ("FLAG404", f"--xla_gpu_unsupported_enable_ragged_all_to_all_decomposer=true {LHS}=true",
     "0.10.2", "H100"),
    ("FLAG404", "--xla_gpu_unsupported_enable_ragged_all_to_all_decomposer=true", "0.10.2", "A100"),
    ("FLAG404", "--xla_gpu_unsupported_enable_ragged_all_to_all_decomposer=true", "0.7.1", "H100"),
    ("FLAG404", f"{P2P} {LEVEL}", "0.10.2", "H100"),
    ("FLAG405", f"{P2P} {THRESHOLD}", "0.9.2", None),
    ("FLAG405", f"{LEVEL} {THRESHOLD}", "0.10.2", None),
    ("FLAG405", P2P, "0.10.2", None),
    ("FLAG406", f"{LHS}=false {PROFILE}=/p.pbtxt", "0.10.2", "H100"),
    ("FLAG406", f"{LHS}=false {PROFILE}=/p.pbtxt", "0.11.1", "H100"),
    ("FLAG406", f"{LHS}=false {PROFILE}=/p.pbtxt", "0.7.1", "H100"),
    ("FLAG406", f"{LHS}=true {PROFILE}=/p.pbtxt", "0.4.35", "H100"),
    ("FLAG406", f"{PROFILE}=/profiles", "0.10.2", "H100"),
    ("FLAG406", f"{PROFILE}=/p.pb", "0.12.0", "H100"),
    ("FLAG407", f"{PIPELINED} --xla_gpu_disable_async_collectives=allreduce", "0.10.2", None),
    ("FLAG407", f"{DOUBLE} {UNROLL}_DOUBLE_BUFFER", "0.10.2", None),
    ("FLAG407", f"{EVERY} {PIPELINED}", "0.5.3", None),
    ("FLAG408", "JAX_ENABLE_PGLE=yes JAX_PGLE_PROFILING_RUNS=5 JAX_COMPILATION_CACHE_DIR=/c",
     "0.10.2", None),
    ("FLAG408", "JAX_COMPILATION_CACHE_EXPECT_PGLE=yes JAX_COMPILATION_CACHE_DIR=/c", "0.10.2",
     None),
    ("FLAG409", "NCCL_DEBUG=INFO --xla_dump_to=/d --xla_dump_hlo_as_text", "0.10.2", None),
    ("FLAG409", "CUDA_LAUNCH_BLOCKING=0 JAX_DEBUG_NANS=false", "0.10.2", None),
    ("FLAG501", "NCCL_FASTRAK_IFNAME=eth1 NCCL_GPUDIRECTTCPX_CTRL_DEV=eth0", "0.10.2", None),
    ("FLAG501", "JAX_COORDINATOR_ADDRESS=h:1 JAX_NUM_PROCESSES=2 JAX_PROCESS_ID=0", "0.10.2", None),
    ("FLAG501", "NCCL_TUNER_CONFIG_FILE=/t NCCL_IB_ECE_ENABLE=1 NCCL_SOCKET_IFNAME=eth0", "0.10.2",
     None),
    ("FLAG502", "XLA_CLIENT_MEM_FRACTION=0.9", "0.10.2", None),
    ("FLAG503", "NCCL_PROTO=SIMPLE,LL,LL128 NCCL_ALGO=allreduce:tree;broadcast:^ring", "0.10.2",
     None),
    ("FLAG503", "TF_CPP_VMODULE=profile_guided_latency_estimator=10,gpu_hlo_schedule=5", "0.10.2",
     None),
    ("FLAG503", "XLA_PYTHON_CLIENT_PREALLOCATE=False JAX_ENABLE_PGLE=on", "0.10.2", None),
    ("FLAG503", "XLA_CLIENT_MEM_FRACTION=3.2 TF_FORCE_UNIFIED_MEMORY=true", "0.10.2", None),
    ("FLAG504", "NCCL_BUFFSIZE=16777216 JAX_ENABLE_PGLE=true", "0.10.2", None),
    ("FLAG505", "CUDA_DEVICE_MAX_CONNECTIONS=1", "0.10.2", "H100"),
    ("FLAG505", "CUDA_DEVICE_MAX_CONNECTIONS=16", "0.10.2", "B200"),
    ("FLAG505", "CUDA_DEVICE_MAX_CONNECTIONS=1", "0.10.2", None),
    ("FLAG506", "NCCL_ALGO=Ring,NVLS NCCL_PROTO=LL128 NCCL_NVLS_ENABLE=0", "0.10.2", None),
    ("FLAG506", "NCCL_ALGO=NVLS NCCL_PROTO=Simple,LL", "0.10.2", None),
    ("FLAG506", "XLA_PYTHON_CLIENT_PREALLOCATE=true XLA_CLIENT_MEM_FRACTION=.9", "0.10.2", None),
]  # fmt: skip


def number(rows: Sequence[tuple[str | None, ...]]) -> list[str]:
    return [f"{row[0]}-{at}" for at, row in enumerate(rows)]


@pytest.mark.parametrize(
    ("code", "severity", "settings", "version", "chip"), FIRE, ids=number(FIRE)
)
def test_a_rule_speaks_of(
    code: str, severity: str, settings: str, version: str, chip: str | None
) -> None:
    (first, *_) = found(code, settings, version, chip) or [None]
    assert first is not None, "silent"
    assert first.severity == severity, first.message
    assert first.text.split("=")[0] in ("", *(one.split("=")[0] for one in settings.split()))
    assert first.advice


@pytest.mark.parametrize(("code", "settings", "version", "chip"), SILENT, ids=number(SILENT))
def test_a_rule_is_silent_about(code: str, settings: str, version: str, chip: str | None) -> None:
    assert found(code, settings, version, chip) == []


def test_a_run_that_is_recorded_by_nsight_needs_command_buffers_off() -> None:
    nsys = ["NSYS_PROFILING_SESSION_ID=1", "--xla_gpu_autotune_level=4"]
    (first,) = [
        one for one in remarks(nsys, "0.10.2", "H100", profiling=True) if one.code == "FLAG403"
    ]
    assert first.fix
    assert first.fix.instead == (("xla_gpu_enable_command_buffer", ""),)
    off = [*nsys, "--xla_gpu_enable_command_buffer="]
    codes = {one.code for one in remarks(off, "0.10.2", "H100", profiling=True)}
    assert "FLAG403" not in codes


@pytest.mark.parametrize(
    "line",
    [
        "nsys profile -o out python train.py",
        "XLA_FLAGS=--xla_gpu_autotune_level=4 srun /opt/nsys profile python train.py",
        "NCCL_DEBUG=WARN bash -c 'nsys launch python train.py'",
    ],
)
def test_a_script_that_records_with_nsight_is_known_to(line: str) -> None:
    for written in (script(line), read_command(shlex.split(line), {})):
        told = check(written, version="0.10.2", chip="H100", profiling=True)
        assert [one.severity for one in told if one.code == "FLAG403"] == ["warning"]
        told = check(written, version="0.10.2", chip="H100")
        assert [one.severity for one in told if one.code == "FLAG403"] == ["note"]


def test_other_commands_of_nsys_record_nothing() -> None:
    written = script("nsys stats out.nsys-rep", "NCCL_DEBUG=WARN python train.py # nsys profile")
    assert not check(written, version="0.10.2", chip="H100", profiling=True)


def test_a_session_of_nsight_is_seen_in_the_environment() -> None:
    written = read_variables({"NSYS_PROFILING_SESSION_ID": "7"})
    told = check(written, version="0.10.2", chip="H100", profiling=True)
    assert [one.code for one in told] == ["FLAG403"]


def test_what_a_user_of_today_would_write_gets_notes_only() -> None:
    sensible = [
        f"{LHS}=true",
        "--xla_gpu_enable_triton_gemm=false",
        "--xla_gpu_enable_command_buffer=",
        "--xla_gpu_all_reduce_combine_threshold_bytes=1073741824",
        PIPELINED,
        "--xla_gpu_enable_pipelined_all_reduce=true",
        DOUBLE,
        f"{PASSES}=rematerialization",
        "--xla_dump_to=/dump",
        "--xla_dump_hlo_as_text",
        "XLA_CLIENT_MEM_FRACTION=0.92",
        "CUDA_DEVICE_MAX_CONNECTIONS=1",
        "NCCL_DEBUG=WARN",
        "NCCL_IB_SL=1",
        "NCCL_PROTO=Simple,LL128",
        "JAX_COMPILATION_CACHE_DIR=/cache",
        "JAX_ENABLE_PGLE=true",
        "TF_CPP_MIN_LOG_LEVEL=0",
        "TF_CPP_VMODULE=profile_guided_latency_estimator=10",
    ]
    for version in ("0.6.2", "0.8.3", "0.10.2", "0.11.0"):
        loud = [it for it in remarks(sensible, version, "H100") if it.severity != Severity.NOTE]
        assert loud == [], version


def test_published_recipes_get_no_error_from_rules_on_effect() -> None:
    for recipe in published():
        if not recipe.together:
            continue
        for one in check(recipe.written, version="0.10.2", chip=recipe.chip):
            assert one.severity is not Severity.ERROR or one.code < "FLAG300", (recipe.name, one)


def test_what_tables_name_exists_in_some_release() -> None:
    known = set(release("0.12.0").flags) | set(release("0.6.2").flags)
    for partner in partners():
        assert partner.flag in known, partner.flag
        assert partner.source.startswith("https://"), partner.flag
        for condition in partner.any:
            name = condition.partition("=")[0].removesuffix("!")
            assert name[0] == "$" or name in known, condition
    assert all(entry.source.startswith("https://") for entry in suited())
    assert {"rematerialization", "latency-hiding-scheduler"} <= unknown_pass.passes()


def test_options_of_jax_are_found_in_the_program_too() -> None:
    written = read_text('import jax\njax.config.update("jax_enable_pgel", True)\n', "train.py")
    (one,) = [it for it in check(written, version="0.10.2") if it.code == "FLAG501"]
    assert one.severity is Severity.ERROR
    assert "jax_enable_pgle" in one.advice


SMALL = 'export XLA_FLAGS="--xla_dump_to=/d --xla_gpu_autotune_level=0" NCCL_DEBUG=INFO\n'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("#!/bin/bash\n#SBATCH --nodes=4\n", "srun python a.py\n"),
        ("", "srun -N 4 python a.py\n"),
    ],
)
def test_small_debugging_settings_of_a_job_are_one_note(before: str, after: str) -> None:
    def told(settings: str) -> list[Remark]:
        written = read_text(before + settings + after, "job.sh")
        return [one for one in check(written, version="0.10.2") if one.code == "FLAG409"]

    (note,) = told(SMALL)
    assert note.severity is Severity.NOTE
    assert "--xla_dump_to=/d: " in note.message
    assert "NCCL_DEBUG=INFO: " in note.message
    (single,) = told("export NCCL_DEBUG=INFO\n")
    assert single.message == "each rank logs many lines as it starts"
    assert told("export NCCL_DEBUG=WARN XLA_FLAGS=--xla_gpu_autotune_level=4\n") == []


@pytest.mark.parametrize("after", ["", "python a.py\n", "mpirun -np 1 python a.py\n"])
def test_on_one_process_they_are_what_someone_wants_to_see(after: str) -> None:
    found = check(read_text(SMALL + after, "a.sh"), version="0.10.2")
    assert "FLAG409" not in [one.code for one in found]


@pytest.mark.parametrize(
    ("setting", "version", "says"),
    [
        ("NCCL_TREE_THRESHOLD=0", "0.4.30", "NCCL 2.5 and later do not read it"),
        ("NCCL_CHECKS_DISABLE=1", "0.10.2", "NCCL 2.3 and later do not read it"),
        ("NCCL_TIMEOUT=3600", "0.10.2", "no release reads it"),
        ("NCCL_BLOCKING_WAIT=1", "0.10.2", "PyTorch reads it, and neither NCCL nor JAX"),
        ("JAX_ARRAY=1", "0.10.2", "JAX 0.4.14 and later do not read it"),
        ("JAX_USE_PERSISTENT_CACHE=1", "0.10.2", "no release reads it"),
        ("JAX_USE_PJRT_C_API_ON_TPU=1", "0.10.2", "JAX 0.4.25 and later do not read it"),
        ("JAX_USE_PJRT_C_API_ON_TPU=1", "0.4.20", None),
        ("NCCL_RINGS=0,1", "0.10.2", None),  # RCCL reads it
        ("NCCL_MAX_NRINGS=4", "0.10.2", None),  # an old name that NCCL still reads
        ("NCCL_CHECK_POINTERS=0", "0.10.2", None),
        ("TORCH_NCCL_BLOCKING_WAIT=1", "0.10.2", None),
        ("JAX_OWN_OPTION=1", "0.10.2", None),
    ],
)
def test_variables_of_old_scripts_are_told_from_those_that_are_read(
    setting: str, version: str, says: str | None
) -> None:
    found = [one for one in remarks([setting], version, None) if one.code == "FLAG501"]
    assert [one.message for one in found] == ([] if says is None else [says])
