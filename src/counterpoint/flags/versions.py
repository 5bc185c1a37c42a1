"""Releases of jaxlib and chips, as far as settings depend on them.

docs/concepts/settings.md says what was found with which release; observed.py has it as data.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from counterpoint.flags.observed import has
from counterpoint.flags.release_number import version_number
from counterpoint.hardware.chip import Chip, chip_of_gpu, find_chip

__all__ = [
    "DISABLED_PASSES",
    "LHS",
    "PROFILE",
    "SCHEDULER",
    "SYNCHRONOUS",
    "async_collectives_off",
    "chip_family",
    "expect_pgle_known",
    "false_stops_scheduler",
    "lhs_flag_needed",
    "scheduler_off",
    "scheduler_on",
    "version_number",
]


LHS: Final = "xla_gpu_enable_latency_hiding_scheduler"
SOL: Final = "xla_gpu_enable_analytical_sol_latency_estimator"
DISABLED_PASSES: Final = "xla_disable_hlo_passes"
SCHEDULER: Final = "latency-hiding-scheduler"
SYNCHRONOUS: Final = "xla_gpu_disable_async_collectives"
ACCURACY: Final = "xla_gpu_pgle_accuracy_checker"
PROFILE: Final = "xla_gpu_pgle_profile_file_or_directory_path"

_SCHEDULED_UNASKED: Final = re.compile(r"\b(H|GH|B|GB)\d{2,3}\b")
_COLLECTIVES: Final = (
    "ALLREDUCE",
    "ALLGATHER",
    "REDUCESCATTER",
    "COLLECTIVEBROADCAST",
    "ALLTOALL",
    "COLLECTIVEPERMUTE",
)
_ASYNC_BEFORE_0_4_27: Final = (
    "collectives",
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "collective_permute",
)


def lhs_flag_needed(version: str | None, chip: str | None, *, profile: bool = False) -> bool:
    """Return whether collectives are overlapped only if the scheduler's flag is set.

    A PGLE profile enables the scheduler, on any chip. Without one it runs by default if XLA has a
    model of the chip: Hopper and Blackwell. Both since a certain release.
    """
    if profile:
        return not has("profile-starts-scheduler", version)
    return not has("scheduler-by-default", version) or not _SCHEDULED_UNASKED.search(chip or "")


def scheduler_on() -> tuple[tuple[str, str], ...]:
    """Return the flag that enables the scheduler, whatever is inherited.

    Where it is not needed it changes nothing; newer releases obey an inherited `=false` even with a
    PGLE profile, which is then silently ignored.
    """
    return ((LHS, "true"),)


def false_stops_scheduler(version: str | None, *, profile: bool = False) -> bool:
    """Return whether the scheduler does not run on Hopper if its flag is `false`.

    It may be off by default, too. With a `profile`, which is then not read, on any chip.
    """
    behavior = "profile-read-despite-false" if profile else "scheduler-despite-false"
    return not has(behavior, version)


def scheduler_off(version: str | None) -> tuple[tuple[str, str], ...]:
    """Return flags with which each collective is waited for at once, on any chip, with any profile.

    Some releases ignore the scheduler's own flag on Hopper, or with a profile; disabling the pass
    stops it in all. The others are needed because JAX replaces the disabled passes when
    `jax_compiler_enable_remat_pass` is off; they suffice if no profile is given. The program before
    scheduling stays the same, and so does its fingerprint.
    """
    estimator = ((SOL, "false"),) if version_number(version) >= (0, 5, 0) else ()
    return ((LHS, "false"), *estimator, (DISABLED_PASSES, SCHEDULER))


def async_collectives_off(version: str | None) -> tuple[tuple[str, str], ...]:
    """Return flags that make each kind of collective synchronous.

    They change the program before scheduling and thus its fingerprint, so that a profile made with
    them is not found by fingerprint in a run without them.
    """
    if version_number(version) < (0, 4, 27):
        return tuple((f"xla_gpu_enable_async_{kind}", "false") for kind in _ASYNC_BEFORE_0_4_27)
    kinds = (
        (*_COLLECTIVES, "RAGGEDALLTOALL") if version_number(version) >= (0, 5, 3) else _COLLECTIVES
    )
    return ((SYNCHRONOUS, ",".join(kinds)),)


def expect_pgle_known(version: str | None) -> bool:
    """Return whether JAX has JAX_COMPILATION_CACHE_EXPECT_PGLE."""
    return version_number(version) >= (0, 5, 1)


class ChipFamily(Enum):
    """Chips that XLA's compiler treats alike."""

    OLDER = "older than Ampere"
    AMPERE = "Ampere"
    ADA = "Ada"
    HOPPER = "Hopper"
    BLACKWELL = "Blackwell"
    AMD = "AMD"
    TPU = "TPU"

    @property
    def is_nvidia(self) -> bool:
        """True if NCCL and CUDA are used on it."""
        return self not in (ChipFamily.AMD, ChipFamily.TPU)


_NAMES: Final = (
    (r"\bTPU\b", ChipFamily.TPU),
    (r"\bMI\d{2,3}|\bAMD\b", ChipFamily.AMD),
    (r"\bG?B\d{3}\b|\bRTX (50|PRO)", ChipFamily.BLACKWELL),
    (r"\bG?H\d{2,3}\b", ChipFamily.HOPPER),
    (r"\bL4\b|\bL40|\bRTX (4\d|6000 Ada)", ChipFamily.ADA),
    (r"\bA\d{2,3}[A-Z]?\b|\bRTX (3\d|A\d)", ChipFamily.AMPERE),
    (r"\b[VTPK]\d{1,3}\b", ChipFamily.OLDER),
)
_WITHOUT_SWITCH: Final = re.compile(r"PCIe|NVL\b|\bRTX\b|\bGH200\b", re.IGNORECASE)


_VENDORS: Final = {"AMD": ChipFamily.AMD, "Google": ChipFamily.TPU}
_ARCHITECTURES: Final = {
    "blackwell": ChipFamily.BLACKWELL,
    "hopper": ChipFamily.HOPPER,
    "ada": ChipFamily.ADA,
    "ampere": ChipFamily.AMPERE,
    "volta": ChipFamily.OLDER,
}


def chip_family(chip: str | None) -> ChipFamily | None:
    """Return the family of a chip; None if it is not named, or unknown: rules then say nothing.

    A chip is named as hardware names it: `H100`, `NVIDIA A100-SXM4-40GB`, `MI300X`, `TPU v5p`. Of
    one without a file there, the name decides.
    """
    known = _described(chip)
    if known is not None:
        return _VENDORS.get(known.vendor) or _ARCHITECTURES.get(known.architecture)
    return next((kind for pattern, kind in _NAMES if re.search(pattern, chip or "")), None)


def has_nvls(chip: str | None) -> bool | None:
    """Return whether NVSwitch can reduce for NCCL: Hopper and Blackwell behind NVLink switches."""
    kind = chip_family(chip)
    if kind is None:
        return None
    if kind not in (ChipFamily.HOPPER, ChipFamily.BLACKWELL):
        return False
    known = _described(chip)
    if known is not None and known.links is not None:
        return True if known.links.nvls else None
    return None if _WITHOUT_SWITCH.search(chip or "") else True


def _described(chip: str | None) -> Chip | None:
    return (chip_of_gpu(chip) or find_chip(chip)) if chip else None
