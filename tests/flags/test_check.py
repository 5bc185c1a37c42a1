"""What `check` says about settings: the right code, at the right place, with the right fix."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from counterpoint.core.errors import CounterpointError
from counterpoint.flags.catalogue.lookup import release
from counterpoint.flags.check.examination import check
from counterpoint.flags.check.fix import fix
from counterpoint.flags.jaxlib import find_interpreter
from counterpoint.flags.lint import Remark, Severity
from counterpoint.flags.named_files import ANYWHERE
from counterpoint.flags.parse.form import FORMS
from counterpoint.flags.parse.source import read_text
from counterpoint.flags.parsed import Location, Occurrence, ParsedSource
from counterpoint.flags.settings import Channel, Settings
from counterpoint.flags.text import render_xla_flags

Parser = Callable[[str], "dict[int, tuple[int | bytes, ...]] | None"]
NAMES_AND_VALUES = ("FLAG1", "FLAG2")


def remarks_on(text: str, version: str = "0.10.2", chip: str | None = None) -> list[Remark]:
    """What rules on names and values say of flags, or of a script."""
    form = "flags" if text.startswith("-") else "shell"
    written = read_text(text, "job.sh", form=form, reach=ANYWHERE)
    found = check(written, version=version, chip=chip)
    return [one for one in found if one.code.startswith(NAMES_AND_VALUES)]


def codes(text: str, version: str = "0.10.2", chip: str | None = None) -> list[str]:
    return [one.code for one in remarks_on(text, version, chip)]


@pytest.mark.parametrize(
    ("text", "version", "code"),
    [
        ("--xla_gpu_enable_asink=true", "0.10.2", "FLAG101"),
        ("--xla-dump-to=/tmp", "0.10.2", "FLAG101"),
        ("--xla_gpu_graph_level=0", "0.7.2", "FLAG102"),
        ("--xla_gpu_enable_pipelined_collectives=true", "0.10.2", "FLAG102"),
        ("--xla_gpu_cudnn_gemm_fusion=true", "0.10.2", "FLAG102"),
        ("--xla_cpu_use_mkl_dnn=true", "0.10.2", "FLAG103"),
        ("--xla_gpu_pipeline_all_gather=on", "0.10.2", "FLAG104"),
        ("--xla_gpu_enable_pipelined_all_gather=true", "0.12.0", "FLAG105"),
        ("--xla_gpu_enable_cudnn_fmha=true", "0.10.2", "FLAG106"),
        ("--xla_tpu_scoped_vmem_limit_kib=65536", "0.10.2", "FLAG107"),
        ("--megascale_grpc_premap_memory_bytes=1", "0.10.2", "FLAG107"),
        ("--tf_xla_auto_jit=2", "0.10.2", "FLAG107"),
        ("--jax_enable_pgle=true", "0.10.2", "FLAG107"),
        ("--NCCL_DEBUG=INFO", "0.10.2", "FLAG107"),
        ("export LIBTPU_INIT_ARGS=--xla_gpu_autotune_level=4", "0.10.2", "FLAG107"),
        ("export LIBTPU_INIT_ARGS=--xla_tpu_scoped_vmem_limit=65536", "0.10.2", "FLAG112"),
        ("export LIBTPU_INIT_ARGS=--xla_tpu_scoped_vmem_limit_kib=64k", "0.10.2", "FLAG112"),
        ("export LIBTPU_INIT_ARGS=--xla_enable_async_all_gather=maybe", "0.10.2", "FLAG112"),
        ("--exec_time_optimization_effort=1", "0.10.2", "FLAG110"),
        ("--xla_gpu_enable_triton_gemm=yes", "0.10.2", "FLAG201"),
        ("--xla_gpu_autotune_level", "0.10.2", "FLAG201"),
        ("--xla_gpu_enable_command_buffer=1", "0.10.2", "FLAG202"),
        ("--xla_gpu_disable_async_collectives=", "0.10.2", "FLAG202"),
        ("--xla_gpu_enable_libnvptxcompiler=true", "0.10.2", "FLAG203"),
        ("--xla_gpu_override_gemm_autotuner=abc", "0.10.2", "FLAG203"),
        ("--xla_gpu_enable_analytical_latency_estimator=true", "0.11.0", "FLAG203"),
        ("--xla_gpu_autotune_level=4;", "0.10.2", "FLAG204"),
        ('''--xla_gpu_autotune_level="'4'"''', "0.10.2", "FLAG204"),
        ('''--xla_dump_to="'/tmp'"''', "0.10.2", "FLAG204"),
        ("--xla_dump_to=/a --xla_dump_to=/b", "0.10.2", "FLAG205"),
        ("--xla_dump_to = /a", "0.10.2", "FLAG206"),
        ("-xla_dump_to=/a", "0.10.2", "FLAG207"),
        ("export XLA_FLAGS=--xla_dump_to=$HOST", "0.10.2", "FLAG208"),
    ],
)
def test_a_fault_has_its_code(text: str, version: str, code: str) -> None:
    assert code in codes(text, version)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("--xla_gpu_pipeline_all_gather=on", "0.12.0"),
        ("--xla_gpu_enable_pipelined_all_gather=true", "0.10.2"),
        ("--xla_gpu_enable_custom_fusions=true", "0.6.2"),
        ("--xla_gpu_detect_nan=warning --xla_gpu_enable_command_buffer=", "0.10.2"),
        ("--xla_gpu_enable_command_buffer=+COLLECTIVES,-FUSION", "0.10.2"),
        ("--xla_gpu_disable_async_collectives=allreduce,allgather", "0.10.2"),
        ("--xla_gpu_enable_triton_gemm --xla_gpu_autotune_level=' 4'", "0.10.2"),
        ("--xla_dump_to='/a b' --xla_dump_hlo_pass_re=.*", "0.10.2"),
        ("export LIBTPU_INIT_ARGS=--xla_tpu_scoped_vmem_limit_kib=65536", "0.10.2"),
        ("export LIBTPU_INIT_ARGS=--xla_enable_async_all_gather=ENABLED", "0.10.2"),
        ("export LIBTPU_INIT_ARGS=--2a886c8_chip_config_name=megachip_tccontrol", "0.10.2"),
        ("", "0.10.2"),
    ],
)
def test_what_a_release_takes_is_not_spoken_of(text: str, version: str) -> None:
    assert codes(text, version) == []


@pytest.mark.parametrize(
    ("flags", "chip", "said"),
    [
        ("--xla_tpu_scoped_vmem_limit=1", None, "libtpu"),
        ("--xla_tpu_enable_async_collective_fusion_fuse_all_gather=true", "TPU v5p", "refuses"),
        ("--xla_tpu_enable_async_collective_fusion_fuse_all_gather=true", "TPU v6e", "refuses"),
        (
            "--xla_tpu_enable_latency_hiding_layer_scheduler=true",
            None,
            "core_collective_aggregator",
        ),
    ],
)
def test_what_libtpu_refuses_is_said_with_the_reason(
    flags: str, chip: str | None, said: str
) -> None:
    (found,) = remarks_on(f"export LIBTPU_INIT_ARGS={flags}", "0.12.0", chip)
    assert found.code == "FLAG112"
    assert said in found.message


def test_what_one_generation_refuses_is_not_said_of_others() -> None:
    flag = "--xla_tpu_enable_async_collective_fusion_fuse_all_gather=true"
    assert codes(f"export LIBTPU_INIT_ARGS={flag}", "0.12.0", "TPU v5e") == []


@pytest.mark.parametrize(
    ("name", "chip", "expected"),
    [
        ("xla_tpu_enable_async_collective_fusion", "TPU v5e", []),
        ("xla_tpu_enable_async_collective_fusion", None, []),
        ("xla_tpu_enable_async_collective_fusion", "H100", ["FLAG107"]),
        ("xla_tpu_impure_dump_critical_path", "TPU v5e", ["FLAG112"]),
    ],
)
def test_a_compile_option_of_libtpu_is_for_tpus(
    name: str, chip: str | None, expected: list[str]
) -> None:
    text = f'import jax\nstep = jax.jit(f, compiler_options={{"{name}": True}})\n'
    written = read_text(text, "train.py", form="python", reach=ANYWHERE)
    found = [one.code for one in check(written, version="0.12.0", chip=chip)]
    assert [code for code in found if code.startswith(NAMES_AND_VALUES)] == expected


def test_a_remark_stands_at_the_line_of_its_flag() -> None:
    text = 'export XLA_FLAGS="--xla_gpu_enable_triton_gemm=false \\\n  --xla_gpu_graph_level=0"\n'
    (found,) = remarks_on(text)
    assert (found.place, found.text) == (Location("job.sh", 2), "--xla_gpu_graph_level=0")


def test_flags_for_another_kind_of_chip_are_noted() -> None:
    text = "--xla_cpu_enable_fast_math=true"
    assert codes(text) == []
    (found,) = remarks_on(text, chip="H100")
    assert (found.code, found.severity) == ("FLAG107", Severity.NOTE)


def options(**values: str) -> ParsedSource:
    """Compiler options as a program gives them."""
    place = Location("train.py", 3)
    given = tuple(
        Occurrence(
            channel=Channel.COMPILER_OPTIONS, name=name, value=value, place=place, text=f"{name!r}"
        )
        for name, value in values.items()
    )
    return ParsedSource(where="train.py", form="python", given=given)


@pytest.mark.parametrize(
    ("name", "value", "version", "code"),
    [
        ("xla_fuel", "x=1", "0.10.2", "FLAG108"),
        ("xla_gpu_enable_pipelined_all_gather", "True", "0.12.0", "FLAG108"),
        ("xla_gpu_nccl_terminate_on_error", "True", "0.10.2", "FLAG109"),
        ("xla_gpu_enable_triton_gemm", "true", "0.10.2", "FLAG201"),
        ("optimization_level", "O1", "0.10.2", "FLAG201"),
        ("xla_gpu_detect_nan", "warning", "0.10.2", "FLAG202"),
        ("xla_no_such", "1", "0.10.2", "FLAG101"),
    ],
)
def test_compiler_options_are_another_channel(
    name: str, value: str, version: str, code: str
) -> None:
    assert code in [one.code for one in check(options(**{name: value}), version=version)]


def test_a_compiler_option_sets_what_its_flag_no_longer_does() -> None:
    """XLA's parser of flags throws this one away; as an option it changes what is compiled."""
    assert not check(options(xla_cpu_enable_fast_min_max="True"), version="0.10.2")
    assert codes("--xla_cpu_enable_fast_min_max=true") == ["FLAG106"]


