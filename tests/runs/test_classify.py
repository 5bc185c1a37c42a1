"""How a process ended, told from texts that XLA, JAX, CUDA, Python and trainers really print."""

from __future__ import annotations

import pytest

from counterpoint.runs.outcomes import OutcomeKind, classify

UNKNOWN_FLAG = (
    "F1121 09:33:30.114261    9812 parse_flags_from_env.cc:234] Unknown flags in XLA_FLAGS:"
    " --xla_gpu_enable_async_collectives=true --xla_foo=1\n"
)
BAD_VALUE = (
    "E1121 09:33:30.554012    9814 command_line_flags.cc:63] Couldn't interpret value abc for flag"
    " xla_force_host_platform_device_count.\n"
    "F1121 09:33:30.554034    9814 parse_flags_from_env.cc:220] Check failed: tsl::Flags::Parse("
    "&env_argv->argc, env_argv->argv.data(), flag_list) Flag parsing failed.\n"
    'usage: --xla_force_host_platform_device_count=abc\nFlags:\n\t--xla_disable_hlo_passes=""\n'
)
CPU_MEMORY = """\
    outs = fun(*args)
           ^^^^^^^^^^
jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 4398046511104 bytes.
--------------------
For simplicity, JAX has removed its internal frames from the traceback of the following exception.
"""
GPU_MEMORY = """\
2024-07-01 12:00:00.123456: W external/xla/xla/tsl/framework/bfc_allocator.cc:497] Allocator \
(GPU_0_bfc) ran out of memory trying to allocate 16.00GiB
jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate \
17179869184 bytes.
"""
TPU_MEMORY = (
    "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of"
    " memory in memory space hbm. Used 20.1G of 15.48G hbm.\n"
)
HOST_MEMORY = (
    "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 256. TiB for an array\n"
)
SLURM_MEMORY = (
    "slurmstepd: error: Detected 1 oom_kill event in StepId=42.0. Some of the step tasks have been"
    " OOM Killed.\n"
)
DEBUG_NANS = "FloatingPointError: invalid value (nan) encountered in log\n"
DISK = "OSError: [Errno 28] No space left on device\n"
TRIED_KERNEL = (
    "W1121 09:25:01.123456    4711 autotuner.cc:12] autotuner: RESOURCE_EXHAUSTED: too much"
    " shared memory\n"
)
TRACEBACK = """\
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    main()
ValueError: no such dataset: 'c5'
"""


@pytest.mark.parametrize(
    ("status", "output", "kind", "detail"),
    [
        ((0, None), "done\n", OutcomeKind.OK, ""),
        ((0, None), "", OutcomeKind.OK, ""),
        ((1, None), UNKNOWN_FLAG, OutcomeKind.UNKNOWN_FLAG, "--xla_foo=1"),
        ((None, 6), UNKNOWN_FLAG, OutcomeKind.UNKNOWN_FLAG, "--xla_foo=1"),
        ((134, None), UNKNOWN_FLAG, OutcomeKind.UNKNOWN_FLAG, "--xla_foo=1"),
        ((1, None), BAD_VALUE, OutcomeKind.UNKNOWN_FLAG, "Flag parsing failed"),
        ((1, None), CPU_MEMORY, OutcomeKind.OUT_OF_MEMORY, "4398046511104"),
        ((1, None), GPU_MEMORY, OutcomeKind.OUT_OF_MEMORY, "17179869184"),
        ((1, None), TPU_MEMORY, OutcomeKind.OUT_OF_MEMORY, "memory space hbm"),
        ((1, None), GPU_MEMORY + TRACEBACK, OutcomeKind.OUT_OF_MEMORY, "17179869184"),
        ((1, None), TRIED_KERNEL + TRACEBACK, OutcomeKind.ERROR, "no such dataset"),
        ((None, 6), TRIED_KERNEL, OutcomeKind.OUT_OF_MEMORY, "autotuner"),
        ((1, None), HOST_MEMORY, OutcomeKind.OUT_OF_MEMORY, "256. TiB"),
        ((137, None), SLURM_MEMORY, OutcomeKind.OUT_OF_MEMORY, "oom_kill"),
        ((1, None), DEBUG_NANS, OutcomeKind.NAN, "encountered in log"),
        ((1, None), "step 7 loss nan\nassert failed\n", OutcomeKind.NAN, "a printed loss is NaN"),
        ((0, None), "loss: 2.5\nloss: nan\n", OutcomeKind.NAN, "the last printed loss is NaN"),
        ((1, None), DISK, OutcomeKind.DISK_FULL, "No space left"),
        ((1, None), TRACEBACK, OutcomeKind.ERROR, "ValueError: no such dataset: 'c5'"),
        ((7, None), "", OutcomeKind.ERROR, "no output"),
        ((None, 9), "step 3\n", OutcomeKind.SIGNAL, "memory runs out"),
        ((None, 11), "Fatal Python error: Segmentation fault\n", OutcomeKind.SIGNAL, "Fatal"),
        ((143, None), "Terminated\n", OutcomeKind.SIGNAL, ""),
    ],
)
def test_the_kind_of_end(
    status: tuple[int | None, int | None], output: str, kind: OutcomeKind, detail: str
) -> None:
    outcome = classify(*status, output)
    assert (outcome.kind, outcome.exit_code) == (kind, status[0])
    assert detail in outcome.detail


