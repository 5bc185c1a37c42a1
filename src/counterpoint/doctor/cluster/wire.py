"""Wire: messages between two ranks, one JSON object on a line."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

_LONGEST: Final = 16 * 2**20


class Gone(Exception):
    """The other side has left, is silent, or does not speak as agreed."""


class Wire:
    """One connection. A message that does not come within the time is `Gone`."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(seconds)
        self._socket = connection
        self._file = connection.makefile("rb")

    def wait_at_most(self, seconds: float) -> None:
        """From now on."""
        self._socket.settimeout(max(seconds, 0.01))

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one message."""
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError as failure:
            raise Gone(str(failure)) from None

    def receive(self) -> dict[str, Any]:
        """Wait for one."""
        try:
            line = self._file.readline(_LONGEST)
            message: Any = json.loads(line) if line.endswith(b"\n") else None
        except (OSError, ValueError) as failure:
            raise Gone(str(failure)) from None
        if not isinstance(message, dict):
            raise Gone("the connection has ended")
        return message  # pyright: ignore[reportUnknownVariableType] - JSON's keys are texts

    def close(self) -> None:
        """End it; twice does no harm."""
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            self._socket.close()
