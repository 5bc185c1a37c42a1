"""Progress of a running study, as lines of text."""

from counterpoint.report.progress.progress import Standing as Standing
from counterpoint.report.progress.progress import happened as happened
from counterpoint.report.progress.progress import standing as standing