@pytest.mark.parametrize(
    "output",
    [
        "RESOURCE_EXHAUSTED: autotuning tried a kernel that needs too much; skipped\n",
        "loss: nan\nloss: 2.5\n",  # a skipped update, mended by the next
        "the loss function is nancy\n",
        "glossary nan\n",
        "loss: 3.\n",
        UNKNOWN_FLAG,  # of a helper that the program asked and went on without
    ],
)
def test_a_program_that_ends_well_is_not_accused(output: str) -> None:
    assert classify(0, None, output).ok


@pytest.mark.parametrize(
    "line",
    [
        "loss: nan",
        "step 12: loss=nan lr=1e-4",
        "{'loss': 'nan', 'step': 9}",
        "completed step: 4, seconds: 0.1, TFLOP/s/device: 3.2, loss: nan",
        "train_loss nan",
        "Loss = -NaN",
    ],
)
def test_a_loss_that_is_nan_as_trainers_print_it(line: str) -> None:
    assert classify(0, None, f"loss: 1.5\n{line}\n").kind is OutcomeKind.NAN


@pytest.mark.parametrize(
    ("out", "err", "detail"),
    [
        ("step 7: loss 9.3000, time 0.0316\n", "", ""),
        ("step 7: loss 9.3000\n", "loading data\nno shards in /data\n", "no shards in /data"),
        ("saved\n", " 78%|###| 39/40 [00:02<00:00, 19it/s, loss=6.9]\r", ""),
        ("saved\n", "I step 7: loss 9.3\n", ""),
        ("ERROR: no GPU was found\nstep 7: loss 9.3\n", "", "ERROR: no GPU was found"),
        ("step 7: loss 9.3\n", f"{TRACEBACK}bye\n", "ValueError: no such dataset: 'c5'"),
        ("", "", "no output"),
    ],
)
def test_what_went_well_is_no_cause(out: str, err: str, detail: str) -> None:
    outcome = classify(3, None, out + err, err)
    assert (outcome.kind, outcome.detail) == (OutcomeKind.ERROR, detail)


def test_a_signal_tells_its_name_and_the_code_of_a_shell() -> None:
    outcome = classify(None, 11, "")
    assert (outcome.signal, outcome.status) == ("SIGSEGV", 139)
    assert classify(139, None, "").signal == "SIGSEGV"


def test_a_program_s_own_high_code_is_no_signal() -> None:
    outcome = classify(255, None, "")
    assert (outcome.kind, outcome.status) == (OutcomeKind.ERROR, 255)


def test_a_long_line_is_cut() -> None:
    assert len(classify(1, None, "x" * 5000).detail) < 400
