"""Reports of Runs, as Documents and as JSON."""

from counterpoint.report.runs.runs_document import profiled_run_command as profiled_run_command
from counterpoint.report.runs.runs_document import run_lines as run_lines
from counterpoint.report.runs.runs_document import runs_document as runs_document
from counterpoint.report.runs.runs_json import runs_json as runs_json
