"""Whose kernels run on a chip: its architecture, by the name of the chip."""

from __future__ import annotations

from typing import Final

_BY_NAME: Final = (
    ("H100", "hopper"), ("H200", "hopper"), ("H20", "hopper"), ("H800", "hopper"),
    ("B200", "blackwell"), ("B300", "blackwell"), ("A100", "ampere"), ("A800", "ampere"),
    ("L40", "ada"), ("L4", "ada"), ("PRO 6000", "blackwell"), ("5090", "blackwell"),
    ("RTX", "ada"), ("MI3", "cdna3"), ("MI2", "cdna3"), ("V100", "ampere"), ("A10", "ampere"),
    ("A40", "ampere"), ("A30", "ampere"),
)  # fmt: skip


def architecture_of(chip: str) -> str:
    """By name: "hopper", "ampere"; a chip that is unknown is taken for a Hopper."""
    return next((it for name, it in _BY_NAME if name in chip.upper()), "hopper")
