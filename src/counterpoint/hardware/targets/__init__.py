"""Targets as users write them: names such as `64x8xH100:8x400G`, and TOML files."""

from counterpoint.hardware.targets.target_file import mismatched_chip as mismatched_chip
from counterpoint.hardware.targets.target_file import mismatched_devices as mismatched_devices
from counterpoint.hardware.targets.target_file import unknown_devices as unknown_devices
from counterpoint.hardware.targets.target_text import even_hosts as even_hosts
from counterpoint.hardware.targets.target_text import parse_devices as parse_devices
from counterpoint.hardware.targets.target_text import parse_target as parse_target
from counterpoint.hardware.targets.target_text import resize_advice as resize_advice
from counterpoint.hardware.targets.target_text import target_name as target_name
