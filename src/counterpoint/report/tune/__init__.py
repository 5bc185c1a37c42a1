"""Reports of a study, as a Document and as JSON, and its evidence bundle."""

from counterpoint.report.tune.dry_run import dry_run_document as dry_run_document
from counterpoint.report.tune.progress import StudyStatus as StudyStatus
from counterpoint.report.tune.progress import event_lines as event_lines
from counterpoint.report.tune.progress import study_status as study_status
from counterpoint.report.tune.tune_document import LEFT_OUT as LEFT_OUT
from counterpoint.report.tune.tune_document import EvidenceFile as EvidenceFile
from counterpoint.report.tune.tune_document import contents as contents
from counterpoint.report.tune.tune_document import evidence as evidence
from counterpoint.report.tune.tune_document import hidden_values as hidden_values
from counterpoint.report.tune.tune_document import redacted as redacted
from counterpoint.report.tune.tune_document import tune_document as tune_document
from counterpoint.report.tune.tune_document import without as without
from counterpoint.report.tune.tune_json import dry_run_json as dry_run_json
from counterpoint.report.tune.tune_json import tune_json as tune_json
