"""Meeting: the file by which ranks find rank 0: its addresses, its port, and a token.

Who can read the file may take part: it is readable by its owner only, and the token itself never
goes over the network. It is gone when rank 0 ends. A file of an earlier run that was killed does no
harm: nobody answers there, or refuses the token, and the file is read again.
"""

from __future__ import annotations

import fcntl
import hmac
import json
import os
import re
import secrets
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from counterpoint.capture.world import World
from counterpoint.core.errors import UsageError

_GET_ADDRESS: Final = 0x8915  # SIOCGIFADDR


@dataclass(frozen=True, slots=True)
class Meeting:
    """Where rank 0 listens, and what proves that somebody was invited."""

    addresses: tuple[str, ...]
    port: int
    token: str

    def proof(self, *words: str) -> str:
        """What only somebody with the token can say to these words."""
        return hmac.new(self.token.encode(), "\n".join(words).encode(), sha256).hexdigest()


def meeting_path(directory: Path, world: World) -> Path:
    """The file of this job's ranks; all of them must come to the same name."""
    job = re.sub(r"[^\w.-]+", "-", world.job or "")[:80]
    return directory / f".counterpoint-doctor-{world.launcher}-{job or world.size}.json"


def new_meeting(port: int) -> Meeting:
    """A meeting here, with a new token."""
    return Meeting(own_addresses(), port, secrets.token_hex(32))


def write_meeting(path: Path, meeting: Meeting) -> None:
    """Write it whole or not at all, for its owner only."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    text = json.dumps(
        {"addresses": meeting.addresses, "port": meeting.port, "token": meeting.token}
    )
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        part.replace(path)
    except OSError as failure:
        with suppress(OSError):
            part.unlink()
        raise UsageError(
            f"{path.parent}: the ranks can't meet there: {failure.strerror}",
            why="rank 0 leaves a file there that tells the others where it listens",
            next="name a directory by --meet, which all hosts see and this user can write",
        ) from None


def read_meeting(path: Path) -> Meeting | None:
    """What is written there now; None where nothing is, or nothing whole."""
    with suppress(OSError):
        os.listdir(path.parent)  # noqa: PTH208 - makes network file systems look anew
    try:
        data: Any = json.loads(path.read_text())
        addresses = tuple(map(str, data["addresses"]))
        return Meeting(addresses, int(data["port"]), str(data["token"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remove_meeting(path: Path, meeting: Meeting) -> None:
    """Remove our own file, not one that another run has written since."""
    if read_meeting(path) == meeting:
        with suppress(OSError):
            path.unlink()


def own_addresses() -> tuple[str, ...]:
    """IPv4 addresses of this host, those that others may reach first; loopback last."""
    found: dict[str, None] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name[:15].encode())
            with suppress(OSError):
                answer = fcntl.ioctl(probe.fileno(), _GET_ADDRESS, request)
                found[socket.inet_ntoa(answer[20:24])] = None
    return tuple(sorted(found, key=lambda one: (one.startswith("127."), one.startswith("172.17."))))
