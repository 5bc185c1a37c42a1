"""Texts of any form: a whole source, or a text in another, such as a heredoc or a code block."""

from __future__ import annotations

import re
from typing import Final

from counterpoint.core import InputError
from counterpoint.flags.parse.form import by_content
from counterpoint.flags.parse.scan import Scan
from counterpoint.flags.parse.traced import TextBudget, TooMuchError, TracedText, known

_TEMPLATE: Final = re.compile(r"\$?\{\{[^{}\n]*\}\}")
"""What is put in before the text is run."""


def new_scan(where: str) -> Scan:
    """Return an empty scan of a source."""
    return Scan(where, TextBudget(where), read_embedded)


def scan_form(text: TracedText, scan: Scan, form: str) -> str:
    """Read a text of a form; return the form that it turns out to have.

    The readers are imported on use: yaml and ast would slow down every start.
    """
    if form in ("shell", "slurm"):
        from counterpoint.flags.parse.shell import scan_shell

        if _TEMPLATE.search(text.text) and text.known:
            text = known(_TEMPLATE.sub("$TEMPLATE", text.text), text.line)
        return scan_shell(text, scan)
    whole = "\n" * ((text.line or 1) - 1) + text.text
    if form == "yaml":
        from counterpoint.flags.parse.manifest import scan_yaml

        return scan_yaml(whole, scan)
    if form == "python":
        from counterpoint.flags.parse.python import scan_python

        scan_python(whole, scan)
    elif form in ("env", "docker"):
        from counterpoint.flags.parse.files import scan_docker, scan_env

        (scan_env if form == "env" else scan_docker)(whole, scan)
    elif form in ("notebook", "markdown"):
        from counterpoint.flags.parse.code_blocks import scan_markdown, scan_notebook

        (scan_notebook if form == "notebook" else scan_markdown)(whole, scan)
    else:
        from counterpoint.flags.parse.lines import scan_lines

        scan_lines(whole, scan)
    return form


def read_embedded(text: TracedText, scan: Scan, form: str | None = None) -> bool:
    """Read a text in another, by default of the form it looks like; False if it can't be read."""
    form = form or by_content(text.text)
    if form == "flags":
        form = "shell" if text.text.lstrip().startswith("-") else "env"
    if form in ("text", "toml"):
        return False
    own = {program: dict(given) for program, given in scan.own.items()}
    others, branch = list(scan.others), scan.branch
    try:
        scan_form(text, scan, form)
    except TooMuchError:
        raise
    except (InputError, RecursionError):
        scan.own, scan.others, scan.branch = own, others, branch
        return False
    return True
