"""Reports of `predict`, `upgrade` and `calibrate`, as Documents and as JSON."""
