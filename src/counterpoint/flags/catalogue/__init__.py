"""The catalogue: the flags and options of each release of jaxlib, read from the releases.

`flag` stores releases as changes, `lookup` builds a Release from them, and `flags.history` follows
one name. `libtpu` has the flags of libtpu's releases.
"""
