"""Hooks of mkdocs: the pages that are made while the site is built, and the lists in its menu.

`reference/cli.md` is the help of every command, and `reference/schemas.md` lists the JSON schemas.
Neither is committed, so neither can be out of date. In the `nav` of mkdocs.yml, `"*": rules/*`
stands for the pages of a directory that the menu does not name elsewhere.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import cast

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from counterpoint.cli.app import main
from counterpoint.cli.commands import COMMANDS

SCHEMAS = Path("reference/schema")
Menu = str | dict[str, "Menu"] | list["Menu"]
"""A page, pages with titles, or a list of either."""

_WIDTH = "96"
_GENERATED = ("reference/cli.md", "reference/schemas.md")
_JSON = """\
# JSON output

With `--json`, a command prints its whole result as one JSON document. The field `schema` names its
version; within a version, no field is removed or changes its meaning.
"""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Expand the lists in the menu."""
    docs = Path(config.docs_dir)
    menu = cast("Menu", config.nav)  # pyright: ignore[reportUnknownMemberType]
    named = set(pages_in(menu))
    pages = sorted(path.relative_to(docs).as_posix() for path in docs.rglob("*.md"))
    config.nav = cast("list[object]", expanded(menu, [page for page in pages if page not in named]))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    texts = (cli_page(), schemas_page(Path(config.docs_dir)))
    for path, text in zip(_GENERATED, texts, strict=True):
        files.append(File.generated(config, path, content=text))
    return files


def pages_in(menu: Menu) -> Iterator[str]:
    """The pages that a menu names."""
    if isinstance(menu, str):
        yield menu
    else:
        for entry in menu.values() if isinstance(menu, dict) else menu:
            yield from pages_in(entry)


def expanded(menu: Menu, pages: list[str]) -> Menu:
    """The menu, with each `"*": PATTERN` replaced by those of the pages that match.

    A page that matches leaves the list, so that a later pattern does not name it again.
    """
    if isinstance(menu, str):
        return menu
    if isinstance(menu, dict):
        return {title: expanded(entry, pages) for title, entry in menu.items()}
    entries: list[Menu] = []
    for entry in menu:
        pattern = entry.get("*") if isinstance(entry, dict) else None
        if isinstance(pattern, str):
            found = [page for page in pages if fnmatch(page, pattern)]
            pages[:] = [page for page in pages if page not in found]
            entries += found
        else:
            entries.append(expanded(entry, pages))
    return entries


def cli_page() -> str:
    """The help of every command."""
    parts = [
        "# Commands",
        "The help of each command, as `counterpoint COMMAND --help` prints it.",
        _fenced(help_of()),
    ]
    for command in sorted(command.name for command in COMMANDS):
        parts += [f"## counterpoint {command}", _fenced(help_of(*command.split()))]
    return "\n\n".join(parts) + "\n"


def help_of(*words: str) -> str:
    """The help that a command prints."""
    printed = io.StringIO()
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = _WIDTH
    try:
        with contextlib.redirect_stdout(printed):
            code = main([*words, "--help"])
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    if code:
        raise SystemExit(f"counterpoint {' '.join(words)} --help ended with exit code {code}")
    return printed.getvalue()


def schemas_page(docs: Path) -> str:
    """A list of the pages about JSON output, and of the schema files."""
    pages = sorted((docs / "reference").glob("*-json.md"))
    schemas = sorted((docs / SCHEMAS).glob("*.json"))
    titles = (page.read_text("utf-8").splitlines()[0].lstrip("# ") for page in pages)
    lines = [
        _JSON,
        *(f"- [{title}]({page.name})" for title, page in zip(titles, pages, strict=True)),
    ]
    if schemas:
        lines += ["", "## Schema files", ""]
        lines += [f"- [`{path.stem}`](schema/{path.name})" for path in schemas]
    return "\n".join(lines) + "\n"


def _fenced(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```"
