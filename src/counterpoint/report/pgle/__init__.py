"""Reports of the `pgle` commands, as Documents and as JSON."""
