"""What Megascale, the runtime between TPU slices, tells of its transfers, in whatever file.

A reader picks the events out (`is_told`), gives their names, times and args as a table (TOLD), and
`Gatherer` makes rows of `Recording.transfers` of them. Sources: xprof's megascale_perfetto,
dcn_utils.cc and dcn_analysis.cc; docs/formats/xplane.md says what is in which event.
"""
