"""Transfers between slices, by what their instructions say."""

from __future__ import annotations

import pytest

from counterpoint.hlo.collectives import collective
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.text_reader import program_from_text
from counterpoint.hlo.transfers import transfers

TEXT = """\
HloModule jit_step, is_scheduled=true

ENTRY %main (p: bf16[4194304]) -> bf16[{received}] {{
  %p = bf16[4194304]{{0}} parameter(0)
  %after = token[] after-all()
  %send.3 = (bf16[4194304]{{0}}, u32[], token[]) send(%p, %after), channel_id=3, \
is_host_transfer=true, frontend_attributes={{{attributes}}}
  %recv.4 = (bf16[{received}]{{0}}, u32[], token[]) recv(%after), channel_id=4, \
is_host_transfer=true, frontend_attributes={{{attributes}}}
  %send-done.3 = token[] send-done(%send.3), channel_id=3, is_host_transfer=true
  %recv-done.4 = (bf16[{received}]{{0}}, token[]) recv-done(%recv.4), channel_id=4, \
is_host_transfer=true
  ROOT %value = bf16[{received}]{{0}} get-tuple-element(%recv-done.4), index=0
}}
"""
SENT = 4194304


def program(kind: str, received: int = SENT, target: str = "{1,2,3,4}x{0:7}") -> Program:
    attributes = (
        '_xla_host_transfer_rendezvous="x_0",'
        f'_xla_megascale_target="{target}",_xla_megascale_transfer_type="{kind}"'
    )
    return program_from_text(TEXT.format(received=received, attributes=attributes))


@pytest.mark.parametrize(
    ("kind", "received", "name", "bytes_", "wire"),
    [
        # What one of four devices sends of S bytes: see docs/formats/xplane.md.
        ("ALL_REDUCE", SENT, "all-reduce", 2 * SENT, 1.5 * 2 * SENT),
        ("ALL_GATHER", 4 * SENT, "all-gather", 8 * SENT, 0.75 * 8 * SENT),
        ("REDUCE_SCATTER", SENT // 4, "reduce-scatter", 2 * SENT, 3 * SENT // 2),
        ("ALL_TO_ALL", SENT, "all-to-all", 2 * SENT, 0.75 * 2 * SENT),
        ("ONE_TO_ONE", SENT, "collective-permute", 2 * SENT, 2 * SENT),
    ],
)
def test_kinds_bytes_and_what_a_device_sends(
    kind: str, received: int, name: str, bytes_: int, wire: float
) -> None:
    of = program(kind, received)
    for part in ("send.3", "recv.4", "send-done.3", "recv-done.4"):
        instruction = of.instruction(part)
        assert instruction is not None
        found = collective(of, instruction)
        assert found is not None
        assert (found.kind, found.bytes, found.instruction) == (name, bytes_, "send.3")
        assert found.bus_factor is not None
        assert found.bytes * found.bus_factor == wire


def test_an_unknown_kind_is_a_collective_of_which_nobody_knows_what_it_sends() -> None:
    of = program("SOMETHING_NEW")
    send = of.instruction("send.3")
    assert send is not None
    found = collective(of, send)
    assert found is not None
    assert (found.kind, found.bus_factor) == ("unknown", None)


@pytest.mark.parametrize(
    ("target", "slices"),
    [("{1,2}x{0:3}", 2), ("{1:4}x{0:7}", 4), ("{1,3:5}x{0}", 4), ("somewhere", None), ("", None)],
)
def test_slices_are_counted_from_the_target(target: str, slices: int | None) -> None:
    assert transfers(program("ALL_REDUCE", target=target))["recv.4"].slices == slices


def test_what_goes_to_the_host_itself_is_no_collective() -> None:
    text = TEXT.format(received=SENT, attributes='_xla_host_transfer_rendezvous="callback"')
    of = program_from_text(text)
    send = of.instruction("send.3")
    assert not transfers(of)
    assert send is not None
    assert collective(of, send) is None
