"""Reports of `flags check`, `flags render` and `flags effective`, as Documents and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.report.flags.check_document import check_lines as check_lines
    from counterpoint.report.flags.check_document import fix_lines as fix_lines
    from counterpoint.report.flags.check_document import fixed_summary_lines as fixed_summary_lines
    from counterpoint.report.flags.check_document import nothing_lines as nothing_lines
    from counterpoint.report.flags.check_document import summary_lines as summary_lines
    from counterpoint.report.flags.settings_document import EffectiveFlags as EffectiveFlags
    from counterpoint.report.flags.settings_document import (
        difference_document as difference_document,
    )
    from counterpoint.report.flags.settings_document import effective_document as effective_document
    from counterpoint.report.flags.settings_document import next_command as next_command
    from counterpoint.report.flags.settings_document import unread_lines as unread_lines
    from counterpoint.report.flags.settings_document import unwritten_lines as unwritten_lines
    from counterpoint.report.flags.settings_json import check_json as check_json
    from counterpoint.report.flags.settings_json import difference_json as difference_json
    from counterpoint.report.flags.settings_json import effective_json as effective_json
    from counterpoint.report.flags.settings_json import fix_json as fix_json
    from counterpoint.report.flags.settings_json import render_json as render_json

__getattr__ = lazy(__name__)
