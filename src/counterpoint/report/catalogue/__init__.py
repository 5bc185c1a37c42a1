"""Reports of `flags list`, `show` and `diff`, as Documents and as JSON."""
