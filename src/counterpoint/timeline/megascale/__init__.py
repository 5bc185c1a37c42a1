"""Transfers recorded by Megascale, the runtime between TPU slices, in any file format.

A reader picks the events (`is_told`) and passes their names, times and args as a table (TOLD);
`Gatherer` turns them into rows of `Recording.transfers`. Sources: xprof's megascale_perfetto,
dcn_utils.cc and dcn_analysis.cc; docs/formats/xplane.md describes the content of each event.
"""
