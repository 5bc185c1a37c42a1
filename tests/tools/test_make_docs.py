"""The pages of docs/ that are made, held to what makes them."""

from __future__ import annotations

from pathlib import Path

from make_docs import made_pages, write_pages

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


def test_pages_of_rules_that_are_no_more_are_removed(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "FLAG000.md").write_text("once")

    write_pages(tmp_path)

    assert not (tmp_path / "rules" / "FLAG000.md").exists()
    assert (tmp_path / "rules" / "FLAG101.md").is_file()
