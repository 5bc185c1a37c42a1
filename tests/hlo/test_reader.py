"""Files of every kind, and damaged ones: a clear refusal, never a crash."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoint.core.errors import InputError, UsageError
from counterpoint.hlo.category import category
from counterpoint.hlo.collectives import replica_groups
from counterpoint.hlo.description import describe
from counterpoint.hlo.loops import trip_count
from counterpoint.hlo.messages import MESSAGES
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.proto_reader import program_from_proto
from counterpoint.hlo.provenance import stable_key
from counterpoint.hlo.reader import program_hash, read_program
from counterpoint.hlo.text_reader import program_from_text
from counterpoint.hlo.wire_schema import message_classes
from counterpoint.hlo.work import bytes_accessed, flops

DATA = Path(__file__).parent / "data"
PROTO = lzma.decompress((DATA / "gpu_step.hlo.pb.xz").read_bytes())
TEXT = lzma.decompress((DATA / "gpu_step.txt.xz").read_bytes()).decode()


@pytest.mark.parametrize("pack", [lzma.compress, gzip.compress, bz2.compress, bytes])
@pytest.mark.parametrize("data", [PROTO, TEXT.encode()])
def test_packed_and_plain(pack: Callable[[bytes], bytes], data: bytes, tmp_path: Path) -> None:

    path = tmp_path / "module"
    path.write_bytes(pack(data))
    assert read_program(path).name == read_program(pack(data)).name == "jit_step"


def test_a_bare_module_and_one_in_an_hlo_proto() -> None:
    wrapped = MESSAGES["HloProto"](hlo_module=PROTO).SerializeToString()
    assert read_program(wrapped).computations == read_program(PROTO).computations


def test_programs_in_use_share_computations() -> None:
    first = read_program(PROTO)
    second = read_program(PROTO + b"\x0a\x05other")
    assert second.name == "other"
    pairs = zip(first.computations.values(), second.computations.values(), strict=True)
    # An async wrapper was inlined into the body of a loop, which makes another computation of it.
    assert [one.name for one, other in pairs if one is not other] == ["region_2.3_spmd"]


def test_a_digest_is_that_of_what_is_read() -> None:
    its_devices = PROTO + b"\x7a\x05\x1a\x03\x0a\x01\x07"  # of the assignment: device 7
    assert program_hash(its_devices) == program_hash(PROTO)
    wrapped = MESSAGES["HloProto"](hlo_module=PROTO).SerializeToString()
    buffers = b"\x1a\x03\x0a\x01\x07"
    assert program_hash(wrapped + buffers) == program_hash(PROTO)
    renamed = PROTO + b"\x0a\x05other"
    module = MESSAGES["Module"].FromString(PROTO)
    module.device_assignment.ClearField("computation_devices")
    for device in (1, 0):
        module.device_assignment.computation_devices.add(replica_device_ids=[device])
    reordered = module.SerializeToString()
    replicas = PROTO + b"\x7a\x02\x08\x07"
    text = TEXT.encode()
    digests = [
        *map(program_hash, (PROTO, renamed, reordered, replicas, text, text + b" ", b"", b"junk"))
    ]
    assert len(set(digests)) == len(digests)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "empty"),
        (b"\x00" * 64, "not a compiled HLO module"),
        (b"<!DOCTYPE html><html></html>", "not a compiled HLO module"),
        (b"\xfd7zXZ\x00junk", "compressed data is damaged"),
        (gzip.compress(b"x" * 999, mtime=0)[:20], "compressed data is damaged"),
        (b"PK\x03\x04" + b"\x00" * 40, "not a compiled HLO module"),
    ],
)
def test_what_is_no_program_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_program(data)


def test_a_path_that_leads_nowhere(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't be read"):
        read_program(tmp_path / "missing.hlo.pb")
    with pytest.raises(InputError, match="can't be read"):
        read_program(tmp_path)


def test_a_str_of_hlo_text_is_the_text() -> None:
    assert read_program(TEXT).computations == read_program(TEXT.encode()).computations
    with pytest.raises(InputError, match="the given text") as refused:
        read_program("loss = 0.7\n" * 1000)
    assert len(str(refused.value)) < 500


def test_an_endless_name_is_cut() -> None:
    with pytest.raises(InputError, match=r"x\.\.\. can't be read"):
        read_program("x" * 5000)


@pytest.mark.parametrize("source", [None, 7, ["a.hlo.pb"], object(), ""])
def test_what_is_neither_path_nor_text_is_refused(source: str) -> None:
    with pytest.raises(UsageError):
        read_program(source)


def ask_everything(program: Program) -> None:
    for it in program.instructions:
        category(program, it)
        flops(program, it)
        bytes_accessed(program, it)
        describe(program, it)
        stable_key(program, it)
        trip_count(program, it)
        replica_groups(program, it)


EDITS = st.lists(
    st.tuples(st.integers(0, 1 << 30), st.integers(0, 24), st.binary(max_size=12)),
    min_size=1,
    max_size=4,
)


def damaged(data: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    for where, removed, inserted in edits:
        at = where % max(len(data), 1)
        data = data[:at] + inserted + data[at + removed :]
    return data


@given(EDITS)
def test_damaged_protos_are_read_or_refused(edits: list[tuple[int, int, bytes]]) -> None:
    with suppress(InputError):
        ask_everything(program_from_proto(damaged(PROTO, edits)))


@given(EDITS)
def test_damaged_text_is_read_or_refused(edits: list[tuple[int, int, bytes]]) -> None:
    with suppress(InputError):
        ask_everything(program_from_text(damaged(TEXT.encode(), edits).decode(errors="replace")))


@given(st.floats(0, 1), st.booleans())
def test_truncated_modules_are_read_or_refused(share: float, as_text: bool) -> None:
    data = TEXT.encode() if as_text else PROTO
    with suppress(InputError):
        ask_everything(read_program(data[: int(share * len(data))] or b"\x00"))


def test_a_damaged_part_that_is_decoded_late_is_refused() -> None:
    shape = b"\x1a\x07\x10\x0b"  # field 3 of an instruction: seven bytes of the shape f32[]
    assert shape in PROTO
    with pytest.raises(InputError, match="damaged"):
        program_from_proto(PROTO.replace(shape, b"\x1a\x07\xff\xff"))


def test_nesting_beyond_reason_is_refused() -> None:
    calls = "".join(
        f"%f{n} {{\n  ROOT %r{n} = f32[] call(), to_apply=%f{n - 1}\n}}\n" for n in range(1, 3000)
    )
    first = "%f0 {\n  ROOT %r0 = f32[] constant(1)\n}\n"
    last = "ENTRY %main {\n  ROOT %r = f32[] call(), to_apply=%f2999\n}\n"
    with pytest.raises(InputError, match="deep"):
        program_from_text(f"HloModule deep\n{first}{calls}{last}")


@settings(deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(InputError):
        read_program(data)


def test_schemas_are_private_and_skip_what_they_do_not_name() -> None:
    first = message_classes("test", "Outer\n  1 inner Inner*\n  3 name string\nInner\n  2 n int64*")
    again = message_classes("test", "Outer\n  3 name bytes")
    message = first["Outer"](name="x", inner=[{"n": [1, 2]}])
    assert again["Outer"].FromString(message.SerializeToString()).name == b"x"
    with pytest.raises(DecodeError):
        first["Outer"].FromString(b"\xff")


def assigned(*partitions: tuple[int, ...]) -> tuple[int, ...]:
    """The order of the devices of a module with these numbers for each partition's replicas."""
    module = MESSAGES["Module"].FromString(PROTO)
    module.device_assignment.ClearField("computation_devices")
    for ids in partitions:
        module.device_assignment.computation_devices.add(replica_device_ids=ids)
    return read_program(module.SerializeToString()).device_order


def test_the_order_of_the_devices_is_that_of_the_assignment() -> None:
    assert assigned((0,), (2,), (1,), (3,)) == (0, 2, 1, 3)
    assert assigned((0, 1), (2, 3)) == (0, 2, 1, 3)  # replica 0 has devices 0 and 2
    assert assigned((0, 2), (1, 3)) == ()
    assert assigned((0,), (1,)) == ()
    assert assigned((4,), (5,)) == ()  # numbers of devices that are not all
    assert assigned((7,)) == ()
