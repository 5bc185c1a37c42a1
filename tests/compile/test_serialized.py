"""The module in a serialized executable, as jaxlib 0.8.0 writes it: by its first fields."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.compile.job import CompileRefused
from counterpoint.compile.serialized import module_of


def field(number: int, content: bytes) -> bytes:
    """A field of a length, as protobuf writes it."""
    size, length = bytearray(), len(content)
    while length > 0x7F:
        size.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([number << 3 | 2, *size, length]) + content


@given(st.binary(max_size=70_000), st.binary(max_size=300), st.binary(max_size=300))
def test_the_module_is_what_begins_all(module: bytes, config: bytes, machine_code: bytes) -> None:
    configured = field(1, module) + field(2, config)
    compiled = field(1, configured) + field(4, machine_code)
    assert module_of(field(1, compiled) + field(3, b"cuda")) == module


@pytest.mark.parametrize(
    "data",
    [b"", b"\x0a", b"\x0a\x05abc", b"\x0a\xff\xff", field(2, b"x"), field(1, field(1, b"x"))],
)
def test_another_form_is_refused(data: bytes) -> None:
    with pytest.raises(CompileRefused, match="form"):
        module_of(data)
