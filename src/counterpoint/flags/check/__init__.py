"""`check`: run every rule on the settings of each program of a source, and apply fixes."""
