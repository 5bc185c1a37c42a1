"""Writes a Timeline: as Parquet tables, or as a trace that https://ui.perfetto.dev opens.

- `parquet`: a directory of tables, which keeps everything and which `counterpoint.read` opens
- `trace_layout`: the tracks of a trace; slices that overlap without nesting get own rows
- `trace_json`: `.json` and `.json.gz`, which every viewer reads, and `counterpoint.read` too
- `trace_proto`: `.pftrace`, the format that Perfetto itself writes

Times of a trace are whole nanoseconds, as in Perfetto; Parquet tables keep every picosecond.
"""