def test_what_a_compile_takes_is_not_spoken_of() -> None:
    good = options(
        xla_gpu_enable_triton_gemm="False",
        optimization_level="19",
        xla_gpu_detect_nan="DETECTION_MODE_WARNING",
        xla_gpu_disable_async_collectives="ALLREDUCE,1",
    )
    found = check(good, version="0.10.2")
    assert [one for one in found if one.code.startswith(NAMES_AND_VALUES)] == []


def fixed(text: str, version: str = "0.10.2") -> Settings:
    """What is left of flags when all safe mends are made."""
    done = fix(text, lambda it: read_text(it, "flags"), lambda it: check(it, version=version))
    return done.written.settings


@pytest.mark.parametrize(
    ("text", "version", "expected"),
    [
        ("--xla_gpu_graph_level=0", "0.10.2", "--xla_gpu_enable_command_buffer="),
        (
            "--xla_gpu_enable_async_all_gather=false --xla_gpu_enable_async_all_reduce=false",
            "0.10.2",
            "--xla_gpu_disable_async_collectives=ALLGATHER,ALLREDUCE",
        ),
        ("--xla_gpu_enable_async_all_gather=true", "0.10.2", ""),
        (
            "--xla_gpu_pipeline_all_gather=on",
            "0.10.2",
            "--xla_gpu_enable_pipelined_all_gather=true",
        ),
        ("--xla_gpu_enable_pipelined_all_gather=1", "0.12.0", "--xla_gpu_pipeline_all_gather=on"),
        (
            "--xla_gpu_enable_pipelined_all_gather=0",
            "0.12.0",
            "--xla_gpu_enable_pipelined_all_gather=0",
        ),
        (
            "--xla_gpu_autotune_level=3, --xla_gpu_enable_triton_gemm=no",
            "0.10.2",
            "--xla_gpu_autotune_level=3 --xla_gpu_enable_triton_gemm=false",
        ),
        ("--xla_dump_to=/a --xla_dump_to=/b", "0.10.2", "--xla_dump_to=/b"),
        ("--xla_no_such_thing=1 --xla_dump_to=/b", "0.10.2", "--xla_dump_to=/b"),
    ],
)
def test_safe_mends_are_made(text: str, version: str, expected: str) -> None:
    assert render_xla_flags(fixed(text, version).xla) == expected


