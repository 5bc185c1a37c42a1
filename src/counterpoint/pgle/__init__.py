"""Profiles that give XLA's scheduler the cost of each instruction (PGLE).

Read `pgle.profiles` (the profile and its files), then `pgle.making`, `pgle.checking`,
`pgle.applying` and `pgle.proving`, in the order in which a profile is made and used.
docs/formats/pgle.md says what XLA accepts, and what it ignores without a message.
"""
