"""Progress of a running study, as lines of text."""

from counterpoint.report.progress.progress import StudyStatus as StudyStatus
from counterpoint.report.progress.progress import event_lines as event_lines
from counterpoint.report.progress.progress import study_status as study_status