def test_gigabytes_are_told_in_bytes_and_not_written_unasked() -> None:
    name = "xla_gpu_all_reduce_combine_threshold_bytes"
    (remark,) = remarks_on(f"--{name}=8GB")
    assert remark.advice == f"write --{name}=8589934592 (8 GiB)"
    assert remark.fix
    assert not remark.fix.safe


@pytest.mark.parametrize("version", ["0.6.2", "0.10.2"])
def test_a_name_from_before_the_tables_has_its_heir(version: str) -> None:
    (remark,) = remarks_on("--xla_gpu_cuda_graph_level=0", version)
    assert remark.advice == "write --xla_gpu_enable_command_buffer="
    assert remark.code == "FLAG102"
    (unknown,) = remarks_on("--xla_gpu_nope_nope=0", version)
    assert unknown.code == "FLAG101"


@pytest.mark.parametrize("value", ["$J", '"$J"', "$(printf x)", "'${{ inputs.x }}'", "'<number>'"])
@pytest.mark.parametrize("name", ["JAX_ENABLE_X64", "NCCL_PROTO", "XLA_CLIENT_MEM_FRACTION"])
def test_a_value_that_nobody_knows_yet_is_not_judged(name: str, value: str) -> None:
    found = check(read_text(f"export {name}={value}\n", "job.sh"), version="0.10.2")
    assert "FLAG503" not in [one.code for one in found]


