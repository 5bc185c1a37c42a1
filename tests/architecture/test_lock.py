"""The lock belongs to this pyproject.toml and names the public index only."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parents[2]
PYPROJECT: dict[str, Any] = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
LOCK: dict[str, Any] = tomllib.loads((CHECKOUT / "uv.lock").read_text())


def name_and_range(requirement: str) -> tuple[str, str]:
    found = re.match(r"([A-Za-z0-9-]+)(?:\[[^]]*\])?(.*)", requirement)
    assert found, requirement
    return found[1], found[2].strip()


def test_the_lock_knows_every_requirement() -> None:
    project = PYPROJECT["project"]
    wanted = {name_and_range(requirement) for requirement in project["dependencies"]}
    for extra in project["optional-dependencies"].values():
        wanted |= {name_and_range(requirement) for requirement in extra}
    wanted = {(name, version) for name, version in wanted if name != project["name"]}

    (own,) = (package for package in LOCK["package"] if package["name"] == project["name"])
    locked = {(it["name"], it.get("specifier", "")) for it in own["metadata"]["requires-dist"]}

    assert locked - {(project["name"], "")} == wanted, "run `make lock`"


def test_the_lock_names_the_public_index_only() -> None:
    addresses = re.findall(
        r'(?:registry|url) = "([a-z]+://[^/"]*)', str((CHECKOUT / "uv.lock").read_text())
    )
    assert set(addresses) == {"https://pypi.org", "https://files.pythonhosted.org"}
