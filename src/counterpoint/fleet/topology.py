"""The place of each host: a CSV with the columns host, rack and pod."""

from __future__ import annotations

import csv
from pathlib import Path

from counterpoint.core import InputError
from counterpoint.core.frozen import frozen


@frozen(kw_only=True)
class HostPlace:
    """The rack and the pod of a host; None: the file does not say."""

    rack: str | None = None
    pod: str | None = None


def read_topology(path: str | Path) -> dict[str, HostPlace]:
    """Read the places of hosts by name."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as failure:
        raise InputError(f"{path}: can't be read: {failure}") from None
    rows = csv.DictReader(text.splitlines())
    columns = [name.strip().lower() for name in rows.fieldnames or ()]
    if "host" not in columns or not {"rack", "pod"} & {*columns}:
        raise InputError(
            f"{path}: its first line must name the columns host, rack and pod",
            why=f"it is {','.join(columns) or 'empty'}",
        )
    rows.fieldnames = columns
    places: dict[str, HostPlace] = {}
    for number, row in enumerate(rows, 2):
        host = (row.get("host") or "").strip()
        place = HostPlace(rack=_name(row.get("rack")), pod=_name(row.get("pod")))
        if not host:
            raise InputError(f"{path}: line {number} names no host")
        if places.setdefault(host, place) != place:
            raise InputError(f"{path}: line {number} gives {host} another place than before")
    return places


def _name(text: str | None) -> str | None:
    return (text or "").strip() or None
