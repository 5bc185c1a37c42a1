"""Gathering: the only place of the doctor that reads files, asks the kernel and starts programs.

`root` stands for `/`: tests lay a directory of their own there. Nothing here judges, and nothing
here fails: what can't be read is left out, and the check that needs it says so.
"""

from counterpoint.doctor.gather.gather import gather as gather