def test_of_a_word_in_libtpus_flags_no_more_is_said_than_is_known() -> None:
    script = 'export LIBTPU_INIT_ARGS="TPU_MEGACORE=MEGACORE_DENSE --xla_tpu_x=true"\n'
    (remark,) = [one for one in remarks_on(script) if one.code == "FLAG206"]
    assert remark.severity is Severity.WARNING
    assert "XLA stops" not in remark.message
    assert "--TPU_MEGACORE" not in remark.advice


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("-v", "remove it"),
        ("-xla_dump_to=/a", "write --xla_dump_to=/a"),
        ("--", "remove it"),
    ],
)
def test_dashes_make_no_flag_of_what_is_none(text: str, advice: str) -> None:
    assert [one.advice for one in remarks_on(text)] == [advice]


def test_a_flag_in_quotes_is_told_to_lose_them() -> None:
    written = read_text("""export XLA_FLAGS="'--xla_gpu_autotune_level=4'"\n""", "job.sh")
    advice = [one.advice for one in check(written, version="0.10.2") if one.code == "FLAG206"]
    assert ["quotes" in it for it in advice] == [True]


def test_a_flag_that_does_nothing_is_not_called_default_too() -> None:
    found = check(
        read_text("--xla_gpu_enable_cudnn_fmha=false", "x", form="flags"), version="0.10.2"
    )
    assert [one.code for one in found] == ["FLAG106"]


def test_a_guess_is_no_safe_mend() -> None:
    assert fixed("--xla_gpu_enable_tritton_gemm=false").flags == {
        "xla_gpu_enable_tritton_gemm": "false"
    }
    assert fixed("--xla-gpu-enable-triton-gemm=false").flags == {
        "xla_gpu_enable_triton_gemm": "false"
    }


