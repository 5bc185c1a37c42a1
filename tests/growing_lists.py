"""Lists of all formats or chips in messages: golden texts do without, and new ones renew none."""

from __future__ import annotations

from counterpoint.hardware.chip import chips, gpus
from counterpoint.timeline.formats import endings_in_zip, kinds_in_directory, supported_formats


def without_lists(text: str) -> str:
    """The text, in which lists of all formats or chips are named only."""
    for listed, shown in _lists().items():
        text = text.replace(listed, shown)
    return text


def _lists() -> dict[str, str]:
    gpu_names = [gpu.name for gpu in gpus()]
    chip_names = [chip.name for chip in chips()]
    return {
        ", ".join(dict.fromkeys([*gpu_names, *chip_names])): "ALL CHIPS",
        ", ".join(chip_names): "ALL CHIPS",
        ", ".join(gpu_names): "ALL GPUS",
        supported_formats(): "ALL FORMATS",
        ", ".join(ending for it in kinds_in_directory() for ending in it.endings): "ALL ENDINGS",
        ", ".join(ending for kind in endings_in_zip() for ending in kind): "ALL ENDINGS IN A ZIP",
    }
