"""Reports of `flags check`, `flags render` and `flags effective`, as Documents and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.report.flags.check_document import check_lines as check_lines
    from counterpoint.report.flags.check_document import fix_lines as fix_lines
    from counterpoint.report.flags.check_document import nothing_lines as nothing_lines
    from counterpoint.report.flags.check_document import summary_lines as summary_lines
    from counterpoint.report.flags.settings_document import Effective as Effective
    from counterpoint.report.flags.settings_document import (
        difference_document as difference_document,
    )
    from counterpoint.report.flags.settings_document import effective_document as effective_document
    from counterpoint.report.flags.settings_document import next_command as next_command
    from counterpoint.report.flags.settings_document import unread as unread
    from counterpoint.report.flags.settings_document import unwritten as unwritten
    from counterpoint.report.flags.settings_json import check_json as check_json
    from counterpoint.report.flags.settings_json import difference_json as difference_json
    from counterpoint.report.flags.settings_json import effective_json as effective_json
    from counterpoint.report.flags.settings_json import fix_json as fix_json
    from counterpoint.report.flags.settings_json import render_json as render_json

__getattr__ = lazy(
    __name__,
    {
        "check_lines": "counterpoint.report.flags.check_document",
        "fix_lines": "counterpoint.report.flags.check_document",
        "nothing_lines": "counterpoint.report.flags.check_document",
        "summary_lines": "counterpoint.report.flags.check_document",
        "Effective": "counterpoint.report.flags.settings_document",
        "difference_document": "counterpoint.report.flags.settings_document",
        "effective_document": "counterpoint.report.flags.settings_document",
        "next_command": "counterpoint.report.flags.settings_document",
        "unread": "counterpoint.report.flags.settings_document",
        "unwritten": "counterpoint.report.flags.settings_document",
        "check_json": "counterpoint.report.flags.settings_json",
        "difference_json": "counterpoint.report.flags.settings_json",
        "effective_json": "counterpoint.report.flags.settings_json",
        "fix_json": "counterpoint.report.flags.settings_json",
        "render_json": "counterpoint.report.flags.settings_json",
    },
)
