"""The command line: one file per command, without logic of its own."""

from counterpoint.cli.app import main as main
from counterpoint.cli.app import program as program
