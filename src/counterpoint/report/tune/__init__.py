"""Reports of a study: a Document, JSON, progress lines, and the bundle of its evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.report.tune.dry_run import dry_run_document as dry_run_document
    from counterpoint.report.tune.evidence import write_bundle as write_bundle
    from counterpoint.report.tune.progress import StudyStatus as StudyStatus
    from counterpoint.report.tune.progress import event_lines as event_lines
    from counterpoint.report.tune.progress import study_status as study_status
    from counterpoint.report.tune.tune_digest import tune_digest as tune_digest
    from counterpoint.report.tune.tune_document import tune_document as tune_document
    from counterpoint.report.tune.tune_json import dry_run_json as dry_run_json
    from counterpoint.report.tune.tune_json import tune_json as tune_json

__getattr__ = lazy(__name__)
