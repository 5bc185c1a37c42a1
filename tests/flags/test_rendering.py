"""Settings written in each form mean the same: to our readers, to bash, to Python, to YAML."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from counterpoint.core.errors import UsageError
from counterpoint.flags.catalogue.lookup import release
from counterpoint.flags.forms import SettingsForm, render
from counterpoint.flags.parse.source import read_text
from counterpoint.flags.settings import Channel, Layout, SettingDifference, Settings, difference
from counterpoint.flags.text import render_xla_flags

BASH = shutil.which("bash")
PIPELINING = "xla_gpu_experimental_pipeline_parallelism_opt_level"
READ_AS = {
    SettingsForm.ENV: "env",
    SettingsForm.BASH: "shell",
    SettingsForm.SLURM: "slurm",
    SettingsForm.PYTHON: "python",
    SettingsForm.K8S: "yaml",
}
HARD = Settings(
    (
        ("xla_a", ""),
        ("xla_b", "x y"),
        ("xla_c", "$HOME `id` $(id) \\ ' \" !"),
        ("xla_d", "'quoted'"),
        ("xla_e", "$(NAME) $$ $$(X)"),
        ("xla_f", "2  spaces "),
    ),
    (
        ("NCCL_A", "$HOME \"x\" 'y' \\ `z` #!"),
        ("NCCL_B", ""),
        ("NCCL_C", "$(NAME) $$"),
        ("MINE", " space at both ends "),
        ("LIBTPU_INIT_ARGS", "--xla_tpu_a=1 --xla_tpu_b='x y'"),
    ),
)

values = st.text(
    st.sampled_from("abc019 _-+=,.:/'\"\\$`(){}[]|&;<>#!*?~%@^")
    | st.characters(codec="utf-8", exclude_characters="\0\ufeff\N{OBJECT REPLACEMENT CHARACTER}"),
    max_size=12,
)
names = st.from_regex(r"xla_[a-z_]{1,6}", fullmatch=True)
variables = st.from_regex(r"(NCCL|JAX|MY)_[A-Z]{1,6}", fullmatch=True)
all_settings = st.builds(
    Settings,
    st.lists(st.tuples(names, values), max_size=4).map(tuple),
    st.dictionaries(variables, values, max_size=4).map(lambda it: tuple(it.items())),
)


def read_back(settings: Settings, form: SettingsForm) -> Settings:
    written = read_text(render(settings, form), "rendered", form=READ_AS[form])
    assert not written.issues
    return written.settings


@pytest.mark.parametrize("form", READ_AS)
def test_hard_values_are_read_back_as_they_were(form: SettingsForm) -> None:
    again = read_back(HARD, form)
    assert again.xla == HARD.xla
    assert again.variables == HARD.variables


@pytest.mark.parametrize("form", READ_AS)
@given(settings=all_settings)
def test_any_settings_are_read_back_as_they_were(form: SettingsForm, settings: Settings) -> None:
    try:
        again = read_back(settings, form)
    except UsageError as failure:
        assume(form is not SettingsForm.ENV)
        raise AssertionError from failure
    assert again.xla == settings.xla
    assert again.variables == settings.variables


@pytest.mark.parametrize("form", [SettingsForm.BASH, SettingsForm.SLURM])
@pytest.mark.skipif(BASH is None, reason="bash is not here")
def test_bash_exports_exactly_these_values(form: SettingsForm, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text(render(HARD, form))
    srun = tmp_path / "srun"
    srun.write_text('#!/bin/sh\nexec "$@"\n')
    srun.chmod(0o755)
    command = [str(BASH), "-c", f'. "{script}"; env -0'] if form is SettingsForm.BASH else [
        str(BASH), str(script), "env", "-0"]  # fmt: skip
    real = subprocess.run(
        command, capture_output=True, check=True, env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    ).stdout.decode()
    given = dict(entry.split("=", 1) for entry in real.split("\0") if "=" in entry)
    assert given["XLA_FLAGS"].split() == render_xla_flags(HARD.xla).split()
    assert {name: given[name] for name in HARD.variables} == HARD.variables


def test_python_sets_exactly_these_values() -> None:
    code = render(HARD, SettingsForm.PYTHON) + "import json; print(json.dumps(dict(os.environ)))"
    real = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    given = json.loads(real)
    assert given["XLA_FLAGS"] == render_xla_flags(HARD.xla)
    assert {name: given[name] for name in HARD.variables} == HARD.variables


def as_kubernetes_does(value: str) -> str:
    """Two dollars are one; a variable that is not set stays as it is written."""
    return re.sub(r"\$(\$|\([^)]*\))", lambda it: "$" if it[1] == "$" else "PUT IN", value)


def test_kubernetes_is_given_texts_in_which_it_puts_nothing() -> None:
    document = yaml.safe_load(render(HARD, SettingsForm.K8S))
    given = {it["name"]: it["value"] for it in document["env"]}
    assert all(isinstance(value, str) for value in given.values())
    put_in = {name: as_kubernetes_does(value) for name, value in given.items()}
    assert put_in == {**HARD.variables, "XLA_FLAGS": render_xla_flags(HARD.xla)}


def test_an_env_file_refuses_what_it_cannot_hold() -> None:
    for value in ("two\nlines", "'quoted'"):
        with pytest.raises(UsageError, match="an env file"):
            render(Settings(env=(("MINE", value),)), SettingsForm.ENV)


@pytest.mark.parametrize("form", SettingsForm)
def test_no_settings_are_a_text_too(form: SettingsForm) -> None:
    text = render(Settings(), form)
    assert text.endswith("\n")
    if form in READ_AS:
        assert read_back(Settings(), form) == Settings()


def test_a_form_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UsageError, match="k8s, compiler_options"):
        render(Settings(), "cobol")


@pytest.mark.parametrize(
    "layout",
    [
        Layout(hosts=4, processes_per_host=8, gpus_per_process=1, cpus_per_process=12),
        Layout(hosts=2, processes_per_host=1, gpus_per_process=8),
        Layout(gpus_per_process=1),
        Layout(hosts=1),
    ],
    ids=str,
)
def test_a_slurm_job_keeps_the_layout(layout: Layout) -> None:
    assert read_back(Settings(layout=layout), SettingsForm.SLURM).layout == layout


def test_other_forms_say_the_layout_and_the_compiler_options_in_a_comment() -> None:
    settings = Settings(options=(("xla_a", "True"),), layout=Layout(hosts=2, processes_per_host=8))
    text = render(settings, SettingsForm.BASH)
    assert "#   xla_a=True" in text
    assert "2 hosts, 8 processes" in text


def options(settings: Settings, version: str) -> dict[str, Any]:
    """The dict, as Python reads it."""
    text = render(settings, SettingsForm.COMPILER_OPTIONS, release(version))
    found: dict[str, Any] = ast.literal_eval(text.split("compiler_options = ")[1])
    return found


def test_compiler_options_have_the_types_that_jax_passes_on() -> None:
    settings = Settings(
        (
            ("xla_gpu_enable_triton_gemm", "false"),
            ("xla_gpu_enable_latency_hiding_scheduler", "1"),
            ("xla_gpu_all_reduce_combine_threshold_bytes", "1073741824"),
            ("xla_gpu_disable_async_collectives", "allreduce,AllGather"),
            (PIPELINING, "PIPELINE_PARALLELISM_OPT_LEVEL_ENABLE"),
            ("xla_disable_hlo_passes", "a"),
            ("xla_disable_hlo_passes", "b"),
            ("xla_gpu_auto_spmd_partitioning_memory_budget_ratio", "1.5"),
        ),
        options=(("optimization_level", "19"), ("xla_gpu_enable_triton_gemm", "True")),
    )
    assert options(settings, "0.10.2") == {
        "xla_gpu_enable_triton_gemm": True,
        "xla_gpu_enable_latency_hiding_scheduler": True,
        "xla_gpu_all_reduce_combine_threshold_bytes": 1073741824,
        "xla_gpu_disable_async_collectives": "ALLREDUCE,ALLGATHER",
        PIPELINING: "PIPELINE_PARALLELISM_OPT_LEVEL_ENABLE",
        "xla_disable_hlo_passes": "a,b",
        "xla_gpu_auto_spmd_partitioning_memory_budget_ratio": 1.5,
        "optimization_level": 19,
    }


def test_changes_of_a_list_become_the_list() -> None:
    settings = Settings((("xla_gpu_enable_command_buffer", "-FUSION"),))
    (value,) = options(settings, "0.10.2").values()
    default = release("0.10.2").flags["xla_gpu_enable_command_buffer"].default
    assert set(value.split(",")) == set(default.upper().split(",")) - {"FUSION"}


def test_what_no_compile_takes_is_left_out_with_its_reason() -> None:
    settings = Settings(
        (
            ("xla_gpu_enable_cudnn_fmha", "true"),
            ("xla_gpu_enable_nccl_comm_splitting", "false"),
            ("xla_gpu_enable_custom_fusions", "true"),
            ("xla_fuel", "1"),
        ),
        (("NCCL_DEBUG", "INFO"),),
    )
    text = render(settings, SettingsForm.COMPILER_OPTIONS, release("0.10.2"))
    assert "compiler_options = {}" in text
    assert "#   xla_fuel=1: only XLA_FLAGS accepts it" in text
    assert "#   xla_gpu_enable_nccl_comm_splitting=false: " in text
    assert "#   xla_gpu_enable_custom_fusions=true: jaxlib 0.10.2 " in text
    assert "#   NCCL_DEBUG=INFO: " in text


def test_an_alias_that_only_xla_flags_has_becomes_the_option_behind_it() -> None:
    settings = Settings((("xla_gpu_enable_pipelined_all_gather", "true"),))
    assert options(settings, "0.10.2") == {"xla_gpu_enable_pipelined_all_gather": True}
    assert options(settings, "0.12.0.1") == {
        "xla_gpu_pipeline_all_gather": "COLLECTIVE_PIPELINING_MODE_ON"
    }


def test_a_written_dict_of_compiler_options_is_read_as_such() -> None:
    settings = Settings((("xla_gpu_enable_triton_gemm", "false"),))
    text = render(settings, SettingsForm.COMPILER_OPTIONS, release("0.10.2"))
    (one,) = read_text(text, "options.py").given
    assert (one.channel, one.name, one.value) == (
        Channel.COMPILER_OPTIONS,
        "xla_gpu_enable_triton_gemm",
        "False",
    )


def test_two_settings_differ_in_what_was_added_removed_and_changed() -> None:
    before = Settings((("xla_a", "1"), ("xla_b", "2"), ("xla_b", "3")), (("K", "x"),))
    after = Settings((("xla_b", "4"), ("xla_c", "5")), (("K", "x"),), (("xla_d", "True"),))
    assert difference(before, after) == (
        SettingDifference(Channel.XLA_FLAGS, "xla_a", "1", None),
        SettingDifference(Channel.XLA_FLAGS, "xla_b", "3", "4"),
        SettingDifference(Channel.XLA_FLAGS, "xla_c", None, "5"),
        SettingDifference(Channel.COMPILER_OPTIONS, "xla_d", None, "True"),
    )
    assert difference(before, before) == ()


def test_published_settings_survive_every_form(shared: Path) -> None:
    published = json.loads((shared / "data/flags/recipes.json").read_text())
    for recipe in published:
        settings = Settings(tuple(recipe["flags"].items()))
        for form in READ_AS:
            assert read_back(settings, form).xla == settings.xla, (recipe["source"], form)
