"""The parts of the site that are made while it is built, and what its pages promise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import counterpoint
from counterpoint.cli.commands import COMMANDS
from docs_site import cli_page, expanded, pages_in, schemas_page

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.system
def test_each_command_has_its_help_on_the_page() -> None:
    page = cli_page()
    for command in COMMANDS:
        assert f"## counterpoint {command.name}\n" in page
        assert all(example in page for example in command.examples), command.name


def test_each_public_name_is_in_the_api_reference_once() -> None:
    page = (DOCS / "reference" / "api.md").read_text("utf-8")
    names = re.findall(r"^::: counterpoint\.(\w+)$", page, re.MULTILINE)
    assert sorted(names) == [name for name in counterpoint.__all__ if name != "__version__"]


def test_a_pattern_in_the_menu_takes_each_page_once() -> None:
    pages = ["a/1.md", "a/2-json.md", "b/1.md"]
    menu = expanded([{"JSON": [{"*": "a/*-json.md"}]}, {"*": "a/*"}, "home.md"], pages)
    assert menu == [{"JSON": ["a/2-json.md"]}, "a/1.md", "home.md"]
    assert list(pages_in(menu)) == ["a/2-json.md", "a/1.md", "home.md"]


def test_schema_files_are_listed(tmp_path: Path) -> None:
    (tmp_path / "reference" / "schema").mkdir(parents=True)
    (tmp_path / "reference" / "schema" / "explain.json").write_text("{}")
    (tmp_path / "reference" / "explain-json.md").write_text("# The JSON of explain\n")
    page = schemas_page(tmp_path)
    assert "- [The JSON of explain](explain-json.md)" in page
    assert "- [`explain`](schema/explain.json)" in page
