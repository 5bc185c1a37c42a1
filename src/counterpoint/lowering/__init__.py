"""Finds the step of a program by running the program unchanged, without computing it.

`command` runs it with the `emulator` in its process, and reads the result: the step as StableHLO,
and Settings that the program gives itself. `result` reads the emulator's reports and its result,
`errors` has the errors raised if no step was found. Start with `command`, then read
`emulator/step_finder`. docs/concepts/lowering.md explains it all.
"""

from counterpoint.lowering.command import lower_command as lower_command
