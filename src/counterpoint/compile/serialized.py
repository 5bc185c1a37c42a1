"""The scheduled module in a serialized executable, as jaxlib 0.8.0 and 0.8.1 write it.

These can't list the modules of an executable. A serialized executable starts with XLA's own
executable, that with a module and its configuration, and that with the module: each is the first
field of the message around it.
"""

from __future__ import annotations

from typing import Final

from counterpoint.compile.job import CompileRefused, FailureKind

_DEPTH: Final = 3
_FIRST: Final = b"\x0a"  # field 1, length-delimited
_LAST_BYTE: Final = 0x80  # below: the last byte of a number


def module_of(executable: bytes) -> bytes:
    """Return the HloModuleProto; raise CompileRefused if the bytes have another form."""
    message = executable
    for _ in range(_DEPTH):
        if message[:1] != _FIRST:
            raise _odd()
        message = _of_length(message[1:])
    return message


def _of_length(message: bytes) -> bytes:
    """Return the content after its length, a protobuf varint."""
    size = 0
    for at, byte in enumerate(message):
        size |= (byte & (_LAST_BYTE - 1)) << (7 * at)
        if byte < _LAST_BYTE:
            content = message[at + 1 : at + 1 + size]
            if len(content) == size:
                return content
            break
    raise _odd()


def _odd() -> CompileRefused:
    return CompileRefused(
        FailureKind.COMPILER, "this XLA serializes compiled programs in an unknown format"
    )
