"""FLAG503, held to the readers: C's strtoll, and the JAX that is here."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import subprocess
import sys

import pytest

from counterpoint.flags.check.examination import check
from counterpoint.flags.lint import Remark
from counterpoint.flags.parse.source import read_source, read_text, read_variables
from counterpoint.flags.values import from_stream, strtoll

_JAX = """
import os, sys
for pair in sys.argv[1:]:
    if os.fork() == 0:
        name, _, value = pair.partition("=")
        os.environ[name] = value
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        import jax
        jax.devices()
        os._exit(0)
    print(os.waitpid(-1, 0)[1] == 0)
"""


def said(text: str) -> list[Remark]:
    name, _, value = text.partition("=")
    written = read_variables({name: value}, "environment")
    return [one for one in check(written, version="0.10.2") if one.code == "FLAG503"]


@pytest.mark.parametrize(
    "text",
    ["8m", "abc", "", "010", "09", "0x10", "0x", " -3 ", "+5", "1e9", "0b1", "9223372036854775807"],
)
def test_nccls_numbers_are_read_as_c_reads_them(text: str) -> None:
    libc = ctypes.CDLL(None)
    libc.strtoll.restype = ctypes.c_longlong
    assert strtoll(text) == libc.strtoll(text.encode(), None, 0)


def test_a_number_that_does_not_fit_has_no_value() -> None:
    assert strtoll("9223372036854775808") is None
    assert strtoll("9" * 9999) is None
    assert from_stream("9" * 9999) == 0


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("NCCL_BUFFSIZE=8m", "`8m` as 8"),
        ("NCCL_MAX_NCHANNELS=abc", "as 0"),
        ("NCCL_BUFFSIZE=010", "as 8"),
        ("NCCL_CROSS_NIC=5", "uses 5"),
        ("NCCL_NVLS_ENABLE=3", "driver"),
        ("NCCL_NTHREADS=99999999999999999999", "default"),
        ("NCCL_P2P_LEVEL=nvl", "default"),
        ("NCCL_LAUNCH_MODE=foo", "default"),
        ("TF_CPP_MIN_LOG_LEVEL=x", "as 0"),
        ("JAX_PGLE_AGGREGATION_PERCENTILE=150", "range"),
        ("JAX_PLATFORMS=neuron", "plugin"),
        ("CUDA_DEVICE_MAX_CONNECTIONS=64", "CUDA"),
    ],
)
def test_it_is_said_what_the_reader_makes_of_a_value(text: str, fact: str) -> None:
    (one,) = said(text)
    assert (one.severity, fact in one.message) == ("warning", True)


@pytest.mark.parametrize(
    "text",
    [
        "NCCL_BUFFSIZE=0x100000",
        "NCCL_P2P_LEVEL=NVL",
        "NCCL_P2P_LEVEL=5",
        "TF_CPP_MIN_LOG_LEVEL=5",
        "JAX_COMPILATION_CACHE_MAX_SIZE=1_000",
        "XLA_PYTHON_CLIENT_ABORT_COLLECTIVES_ON_FAILURE=5",
        "JAX_PLATFORMS=cuda,cpu",
        "JAX_PLATFORMS=proxy",  # Pathways
    ],
)
def test_what_its_reader_takes_is_not_spoken_of(text: str) -> None:
    assert not said(text)


@pytest.mark.system
def test_jax_ends_where_it_is_said_to_and_nowhere_else() -> None:
    if importlib.util.find_spec("jax") is None:
        pytest.skip("jax is not here")
    ends = (
        "JAX_PGLE_AGGREGATION_PERCENTILE=abc",
        "JAX_DEFAULT_MATMUL_PRECISION=tf32",
        "JAX_OPTIMIZATION_LEVEL=o1",
        "JAX_PLATFORMS=nvidia",
        "JAX_PLATFORMS=cpu,",
    )
    lives = (
        "JAX_PGLE_AGGREGATION_PERCENTILE=150",
        "JAX_COMPILATION_CACHE_MAX_SIZE=1_000",
        "JAX_DEFAULT_MATMUL_PRECISION=TF32_TF32_F32",
    )
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", _JAX, *ends, *lives],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["False"] * len(ends) + ["True"] * len(lives)
    assert all([one.severity for one in said(text)] == ["error"] for text in ends)
    assert all("error" not in [one.severity for one in said(text)] for text in lives)


def test_a_second_variable_in_a_value_is_pointed_at() -> None:
    line = "NCCL_IB_DISABLE=1 NCCL_DEBUG=TRACE"
    assert read_source(line).settings.variables == {"NCCL_IB_DISABLE": "1", "NCCL_DEBUG": "TRACE"}
    written = read_text(f"{line}\n", "job.env")
    (one,) = check(written, version="0.10.2")
    assert one.message == "the value is `1 NCCL_DEBUG=TRACE`, which NCCL reads as 1"
    assert one.advice == "write NCCL_DEBUG on a line of its own"


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        ("XLA_CLIENT_MEM_FRACTION=90", "write 0.9"),
        ("XLA_PYTHON_CLIENT_MEM_FRACTION=75", "write 0.75"),
        (
            "XLA_CLIENT_MEM_FRACTION=1.2",
            "write a fraction from 0 to 1, or add TF_FORCE_UNIFIED_MEMORY=1",
        ),
        ("XLA_CLIENT_MEM_FRACTION=4.0 TF_FORCE_UNIFIED_MEMORY=1", None),
        ("XLA_CLIENT_MEM_FRACTION=0.9", None),
    ],
)
def test_a_percentage_is_told_from_a_share_above_one(settings: str, advice: str | None) -> None:
    found = check(read_text(f"export {settings}\n", "a.sh"), version="0.10.2")
    told = [one.advice for one in found if one.code == "FLAG503"]
    assert told == ([] if advice is None else [advice])
