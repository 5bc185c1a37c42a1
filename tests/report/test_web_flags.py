"""The document about the pages, held to its generator."""

from __future__ import annotations

from counterpoint.flags.catalogue import release
from counterpoint.flags.others.page import Advice, pages
from counterpoint.report.web_flags import RELEASES, cells, web_flags_markdown

KNOWN = [release(version) for version in RELEASES]


def test_each_setting_of_each_page_has_one_row() -> None:
    rows = [line for line in web_flags_markdown().splitlines() if line.startswith("| `")]
    named = [f"`{advice.name}`" for page in pages() for advice in page.settings]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == named
    assert all(row.count(" | ") == 9 for row in rows)


def test_a_row_says_what_became_of_a_flag_and_of_its_value() -> None:
    old = Advice(
        name="xla_gpu_enable_pipelined_reduce_scatter", where="FSDP", values=("true",), says="false"
    )
    row = cells(old, KNOWN)
    assert row[2:7] == ("yes", "yes", "yes", "old name", "`xla_gpu_pipeline_reduce_scatter`")
    assert row[8] == "yes"
    level = Advice(name="xla_gpu_enable_command_buffer", where="CUDA graphs", values=("1",))
    assert cells(level, KNOWN)[8] == "refused"
    wrong = Advice(name="xla_gpu_all_gather_combine_threshold_bytes", where="Flags", says="256")
    assert cells(wrong, KNOWN)[7] == "`31457287`, not `256`"
