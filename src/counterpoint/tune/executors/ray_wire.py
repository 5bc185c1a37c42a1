"""What the tuner and its drivers on the cluster say to each other: all goes through Ray's Job API.

A driver is told what to do by one word of its command line, and answers by marked lines in its
log. So nothing but the address of the dashboard has to be reachable.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Final, cast

DIRECTORY: Final = "/COUNTERPOINT-DIRECTORY"
"""Stands in a rank's command for the directory of its Run, which differs from node to node."""
NAMESPACE: Final = "counterpoint"
NEEDS: Final = "counterpoint_needs"
"""The package that holds what `counterpoint run` needs beside Python's own modules."""
PLACE: Final = "counterpoint"
"""Where packed Runs lie for the tuner to fetch: within Ray's directory of logs."""
PATIENCE: Final = "RAY_JOB_STOP_WAIT_TIME_S"
"""How long Ray waits for a driver that it has asked to end; three seconds unless told."""

_LINE: Final = "counterpoint-ray: "

Told = Mapping[str, object]


def tell(kind: str, **facts: object) -> None:
    """Say something to the tuner."""
    print(f"\n{_LINE}{json.dumps({'kind': kind, **facts})}", flush=True)  # noqa: T201


def told(log: str) -> list[Told]:
    """What a driver has said so far; a line that is still being written is left for later."""
    lines = log.split("\n")[:-1]
    marked = (line.removeprefix(_LINE) for line in lines if line.startswith(_LINE))
    return [cast("Told", json.loads(line)) for line in marked]


def last(log: str, *kinds: str) -> Told | None:
    """The last thing said of these kinds."""
    return next((it for it in reversed(told(log)) if it["kind"] in kinds), None)


def as_word(what: Mapping[str, object]) -> str:
    """Anything as one word that no shell touches."""
    return base64.urlsafe_b64encode(zlib.compress(json.dumps(what).encode(), 9)).decode()


def of_word(word: str) -> dict[str, object]:
    """The same, read again."""
    return cast("dict[str, object]", json.loads(zlib.decompress(base64.urlsafe_b64decode(word))))
