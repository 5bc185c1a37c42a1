"""`counterpoint skill`: how a coding agent uses Counterpoint, as one page of Markdown."""

from __future__ import annotations

from importlib import resources

from counterpoint.cli.printing import write_file


def skill() -> None:
    """Print which question is answered by which command, and how to read the answers.

    Save it where your coding agent looks for skills, for example as SKILL.md.
    """
    page = resources.files("counterpoint.cli").joinpath("skill.md")
    write_file(_HEAD + page.read_text("utf-8"))


_HEAD = """\
---
name: counterpoint
description: Explains, predicts and tunes the step time of JAX training; checks XLA flags.
---

"""
