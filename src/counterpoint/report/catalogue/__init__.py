"""Reports of `flags list`, `show`, `diff` and `refresh`, as Documents and as JSON."""
