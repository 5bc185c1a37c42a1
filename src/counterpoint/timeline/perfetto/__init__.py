"""A Timeline as a trace that https://ui.perfetto.dev opens.

- `layout`: which tracks there are, and the slices on each
- `nesting`: slices that overlap without nesting go to rows of their own
- `as_json`: `.json`, `.json.gz`, which every viewer reads, and `counterpoint.read` too
- `as_proto`: `.pftrace`, the format that Perfetto itself writes

Times are whole nanoseconds, as Perfetto counts them; `write_parquet` keeps every picosecond.
"""

from counterpoint.timeline.perfetto.write import SUFFIXES as SUFFIXES
from counterpoint.timeline.perfetto.write import write_perfetto as write_perfetto
