"""The document about the pages, held to its generator."""

from __future__ import annotations

from counterpoint.flags.catalogue.about import PageSetting, pages
from counterpoint.flags.catalogue.lookup import release
from web_flags import RELEASES, cells, web_flags_markdown

KNOWN = [release(version) for version in RELEASES]


def test_each_setting_of_each_page_has_one_row() -> None:
    rows = [line for line in web_flags_markdown().splitlines() if line.startswith("| `")]
    named = [f"`{advice.name}`" for page in pages() for advice in page.settings]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == named
    assert all(row.count(" | ") == 9 for row in rows)


def test_a_row_says_what_became_of_a_flag_and_of_its_value() -> None:
    old = PageSetting(
        name="xla_gpu_enable_pipelined_reduce_scatter", where="FSDP", values=("true",), says="false"
    )
    row = cells(old, KNOWN)
    assert row[2:7] == ("yes", "yes", "yes", "old name", "`xla_gpu_pipeline_reduce_scatter`")
    assert row[8] == "yes"
    level = PageSetting(name="xla_gpu_enable_command_buffer", where="CUDA graphs", values=("1",))
    assert cells(level, KNOWN)[8] == "aborts"
    wrong = PageSetting(
        name="xla_gpu_all_gather_combine_threshold_bytes", where="Flags", says="256"
    )
    assert cells(wrong, KNOWN)[7] == "`31457287`, not `256`"
    assert cells(level, KNOWN)[6] == "names such as `FUSION`, `CUBLAS`, `CUDNN`; or empty"


def test_an_old_name_has_the_default_of_the_flag_that_it_sets() -> None:
    old = PageSetting(name="xla_gpu_enable_pipelined_all_gather", where="FSDP", values=("true",))
    assert cells(old, KNOWN)[7] == "`DEFAULT` of `xla_gpu_pipeline_all_gather`"


def test_what_the_release_does_by_itself_is_not_to_be_written_instead() -> None:
    gone = PageSetting(name="xla_gpu_enable_custom_fusions", where="FSDP", values=("true",))
    assert cells(gone, KNOWN)[6].startswith("remove it: `xla_gpu_enable_dynamic_slice_fusion`")


def test_what_a_page_does_not_name_is_not_said_to_be_named_there() -> None:
    unnamed = [one for page in pages() for one in page.settings if not one.named]
    assert {one.name for one in unnamed} > {"net.ipv4.tcp_rmem", "tcp.rto_min"}
    for one in unnamed:
        given = cells(one, KNOWN)[1]
        assert given.startswith("TCP parameters without")
        assert one.source in given
