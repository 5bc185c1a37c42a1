"""The pages of docs/ that are made, held to what makes them."""

from __future__ import annotations

import re
from pathlib import Path

from counterpoint.flags.observed import observations
from json_pages import pages_of_fields
from made_tables import TABLES, pages_with_tables
from make_docs import made_pages, write_pages
from release_marks import marked_pages, with_marked_releases
from result_types import fields_by_key, hints_of, objects_in, results
from web_records import RECORDS, web_records

DOCS = Path(__file__).parents[2] / "docs"


def _same(page: Path, text: str) -> bool:
    return page.is_file() and page.read_text("utf-8") == text


def test_the_committed_pages_are_what_is_made_of_catalogue_recipes_and_rules() -> None:
    made = made_pages()
    rules = {f"rules/{path.name}" for path in (DOCS / "rules").glob("*.md")}
    stale = [path for path, text in made.items() if not _same(DOCS / path, text)]

    schemas = {f"reference/schema/{path.name}" for path in DOCS.glob("reference/schema/*")}

    assert not stale, "run: make docs"
    assert schemas == {path for path in made if "/schema/" in path}, "run: make docs"
    assert rules == {path for path in made if path.startswith("rules/")}, "run: make docs"


def test_the_committed_tables_of_fields_are_what_is_made_of_the_results() -> None:
    stale = [path for path, text in pages_of_fields(DOCS).items() if not _same(DOCS / path, text)]

    assert not stale, "run: make docs"
    assert _same(DOCS.parent / RECORDS, web_records()), "run: make docs"


def test_every_field_of_every_result_has_a_meaning() -> None:
    kinds = {kind for top in results().values() for kind in (top, *objects_in(top))}
    unsaid = {
        f"{kind.__name__}.{key}"
        for kind in kinds
        for key in hints_of(kind).keys() - fields_by_key(kind)
    }

    assert not unsaid


def test_every_result_is_on_a_reference_page() -> None:
    pages = [page.read_text("utf-8") for page in (DOCS / "reference").glob("*-json.md")]
    described = {name for page in pages for name in re.findall("<!-- fields: (.+) -->", page)}

    assert described == results().keys()


def test_the_releases_that_pages_quote_are_those_that_were_observed() -> None:
    pages = marked_pages(DOCS)

    assert "concepts/settings.md" in pages
    assert not [path for path, text in pages.items() if not _same(DOCS / path, text)], (
        "run: make docs"
    )


def test_the_tables_in_pages_are_made_of_the_data() -> None:
    pages = pages_with_tables(DOCS)

    assert not [path for path, text in pages.items() if not _same(DOCS / path, text)], (
        "run: make docs"
    )
    assert all(any(f"<!--table {name}-->" in it for it in pages.values()) for name in TABLES)


def test_a_mark_is_replaced_by_the_release_that_was_observed() -> None:
    begins = observations()["scheduler-by-default"].first(having=True)
    page = "From 0.1<!--+scheduler-by-default--> on, and 0.1 elsewhere."

    assert with_marked_releases(page) == page.replace("0.1", begins, 1)


def test_pages_of_rules_that_are_no_more_are_removed(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "FLAG000.md").write_text("once")

    write_pages(tmp_path)

    assert not (tmp_path / "rules" / "FLAG000.md").exists()
    assert (tmp_path / "rules" / "FLAG101.md").is_file()
