"""Finds the step of a program by running the program unchanged, without computing it.

`command` runs it with the `emulator` in its process, and reads what that leaves: the step as
StableHLO, and Settings that the program gives itself. `journal` is what the emulator reports
meanwhile, `errors` what is raised where no step was found. Start with `command`, then read
`emulator/catcher`. docs/concepts/lowering.md explains it all.
"""

from counterpoint.lowering.command import lower_command as lower_command
