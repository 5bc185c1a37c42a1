"""Readers of settings in scripts, programs, manifests and flag texts, with their places.

    source.py  recognizes the form of a source (form.py) and has it read (any_form.py)
    shell.py (with shell_words.py and launcher.py), python.py (with python_values.py and
    jax_use.py), manifest.py (YAML), files.py (Dockerfiles, env files), documents.py (Markdown,
    notebooks), lines.py (any other text)  read a form each, in the order of its lines
    scan.py    keeps what they find; flag_values.py makes settings of it
    mentions.py  names what a text search would find, and they did not

Nothing is run. What a reader can't know is a SyntaxIssue or listed as not read, never guessed.
Read parsed.py (in the parent package) first, then source.py, scan.py, and one reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.flags.named_files import AllowedFiles as AllowedFiles
    from counterpoint.flags.parse.form import FORMS as FORMS
    from counterpoint.flags.parse.source import SourceText as SourceText
    from counterpoint.flags.parse.source import open_source as open_source
    from counterpoint.flags.parse.source import read_command as read_command
    from counterpoint.flags.parse.source import read_source as read_source
    from counterpoint.flags.parse.source import read_text as read_text
    from counterpoint.flags.parse.source import read_variables as read_variables
    from counterpoint.flags.parsed import COMMAND_LINE as COMMAND_LINE
    from counterpoint.flags.parsed import IssueKind as IssueKind
    from counterpoint.flags.parsed import Location as Location
    from counterpoint.flags.parsed import Occurrence as Occurrence
    from counterpoint.flags.parsed import ParsedSource as ParsedSource

__getattr__ = lazy(__name__)
