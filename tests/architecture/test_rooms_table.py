"""The table of rooms in the documentation, compared with the directories and their layers."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
PAGE = CHECKOUT / "docs" / "concepts" / "architecture.md"
ROW = re.compile(r"^\| `(\w+)` \| (\d+) \| (.+) \|$", re.MULTILINE)


def layers() -> dict[str, int]:
    """The layer of each room in pyproject.toml; the lowest is 1."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))
    (contract,) = (
        contract
        for contract in project["tool"]["importlinter"]["contracts"]
        if contract["id"] == "rooms"
    )
    rows = reversed(contract["layers"])
    return {room: at for at, row in enumerate(rows, 1) for room in re.findall(r"\w+", row)}


def test_the_table_names_each_room_with_its_layer() -> None:
    package = CHECKOUT / "src" / "counterpoint"
    rooms = {path.parent.name for path in package.glob("*/__init__.py")}
    described = {room: int(layer) for room, layer, _ in ROW.findall(PAGE.read_text("utf-8"))}
    known = layers()

    assert set(described) == rooms, f"mend the table of rooms in {PAGE.relative_to(CHECKOUT)}"
    assert described == {room: known[room] for room in rooms}


def test_the_table_goes_from_the_top_down() -> None:
    order = [int(layer) for _, layer, _ in ROW.findall(PAGE.read_text("utf-8"))]
    assert order == sorted(order, reverse=True)
