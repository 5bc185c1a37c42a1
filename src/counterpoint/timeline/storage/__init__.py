"""Writes a Timeline: as Parquet tables, or as a trace that https://ui.perfetto.dev opens.

- `parquet`: a directory of tables, which keeps everything and which `counterpoint.read` opens
- `trace_layout`: the tracks of a trace; slices that overlap without nesting get own rows
- `trace_json`: `.json` and `.json.gz`, which every viewer reads, and `counterpoint.read` too
- `trace_proto`: `.pftrace`, the format that Perfetto itself writes

Times of a trace are whole nanoseconds, as in Perfetto; Parquet tables keep every picosecond.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.timeline.storage.parquet import is_timeline as is_timeline
    from counterpoint.timeline.storage.parquet import may_replace as may_replace
    from counterpoint.timeline.storage.parquet import write_parquet as write_parquet
    from counterpoint.timeline.storage.trace_json import SUFFIXES as SUFFIXES
    from counterpoint.timeline.storage.trace_json import write_perfetto as write_perfetto

__getattr__ = lazy(__name__)
