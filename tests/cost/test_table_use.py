"""Logs that say nothing of a program, or less than it asks, are not left out in silence."""

from __future__ import annotations

import pytest

from counterpoint.cost.collectives.measured_table import table_notes
from counterpoint.cost.tables.nccl_tests import CollectiveTable
from counterpoint.hardware.targets import parse_target
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.text_reader import program_from_text

MIB = 1 << 20


def gathering(groups: str, devices: int) -> Program:
    """A program with one all-gather of 64 MiB."""
    return program_from_text(
        f"HloModule m, is_scheduled=true, num_partitions={devices}\n\n"
        "ENTRY %main (x: f32[1048576]) -> f32[16777216] {\n"
        "  %x = f32[1048576] parameter(0)\n"
        "  ROOT %it = f32[16777216] all-gather(%x), channel_id=1, dimensions={0},"
        f" replica_groups={groups}, use_global_device_ids=true\n}}\n"
    )


def log(
    kind: str = "all-gather",
    ranks: int = 16,
    nodes: int = 2,
    device: str = "NVIDIA H100 80GB HBM3",
    largest: int = 1 << 30,
    origin: str = "mine.log",
) -> CollectiveTable:
    seconds = {MIB: 1e-4, largest: 1e-2}
    return CollectiveTable(
        kind=kind, ranks=ranks, nodes=nodes, device=device, seconds=seconds, origin=origin
    )


@pytest.mark.parametrize(
    ("table", "said"),
    [
        pytest.param(log(), "", id="fits"),
        pytest.param(log(ranks=32, nodes=4), "", id="corrects"),
        pytest.param(log(nodes=0, device=""), "", id="nothing-told"),
        pytest.param(log(kind="all-reduce"), "this program has no all-reduce", id="other-kind"),
        pytest.param(
            log(ranks=2, nodes=1), "this program's run on 16 ranks on 2 hosts", id="other-ranks"
        ),
        pytest.param(
            log(ranks=8, nodes=2), "(all-gather of 8 ranks on 2 hosts) is not used", id="half-hosts"
        ),
        pytest.param(
            log(largest=8 * MIB),
            "ends at 8 MiB, but this program's go up to 64 MiB",
            id="too-short",
        ),
    ],
)
def test_what_a_log_does_not_tell_is_said(table: CollectiveTable, said: str) -> None:
    target = parse_target("2x8xH100:400G")
    notes = list(table_notes(gathering("[1,16]<=[16]", 16), target, [table]))
    assert len(notes) == bool(said)
    assert not said or (said in notes[0] and notes[0].startswith("mine.log"))


def test_of_two_logs_of_the_same_the_first_is_used() -> None:
    target = parse_target("2x8xH100:400G")
    tables = [log(origin="first.log"), log(origin="second.log")]
    (note,) = table_notes(gathering("[1,16]<=[16]", 16), target, tables)
    assert note.startswith("second.log")
    assert "first.log" in note
