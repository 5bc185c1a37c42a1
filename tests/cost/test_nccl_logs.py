# ruff: noqa: E501  logs as they are printed
"""Logs of nccl-tests as clusters print them: versions, launchers, parts that were cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpoint.core.errors import InputError
from counterpoint.cost.tables import read_nccl_log
from counterpoint.cost.tables.nccl_tests import parse_nccl_log

START = (
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20"
    " agg iters: 1 validation: 1 graph: 0\n#\n# Using devices\n"
)
COLUMNS = """\
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""
REDUCED = """\
           8             2     float     sum      -1    36.47    0.00    0.00      0    34.74    0.00    0.00      0
     1048576        262144     float     sum      -1    85.58   12.25   22.97      0    84.50   12.41   23.27      0
  1073741824     268435456     float     sum      -1   9187.8  116.87  219.12      0   9073.4  118.34  221.89      0
  8589934592    2147483648     float     sum      -1    67689  126.90  237.94      0    67811  126.68  237.52      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 66.4834
#
"""
GATHERED = """\
     1048576         65536     float    none      -1    52.94   19.81   14.85      0    53.47   19.61   14.71    N/A
    67108864       4194304     float    none      -1   1040.0   64.53   48.40    N/A   1037.1   64.71   48.53      0
"""


def ranks(count: int, hosts: int, chip: str = "NVIDIA H100 80GB HBM3") -> str:
    each = count // hosts
    return "".join(
        f"#  Rank {rank:2} Group  0 Pid  1{rank:03} on      node-{rank // each} device"
        f"  {rank % each} [0000:{rank % each}b:00] {chip}\n"
        for rank in range(count)
    )


LOG = START + ranks(16, 2) + COLUMNS + REDUCED


def test_a_log_tells_operation_ranks_hosts_and_times(tmp_path: Path) -> None:
    path = tmp_path / "all_reduce.log"
    path.write_text(LOG)
    (table,) = read_nccl_log(path)
    assert (table.kind, table.ranks, table.nodes) == ("all-reduce", 16, 2)
    assert table.device == "NVIDIA H100 80GB HBM3"
    assert table.origin == "all_reduce.log"
    assert table.seconds == pytest.approx(
        {8: 36.47e-6, 1 << 20: 85.58e-6, 1 << 30: 9187.8e-6, 8 << 30: 67689e-6}
    )


@pytest.mark.parametrize(
    "prefix",
    ["[1,0]<stdout>:", "0: ", " 0: ", "2025-06-01T10:00:00.123Z ", "node-0: ", "\t"],
    ids=["mpirun", "srun", "srun-wide", "kubectl", "pdsh", "indented"],
)
def test_what_a_launcher_puts_before_every_line_is_skipped(prefix: str) -> None:
    text = "".join(prefix + line for line in LOG.splitlines(keepends=True))
    (table,) = parse_nccl_log(text, "all_reduce.log")
    assert (table.ranks, table.nodes, len(table.seconds)) == (16, 2, 4)


def test_lines_of_other_programs_between_results_are_skipped() -> None:
    noise = (
        "vm-38:33958:34012 [1] NCCL INFO NCCL_IB_TC set by environment to 160.\n"
        "[host:02943] 15 more processes have sent help message help-mca-var.txt\n"
        "AMEM [INFO] amem_nccl.cpp:335 groupID:170 pid:197779 GPU:1 memUsed: 4048 MB\n"
    )
    text = "".join(line + noise for line in LOG.splitlines(keepends=True))
    assert parse_nccl_log(text, "all_reduce.log") == parse_nccl_log(LOG, "all_reduce.log")


