"""Condition: for which release, chip and cluster a line of a recipe is meant.

What is not known counts as met, but for the scheduler's flag: asking for what runs anyhow changes
nothing, and not asking for what does not run costs the overlap.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from counterpoint.flags.version import lhs_flag_needed, number

FAMILIES: Final = {
    "blackwell": re.compile(r"\bG?B\d{2,3}\b|\bRTX (50\d\d|PRO)"),
    "hopper": re.compile(r"\bG?H\d{2,3}\b"),
    "ada": re.compile(r"\b(L4|L40S?|RTX 40\d\d|RTX 6000 Ada)\b"),
    "ampere": re.compile(r"\bA(10|16|30|40|100|800)G?\b|\bRTX (30\d\d|A\d{4})\b"),
    "volta": re.compile(r"\b(V100S?|T4|P4|P40|P100)\b"),
    "amd": re.compile(r"\bMI\d{3}"),
    "tpu": re.compile(r"\bTPU|^v\d+[a-z]*$", re.IGNORECASE),
}
"""How chips are named, by the generation that recipes speak of."""

_SPOKEN: Final = {"amd": "AMD", "tpu": "TPU", "volta": "older chips"}

NEEDED: Final = ("scheduler",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """All of it must hold."""

    since: str | None = None  # the oldest jaxlib
    before: str | None = None  # the oldest jaxlib that must not have it any more
    chips: tuple[str, ...] = ()  # generations; none: all of them
    not_chips: tuple[str, ...] = ()
    hosts: str = ""  # "one" or "several"
    needed: str = ""  # "scheduler": where nothing else starts it

    def why_not(
        self, version: str | None, chip: str | None, hosts: int | None = None
    ) -> str | None:
        """Why it does not hold; None where it does."""
        release, kind = number(version), family(chip)
        if self.since is not None and release < number(self.since):
            return f"needs jaxlib {self.since}"
        if self.before is not None and release >= number(self.before):
            return f"until jaxlib {self.before} only"
        if kind is not None and (kind in self.not_chips or (self.chips and kind not in self.chips)):
            return f"not for {chip}"
        if hosts is not None and self.hosts and (hosts > 1) != (self.hosts == "several"):
            return "for one host only" if self.hosts == "one" else "for several hosts only"
        if self.needed == "scheduler" and not lhs_flag_needed(version, chip):
            return f"runs unasked on {chip}"
        return None

    def unsettled(self, chip: str | None) -> str | None:
        """Which chips it is for, where the chip is not known and it is not for all of them."""
        if family(chip) is not None or not (self.chips or self.not_chips):
            return None
        named = self.chips or self.not_chips
        words = ", ".join(_SPOKEN.get(one, one.capitalize()) for one in named)
        return f"only on {words}" if self.chips else f"not on {words}"


def family(chip: str | None) -> str | None:
    """The generation of a chip, by its name; None where it is not known."""
    if chip is None:
        return None
    return next((name for name, pattern in FAMILIES.items() if pattern.search(chip)), None)
