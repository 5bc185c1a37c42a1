"""docs/reference/tune-space.md, held to what it describes."""

from __future__ import annotations

import re
from pathlib import Path

from counterpoint.tune.space.dimensions import builtin_dimensions
from tune_spaces import space_of

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "tune-space.md").read_text("utf-8")


def block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return found


def test_the_example_is_a_file_that_works() -> None:
    space = space_of(target="4x8xH100", asked=block("toml"))
    assert len(space.base.flags) == 2
    assert "network buffer" in {it.name for it in space.dimensions}
    assert [it.name for it in space.seeds][:2] == ["no-nvls", "both"]


def test_the_sweep_is_one_that_works() -> None:
    space = space_of(asked=block("json"), file="sweep.json")
    assert [it.name for it in space.seeds][:3] == ["combine", "no-nvls", "both"]


def test_all_dimensions_are_listed_with_their_choices() -> None:
    rows = {
        cells[0]: cells
        for line in PAGE.splitlines()
        if line.startswith("| ") and len(cells := line.strip("| ").split(" | ")) >= 3
    }
    for name, draft in builtin_dimensions().drafts.items():
        acts, told = rows[name][1:3]
        assert acts == ("S" if draft.acts == "schedule" else "R")
        wanted = "break points" if draft.combine else ", ".join(f"`{it}`" for it in draft.choices)
        assert told.strip() == wanted
