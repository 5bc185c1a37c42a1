"""Reports of the `pgle` commands, as Documents and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.report.pgle.apply_document import pgle_apply_document as pgle_apply_document
    from counterpoint.report.pgle.check_document import diff_document as diff_document
    from counterpoint.report.pgle.check_document import pgle_check_document as pgle_check_document
    from counterpoint.report.pgle.feedback_document import auto_document as auto_document
    from counterpoint.report.pgle.feedback_document import feedback_document as feedback_document
    from counterpoint.report.pgle.feedback_document import times_line as times_line
    from counterpoint.report.pgle.feedback_json import auto_json as auto_json
    from counterpoint.report.pgle.feedback_json import feedback_json as feedback_json
    from counterpoint.report.pgle.log_document import USE as USE
    from counterpoint.report.pgle.log_document import pgle_log_document as pgle_log_document
    from counterpoint.report.pgle.log_json import pgle_log_json as pgle_log_json
    from counterpoint.report.pgle.pgle_json import diff_json as diff_json
    from counterpoint.report.pgle.pgle_json import made_json as made_json
    from counterpoint.report.pgle.pgle_json import pgle_apply_json as pgle_apply_json
    from counterpoint.report.pgle.pgle_json import pgle_check_json as pgle_check_json
    from counterpoint.report.pgle.pgle_json import profile_json as profile_json
    from counterpoint.report.pgle.profile_document import made_document as made_document
    from counterpoint.report.pgle.profile_document import profile_document as profile_document

__getattr__ = lazy(__name__)
