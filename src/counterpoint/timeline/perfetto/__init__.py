"""Writes a Timeline as a trace that https://ui.perfetto.dev opens.

- `layout`: the tracks and the slices on each; slices that overlap without nesting get own rows
- `write`: `.json` and `.json.gz`, which every viewer reads, and `counterpoint.read` too
- `as_proto`: `.pftrace`, the format that Perfetto itself writes

Times are whole nanoseconds, as in Perfetto; `write_parquet` keeps every picosecond.
"""

from counterpoint.timeline.perfetto.write import SUFFIXES as SUFFIXES
from counterpoint.timeline.perfetto.write import write_perfetto as write_perfetto
