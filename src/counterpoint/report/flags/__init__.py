"""Reports of `flags check`, `flags render` and `flags effective`, as Documents and as JSON."""
