"""Profiles that give XLA's scheduler the cost of each instruction (PGLE).

`profiles` reads and writes them, `making` makes them from recordings, `checking` compares them with
a program, `applying` compiles with them. Exported here: the names under which XLA looks up costs
(lookups.py), and what its log proves about a profile (compiler_log.py). docs/formats/pgle.md
describes what XLA accepts, and what it silently ignores.
"""
