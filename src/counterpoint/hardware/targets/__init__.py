"""Targets as users write them: names such as `64x8xH100:8x400G`, and TOML files."""

from counterpoint.hardware.targets.target_file import other_chip as other_chip
from counterpoint.hardware.targets.target_file import other_devices as other_devices
from counterpoint.hardware.targets.target_file import unknown_devices as unknown_devices
from counterpoint.hardware.targets.target_text import even_hosts as even_hosts
from counterpoint.hardware.targets.target_text import parse_devices as parse_devices
from counterpoint.hardware.targets.target_text import parse_target as parse_target
from counterpoint.hardware.targets.target_text import sized as sized
from counterpoint.hardware.targets.target_text import spelled as spelled
