"""The place of each host: a CSV with the columns host, rack and pod."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from counterpoint.core import InputError
from counterpoint.core.opening import read_input


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPlace:
    """The rack and the pod of a host; None: the file does not say."""

    rack: str | None = None
    pod: str | None = None


def read_topology(path: str | Path) -> dict[str, HostPlace]:
    """Read the places of hosts by name."""
    try:
        text = read_input(path).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as failure:
        reason = getattr(failure, "strerror", None) or "it is not UTF-8 text"
        raise _refused(f"{path}: can't be read: {reason}") from None
    rows = csv.DictReader(text.splitlines())
    columns = [name.strip().lower() for name in rows.fieldnames or ()]
    if "host" not in columns or not {"rack", "pod"} & {*columns}:
        told = ",".join(columns) or "empty"
        raise _refused(f"{path}: its first line must name host, and rack, pod or both", told)
    rows.fieldnames = columns
    places: dict[str, HostPlace] = {}
    for number, row in enumerate(rows, 2):
        host = (row.get("host") or "").strip()
        place = HostPlace(rack=_name(row.get("rack")), pod=_name(row.get("pod")))
        if not host:
            raise _refused(f"{path}: line {number} names no host")
        if places.setdefault(host, place) != place:
            raise _refused(f"{path}: line {number} gives {host} another place than before")
    return places


def _refused(what: str, first: str | None = None) -> InputError:
    return InputError(
        what,
        why=first and f"it is {first}",
        next="write a line host,rack,pod and one for each host, such as host-00,r1,p1",
    )


def _name(text: str | None) -> str | None:
    return (text or "").strip() or None
