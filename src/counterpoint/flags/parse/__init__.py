"""Settings as somebody wrote them: scripts, programs, manifests and flags read with their places.

    source.py  recognizes a source, picks its reader; shell.py, python.py, manifest.py (YAML),
    files.py, notebook.py, document.py are the readers; flag_values.py makes settings of variables

Nothing is run. What a reader can't know is a SyntaxIssue or listed as not read, never guessed.
Read parsed.py (beside this room) first, then source.py, then one reader.
"""

from counterpoint.flags.parse.source import (
    FORMS,
    named_recipe,
    read_command,
    read_source,
    read_text,
    read_variables,
)
from counterpoint.flags.parsed import (
    COMMAND_LINE,
    ENVIRONMENT,
    IssueKind,
    Occurrence,
    ParsedSource,
    Place,
    SyntaxIssue,
    exclusive,
)

__all__ = [
    "COMMAND_LINE",
    "ENVIRONMENT",
    "FORMS",
    "IssueKind",
    "Occurrence",
    "ParsedSource",
    "Place",
    "SyntaxIssue",
    "exclusive",
    "named_recipe",
    "read_command",
    "read_source",
    "read_text",
    "read_variables",
]
