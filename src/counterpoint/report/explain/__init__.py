"""Reports of `explain`, `compare` and `network`, as Documents and as JSON."""
