"""The command line: one file per command, and no logic of its own."""

from counterpoint.cli.app import main as main
