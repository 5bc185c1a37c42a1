"""What happens in a study while it runs, in lines."""

from counterpoint.report.progress.progress import Standing as Standing
from counterpoint.report.progress.progress import happened as happened
from counterpoint.report.progress.progress import standing as standing
