"""Chips, links and Targets as data: each number with its unit and its source.

Read gpu.py, links.py and tpu.py, then target.py. `hardware.targets` parses user input (`8xH100`)
and TOML files, and compares a Target with the devices of a recording.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.hardware.chip import Chip as Chip
    from counterpoint.hardware.chip import chip_label as chip_label
    from counterpoint.hardware.chip import chip_named as chip_named
    from counterpoint.hardware.chip import find_chip as find_chip
    from counterpoint.hardware.gpu import architecture_of as architecture_of
    from counterpoint.hardware.gpu import find_described as find_described
    from counterpoint.hardware.gpu import find_gpu as find_gpu
    from counterpoint.hardware.gpu import gpus as gpus
    from counterpoint.hardware.gpu import target_config as target_config
    from counterpoint.hardware.links import Links as Links
    from counterpoint.hardware.links import find_wiring as find_wiring
    from counterpoint.hardware.target import Target as Target
    from counterpoint.hardware.tpu import Tpu as Tpu
    from counterpoint.hardware.tpu import TpuSlice as TpuSlice
    from counterpoint.hardware.tpu import find_tpu as find_tpu

__getattr__ = lazy(__name__)
