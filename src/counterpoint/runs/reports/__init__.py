"""What a compiler reported in a Run: its log lines and the flags that it used."""

from counterpoint.runs.reports.compiler_reports import CompilerReport as CompilerReport
from counterpoint.runs.reports.compiler_reports import device_of as device_of
from counterpoint.runs.reports.compiler_reports import effective_flags as effective_flags
from counterpoint.runs.reports.compiler_reports import flags_by_module as flags_by_module
from counterpoint.runs.reports.compiler_reports import jaxlib_of as jaxlib_of
from counterpoint.runs.reports.compiler_reports import parse_debug_options as parse_debug_options
from counterpoint.runs.reports.compiler_reports import read_compiler_report as read_compiler_report
from counterpoint.runs.reports.compiler_reports import variables_of as variables_of
