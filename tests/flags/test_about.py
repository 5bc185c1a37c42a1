"""What is written down of settings: complete, sourced, and about names that exist."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib import resources

import pytest

from counterpoint.flags.catalogue.about import (
    ReadingProgram,
    SettingDocumentation,
    SettingNote,
    all_documentation,
    documentation_of,
)
from counterpoint.flags.catalogue.libtpu import libtpu_flag
from counterpoint.flags.catalogue.lookup import release, releases
from counterpoint.flags.catalogue.variable import DocumentedSetting, arguments, variables
from counterpoint.flags.history import history
from counterpoint.flags.lifecycle import all_removals
from counterpoint.flags.recipe import recipes
from counterpoint.flags.versions import ChipFamily, version_number

WORKLOADS = {
    *("any", "fsdp", "dp", "tp", "pp", "moe", "single-node", "multi-node", "tpu-multislice"),
    *("inference", "small-kernels", "host-offload", "memory-bound", "compile-time"),
    *("debug", "pgle"),
}
ENTRIES = list(all_documentation().values())
OTHERS = {**variables(), **arguments()}

# Read from the flags of the process while a program runs (xla::GetDebugOptionsFromFlags in 0.10.2):
# a value in compiler_options is taken and has no effect. Those of the CPU have no text.
PROCESS_ONLY = {
    "xla_gpu_enable_nccl_comm_splitting",
    "xla_gpu_nccl_blocking_communicators",
    "xla_gpu_nccl_async_execution",
    "xla_gpu_nccl_terminate_on_error",
    "xla_gpu_nccl_termination_timeout_seconds",
    "xla_gpu_nccl_init_max_rank_per_root_ratio",
    "xla_gpu_experimental_enable_nvshmem",
    "xla_gpu_first_collective_call_warn_stuck_timeout_seconds",
    "xla_gpu_first_collective_call_terminate_timeout_seconds",
    "xla_cmd_buffer_trace_cache_size",
    "xla_gpu_require_exclusive_lock",
    "xla_gpu_temp_buffer_use_separate_color",
    "xla_gpu_execution_terminate_timeout",
    "xla_gpu_algorithm_denylist_path",
    "xla_force_host_platform_device_count",
}


def exists(name: str) -> bool:
    """Whether some release, or another program, knows it, or it is known to be gone."""
    return history(name) is not None or name in all_removals() or name in OTHERS


def exists_today(name: str) -> bool:
    today = release(releases()[-1])
    return name in today.flags or name in OTHERS


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_an_entry_is_complete_and_about_names_that_exist(entry: SettingDocumentation) -> None:
    for text in (entry.does, entry.trades, *(note.text for note in entry.notes)):
        assert text == text.strip()
        assert text.isprintable()
        assert text[-1] in ".?", text
    assert set(entry.workloads) <= WORKLOADS
    assert entry.workloads
    assert entry.sources
    assert all(url.startswith("https://") and " " not in url for url in entry.sources)
    assert exists(entry.name)
    assert all(exists_today(name) for name in entry.use), entry.use
    assert all(exists_today(name) for name in entry.needs), entry.needs
    assert entry.name not in (*entry.use, *entry.needs)
    for note in entry.notes:
        known = [version_number(version) for version in (note.since, note.until) if version]
        assert known == sorted(known)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_an_entry_names_the_reader_that_takes_the_name(entry: SettingDocumentation) -> None:
    other = OTHERS.get(entry.name)
    assert entry.kind is (other.reader if other else ReadingProgram.XLA)


def test_a_flag_that_is_gone_and_has_an_heir_says_so_in_both_places() -> None:
    for name, removed in all_removals().items():
        entry = documentation_of(name)
        if entry is not None and removed.use:
            assert entry.use == removed.use, name


def test_the_flags_that_a_process_reads_for_itself_are_marked() -> None:
    assert {entry.name for entry in ENTRIES if entry.process_only} == PROCESS_ONLY


def test_every_setting_of_every_recipe_has_a_text() -> None:
    untold = {
        line.name
        for recipe in recipes().values()
        for line in (*recipe.lines, *recipe.arguments, *recipe.kernel)
        if documentation_of(line.name) is None
        # libtpu documents no flag; what a recipe says of it is all there is.
        and not (libtpu_flag(line.name) and line.reason)
    }
    assert not untold


def test_a_single_entry_reads_as_its_whole_file_does() -> None:
    directory = resources.files("counterpoint.flags.catalogue").joinpath("about")
    count = 0
    for file in directory.iterdir():
        for name, table in tomllib.loads(file.read_text("utf-8")).items():
            entry = documentation_of(name)
            assert entry, name
            assert entry.theme == file.name.removesuffix(".toml")
            assert entry.does == table["does"]
            assert entry.sources == tuple(table["sources"])
            assert len(entry.notes) == len(table.get("notes", ()))
            count += 1
    assert count == len(ENTRIES)


def test_a_name_without_a_text_has_none() -> None:
    assert documentation_of("xla_gpu_shape_checks") is None
    assert documentation_of("[") is None


def test_looking_up_one_entry_loads_no_numpy_and_draws_nothing() -> None:
    code = (
        "import sys; from counterpoint.flags.catalogue.about import documentation_of;"
        "assert documentation_of('NCCL_PROTO');"
        "print(sorted({'numpy', 'polars', 'jax', 'rich'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("version", "chip", "holds"),
    [
        ("0.6.2", "H100", False),
        ("0.7.0", "H100", True),
        ("0.10.2", None, True),
        ("0.11.2", "H100", True),
        ("0.12.0", "H100", False),
        ("0.10.2", "NVIDIA A100-SXM4-40GB", False),
        ("0.10.2", "a chip of tomorrow", True),
        (None, "H100", False),
    ],
)
def test_a_note_holds_between_two_releases_and_on_its_chips(
    version: str | None, chip: str | None, holds: bool
) -> None:
    note = SettingNote(text="...", since="0.7", until="0.12", chips=(ChipFamily.HOPPER,))
    assert note.holds(version, chip) is holds


@pytest.mark.parametrize("variable", OTHERS.values(), ids=lambda variable: variable.name)
def test_a_variable_has_a_text_and_takes_its_own_default(variable: DocumentedSetting) -> None:
    assert documentation_of(variable.name)
    if variable.default is not None:
        assert variable.takes(variable.default)
        assert variable.is_default(variable.default)


def test_defaults_of_jax_are_those_of_the_release() -> None:
    today = release(releases()[-1])
    for variable in variables().values():
        if (
            variable.reader is ReadingProgram.JAX
            and variable.default
            and variable.name in today.jax
        ):
            assert variable.is_default(today.jax[variable.name]), variable.name


@pytest.mark.parametrize(
    ("name", "value", "taken", "is_default"),
    [
        ("NCCL_PROTO", "SIMPLE,LL,LL128", True, False),
        ("NCCL_PROTO", "^LL128", True, False),
        ("NCCL_ALGO", "ring;allreduce:tree,nvls", True, False),
        ("NCCL_PROTO", "fast", False, False),
        ("NCCL_PROTO", "", False, False),
        ("NCCL_LL_BUFFSIZE", "-2", True, True),
        ("NCCL_BUFFSIZE", "0x400000", True, True),
        ("NCCL_NVLS_ENABLE", "3", False, False),
        ("NCCL_NVLS_ENABLE", "2", True, True),
        ("NCCL_DEBUG", "info", True, False),
        ("NCCL_DEBUG", "LOUD", False, False),
        ("NCCL_CTA_POLICY", "EFFICIENCY|ZERO", True, False),
        ("CUDA_DEVICE_MAX_CONNECTIONS", "33", False, False),
        ("CUDA_DEVICE_MAX_CONNECTIONS", "8", True, True),
        ("JAX_ENABLE_PGLE", "yes", True, False),
        ("JAX_ENABLE_PGLE", "maybe", False, False),
        ("JAX_ENABLE_COMPILATION_CACHE", "on", True, True),
        ("JAX_OPTIMIZATION_LEVEL", "O1", True, False),
        ("JAX_OPTIMIZATION_LEVEL", "1", False, False),
        ("XLA_CLIENT_MEM_FRACTION", ".75", True, True),
        ("XLA_CLIENT_MEM_FRACTION", "90%", False, False),
        ("TF_CPP_VMODULE", "profile_guided_latency_estimator=10,gpu_hlo_schedule=5", True, False),
        ("TF_CPP_VMODULE", "profile_guided_latency_estimator", False, False),
        ("TF_CPP_MAX_LOG_LEVEL", "100", False, False),
    ],
)
def test_a_value_is_judged_as_its_reader_reads_it(
    name: str, value: str, taken: bool, is_default: bool
) -> None:
    variable = variables()[name]
    assert variable.takes(value) is taken
    assert variable.is_default(value) is is_default
