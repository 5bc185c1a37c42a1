"""Gathering: the only part of the doctor that reads files, queries the kernel and starts programs.

`root` stands for `/`, so that tests can use a directory of their own. Nothing here judges, and
nothing here fails: what can't be read is left out, and the check that needs it reports that.
"""

from counterpoint.doctor.gather.gather import gather as gather
