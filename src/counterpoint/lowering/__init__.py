"""Finds the step of a program by running the program unchanged, without computing it.

`command` runs it with the `emulator` in its process, and reads the result: the step as StableHLO,
and Settings that the program gives itself. `result` reads the emulator's reports and its result,
`errors` has the errors raised if no step was found. Start with `command`, then read
`emulator/step_finder`. `absent_gpu`, `replace_custom_partitioning` and `watch_training` serve
`compile`, too, which lowers functions. docs/concepts/lowering.md explains it all.
"""

from counterpoint.lowering.command import lower_command as lower_command
from counterpoint.lowering.emulator.absent_gpu import absent_gpu as absent_gpu
from counterpoint.lowering.emulator.custom_partitioning import (
    replace_custom_partitioning as replace_custom_partitioning,
)
from counterpoint.lowering.emulator.training_watch import watch_training as watch_training
from counterpoint.lowering.errors import INSTALL_ABSL as INSTALL_ABSL
from counterpoint.lowering.errors import NO_PALLAS as NO_PALLAS
from counterpoint.lowering.gpu_facts import compute_capability as compute_capability
from counterpoint.lowering.memory_limit import MemoryLimit as MemoryLimit
