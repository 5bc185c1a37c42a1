"""The scheduled module in a serialized executable, where XLA tells it nowhere else.

So it is with jaxlib 0.8.0 and 0.8.1. Such a thing begins with XLA's own executable, that with a
module and its configuration, and that with the module: each is the first field of the one around.
"""

from __future__ import annotations

from typing import Final

from counterpoint.compile.workers.job import Failure
from counterpoint.compile.workers.refusal import Refusal

_DEPTH: Final = 3
_FIRST: Final = b"\x0a"  # field 1, of a length
_LAST_BYTE: Final = 0x80  # below: no further byte of a number follows


def module_of(executable: bytes) -> bytes:
    """The HloModuleProto. Refused where the bytes are of another form."""
    message = executable
    for _ in range(_DEPTH):
        if message[:1] != _FIRST:
            raise _odd()
        message = _of_length(message[1:])
    return message


def _of_length(message: bytes) -> bytes:
    """What follows its length, as a varint of protobuf."""
    size = 0
    for at, byte in enumerate(message):
        size |= (byte & (_LAST_BYTE - 1)) << (7 * at)
        if byte < _LAST_BYTE:
            found = message[at + 1 : at + 1 + size]
            if len(found) == size:
                return found
            break
    raise _odd()


def _odd() -> Refusal:
    return Refusal(Failure.COMPILER, "this XLA serializes what it compiled in a form not known")
