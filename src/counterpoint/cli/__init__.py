"""The command line: one file per command, and no logic of its own."""
