"""The family of a chip, as rules about flags need it: by its file, else by its name."""

from __future__ import annotations

import pytest

from counterpoint.flags.versions import ChipFamily, chip_family, has_nvls


@pytest.mark.parametrize(
    ("name", "family", "nvls"),
    [
        ("H100", ChipFamily.HOPPER, True),
        ("NVIDIA H100 80GB HBM3", ChipFamily.HOPPER, True),
        ("H100-PCIe", ChipFamily.HOPPER, None),
        ("RTX-PRO-6000", ChipFamily.BLACKWELL, None),
        ("A100", ChipFamily.AMPERE, False),
        ("MI355X", ChipFamily.AMD, False),
        ("TPU v5e", ChipFamily.TPU, False),
        ("TPU7x", ChipFamily.TPU, False),  # \bTPU\b does not match its name
        # Without a file.
        ("L4", ChipFamily.ADA, False),
        ("T4", ChipFamily.OLDER, False),
        ("AMD", ChipFamily.AMD, False),
        ("GH200", ChipFamily.HOPPER, None),
        ("Gaudi 3", None, None),
        (None, None, None),
    ],
)
def test_the_family_of_a_chip(
    name: str | None, family: ChipFamily | None, nvls: bool | None
) -> None:
    assert chip_family(name) is family
    assert has_nvls(name) is nvls
