"""Compiler options are known by what they look like, and comments set nothing."""

from __future__ import annotations

import pytest

from counterpoint.flags.parse.source import read_text
from counterpoint.flags.settings import Channel

OURS = """# For jaxlib 0.10.2: jax.jit(step, compiler_options=compiler_options)
compiler_options = {
    "xla_gpu_enable_triton_gemm": False,
}
# network: tell it yours with --xla_gpu_analytical_latency_estimator_options=nic_speed_gbps=...
"""


@pytest.mark.parametrize(
    "text",
    [
        OURS,
        OURS.replace("compiler_options = {", "compiler_options: dict[str, bool] = {"),
        OURS.partition("\n")[2],
    ],
    ids=["ours", "typed", "without-head"],
)
def test_compiler_options_are_known_without_the_name_of_a_file(text: str) -> None:
    found = read_text(text, "stdin")
    assert found.form == "python"
    assert [(one.channel, one.name) for one in found.given] == [
        (Channel.COMPILER_OPTIONS, "xla_gpu_enable_triton_gemm")
    ]


@pytest.mark.parametrize("form", ["compiler_options", "bash", "k8s"])
def test_a_form_that_can_be_written_can_be_named_to_be_read(form: str) -> None:
    text = {
        "compiler_options": OURS,
        "bash": 'export XLA_FLAGS="--xla_gpu_enable_triton_gemm=false"\n',
        "k8s": "- name: XLA_FLAGS\n  value: --xla_gpu_enable_triton_gemm=false\n",
    }[form]
    found = read_text(text, "stdin", form=form)
    assert [one.name for one in found.given] == ["xla_gpu_enable_triton_gemm"]


def test_what_a_comment_talks_of_is_not_set() -> None:
    found = read_text("We say\n# try --xla_gpu_enable_triton_gemm=false\nin vain.\n", "notes")
    assert not found.given