@pytest.mark.parametrize(
    ("text", "kind", "count", "nodes"),
    [
        ("$ ./build/all_gather_perf -b 1M -g 4\n" + GATHERED, "all-gather", 4, 0),
        ("# Collective test starting: alltoall_perf\n" + GATHERED, "all-to-all", 4, 0),
        ("# Collective test starting: all_reduce_perf_mpi\n" + LOG, "all-reduce", 16, 2),
        ("/gib/run_nccl_tests.sh -t all_gather -b 1K a-0.a\n" + GATHERED, "all-gather", 4, 0),
        ("nThread 1 nGpus 1 minBytes 8\n" + REDUCED, "all-reduce", 16, 0),
        (REDUCED, "all-reduce", 16, 0),
        (START + "[green]rccl-tests[/green]: Version develop:5b27b96\n"
         + ranks(16, 2, "AMD Instinct MI300X") + REDUCED, "all-reduce", 16, 2),
        ("  1073741824  268435456  float  sum  9187.8  116.87  219.12  1e-07  9073.4  118.34  221.89  1e-07", "all-reduce", 16, 0),
        ("   1073741824  268435456  float  sum  -1  9187.8  116.87  219.12  0", "all-reduce", 16, 0),
        (" 33554432 2097152 bfloat16 sum -1 291.5 115.1 107.9 0", "reduce-scatter", 16, 0),
    ],
    ids=[
        "command", "starting", "mpi-build", "wrapper", "no-hash", "no-header", "rccl", "old", "one-half", "by-ratio",
    ],
)  # fmt: skip
def test_versions_and_cut_headers_are_understood(
    text: str, kind: str, count: int, nodes: int
) -> None:
    (table,) = parse_nccl_log(text, "log.txt")
    assert (table.kind, table.ranks, table.nodes) == (kind, count, nodes)


def test_the_name_of_the_file_tells_what_its_text_does_not() -> None:
    (table,) = parse_nccl_log(START + ranks(4, 1) + GATHERED, "h100-AllGather-4.txt")
    assert (table.kind, table.ranks, table.nodes) == ("all-gather", 4, 1)
    with pytest.raises(InputError) as told:
        parse_nccl_log(START + ranks(4, 1) + GATHERED, "log.txt")
    assert "which operation" in told.value.what


def test_several_tests_in_one_log_are_several_tables() -> None:
    text = f"all_reduce_perf -g 8\n{LOG}all_gather_perf -g 1\n{START}{ranks(4, 2)}{GATHERED}"
    first, second = parse_nccl_log(text, "both.log")
    assert (first.kind, first.ranks, first.nodes) == ("all-reduce", 16, 2)
    assert (second.kind, second.ranks, second.nodes) == ("all-gather", 4, 2)


def test_a_device_that_stands_twice_in_an_anonymous_log_is_on_two_hosts() -> None:
    text = "".join(
        f"#  Rank {rank} Group  0 Pid 29{rank} on        lab device  0 [0000:02:00] RTX 5090\n"
        for rank in range(2)
    )
    (table,) = parse_nccl_log("all_gather_perf\n" + text + GATHERED, "log")
    assert (table.ranks, table.nodes) == (2, 2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no results"),
        ("hello\n" * 10, "no results"),
        (START + ranks(8, 1) + COLUMNS, "no results"),
        ("   268435456  4194304  float  none  -1  XXXXX  XXX.XX  XXX.XX  N/A\n", "no results"),
        ("hypercube_perf\n" + GATHERED, "hypercube_perf"),
        ("all_reduce_perf\n" + ranks(1, 1) * 8 + REDUCED, "ran alone"),
        ("all_reduce_perf\n 8 2 float sum -1 36.47 0.00 0.00 0\n", "how many ranks"),
        ("\0\1\2", "no results"),
    ],
    ids=["empty", "other", "header-only", "template", "unused", "no-mpi", "no-ranks", "binary"],
)
def test_what_can_not_be_used_is_refused_with_a_reason(text: str, said: str) -> None:
    with pytest.raises(InputError) as told:
        parse_nccl_log(text, "log.txt")
    assert said in told.value.what
    assert told.value.next


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError) as told:
        read_nccl_log(tmp_path / "none.log")
    assert "none.log" in told.value.what