words = st.one_of(
    st.sampled_from(sorted(release("0.10.2").flags)).map(lambda name: f"--{name}"),
    st.sampled_from(
        ["export XLA_FLAGS=", "XLA_FLAGS+=", "=", "'", '"', "\\\n", "\n", " ", "$X", ",", "#"]
    ),
    st.sampled_from(
        ["true", "1", "/etc", "--", "-", "os.environ['XLA_FLAGS'] = ", "NCCL_DEBUG=INFO"]
    ),
    st.text(max_size=5),
)


@given(st.lists(words, max_size=8).map("".join), st.sampled_from([None, *FORMS]))
@example("export XLA_FLAGS='--xla_gpu_autotune_level=" + "9" * 5000 + "'", None)
@example("--xla_dump_to=" + "/x" * 5000, None)
def test_any_text_is_checked_or_refused_with_a_reason(text: str, form: str | None) -> None:
    try:
        written = read_text(text, "stdin", form=form)
    except CounterpointError:
        return
    for one in check(written, version="0.10.2", chip="H100", profiling=True):
        assert one.message
        assert one.advice
    done = fix(
        text,
        lambda it: read_text(it, "stdin", form=form),
        lambda it: check(it, version="0.10.2"),
    )
    assert len(done.text) <= len(text) + 100 * len(done.made)


INSTALLED = find_interpreter(None)
HERE = release(INSTALLED.jaxlib if INSTALLED else None)
UNTOLD = {
    "xla_fuel",
    "xla_gpu_device_execution_terminate_timeout",
    "xla_gpu_execution_terminate_timeout",
    "xla_gpu_experimental_thunk_buffer_debug_filter_by_thunk_id_ranges",
}
names = st.one_of(
    st.sampled_from(sorted(set(HERE.flags) - UNTOLD)),
    st.sampled_from(
        ["xla_gpu_graph_level", "xla_tpu_x", "optimization_level", "xla_nope", "NCCL_PROTO"]
    ),
)
values = st.sampled_from(
    ["true", "false", "1", "4,", "'4'", "-1", "", "4.5", "ALLREDUCE", "off", "x"]
)
AT_THE_COMPILE = "FLAG203"
"""The parser takes such a value; the compile ends at it."""


@given(st.lists(st.tuples(names, values), min_size=1, max_size=4))
def test_errors_are_said_where_the_compilers_parser_ends_the_process(
    xla: Parser, pairs: list[tuple[str, str]]
) -> None:
    text = render_xla_flags(pairs)
    found = check(read_text(text, "stdin", form="flags"), version=HERE.asked)
    said = [one for one in found if one.code.startswith(NAMES_AND_VALUES)]
    errors = {one.code for one in said if one.severity is Severity.ERROR}
    taken = xla(text) is not None
    assert taken == (not errors - {AT_THE_COMPILE}) or errors == {AT_THE_COMPILE}, (text, errors)


@pytest.mark.parametrize(
    ("more", "version", "chip", "ends"),
    [
        ("", "0.11.0", "H100", True),
        ("", "0.12.0.1", None, True),
        ("", "0.10.2", "H100", False),
        ("", "0.12.0", "A100", False),
        ("--xla_gpu_enable_latency_hiding_scheduler=true", "0.12.0", "A100", True),
        ("--xla_gpu_enable_latency_hiding_scheduler=false", "0.12.0", "H100", False),
        ("--xla_gpu_enable_latency_hiding_scheduler=false", "0.11.0", "H100", True),
    ],
)
def test_a_value_may_end_the_compile_of_some_releases_where_the_scheduler_runs(
    more: str, version: str, chip: str | None, ends: bool
) -> None:
    text = f"--xla_gpu_enable_analytical_latency_estimator=true {more}"
    assert (AT_THE_COMPILE in codes(text, version, chip)) is ends


def test_a_directory_that_a_file_stands_in_the_way_of_is_named(tmp_path: Path) -> None:
    (tmp_path / "dump").write_text("")
    assert codes(f"--xla_dump_to={tmp_path}/dump") == ["FLAG209"]
    assert codes(f"--xla_dump_to={tmp_path}/new") == []
