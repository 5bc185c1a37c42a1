"""Chips and links as data: each number with its unit and where it comes from."""

from counterpoint.hardware.gpu import Chip as Chip
from counterpoint.hardware.gpu import find_chip as find_chip
from counterpoint.hardware.links import Links as Links
from counterpoint.hardware.target import Devices as Devices
from counterpoint.hardware.target import Target as Target
from counterpoint.hardware.target_text import parse_devices as parse_devices
from counterpoint.hardware.target_text import parse_target as parse_target
