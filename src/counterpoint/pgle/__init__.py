"""Profiles that tell XLA's scheduler what each instruction costs (PGLE).

Read `pgle.profiles` (the profile and its files), then `pgle.making`, `pgle.checking`,
`pgle.applying` and `pgle.proving`, in the order in which a profile is made and used.
docs/formats/pgle.md says what XLA takes, and what it ignores without a message.
"""
