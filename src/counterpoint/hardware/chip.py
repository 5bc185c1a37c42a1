"""Chips: everything known of a kind of device, one file each (chips/*.toml).

Whoever wants to know something of a chip asks here: the names that profiles and users give it, its
peak rates, what XLA's compiler is told of it, its links, and what was measured on it. A new chip is
a new file.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, Final

import msgspec

from counterpoint.hardware.gpu import Gpu
from counterpoint.hardware.links import Wiring
from counterpoint.hardware.tpu import Tpu

_PART: Final = re.compile(r"\bMIG\b", re.IGNORECASE)
"""Marks the name of a slice of a GPU, which has only part of its rates."""
_REFERENCE: Final = "H100 SXM"
"""The chip whose kernels stand for those of a chip that nothing is known of."""


class Chip(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of device: boards of one name that differ in clocks, memory or links are several.

    Peaks are the makers' dense figures (no structured sparsity), per device as JAX counts devices.
    They are upper bounds, for comparison (MFU) and for the cost model to derate; no kernel reaches
    them.
    """

    name: str
    vendor: str
    architecture: str
    # Matches its names in profiles, and those of no other chip: a name that no pattern matches is
    # unknown. Profiles that don't name the chip are told by compute capability, cores, memory and
    # clock, which the XPlane reader puts into words; not where boards of other rates have the same.
    pattern: str
    # Dense FLOP/s of the matrix units by element type: bf16, f16, tf32 (what f32 GEMMs use by
    # default), f32, f64, f8, s8 (operations), f4. A type left out has no rate of its own.
    flops: Mapping[str, float]
    hbm_bytes: float  # bytes/s
    memory_bytes: float  # as sold: a GB is 1e9 bytes
    source: str

    # Names of machines and accelerators in launch files, in lower case: a word that is in one, and
    # its pattern. Clouds list theirs: https://cloud.google.com/compute/docs/gpus,
    # https://cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus,
    # https://aws.amazon.com/ec2/instance-types,
    # https://learn.microsoft.com/azure/virtual-machines/sizes/overview,
    # https://docs.oracle.com/iaas/Content/Compute/References/computeshapes.htm. Also labels that
    # NVIDIA's device plugin gives nodes (nvidia.com/gpu.product).
    machines: tuple[tuple[str, str], ...] = ()

    gpu: Gpu | None = None  # what XLA's compiler is told, if it can compile for it
    links: Wiring | None = None
    tpu: Tpu | None = None

    # What was measured, which the cost model decodes (cost/compute/kernels.py, cost/scalars.py); a
    # chip without kernels of its own has those of the one that it names.
    kernels: Mapping[str, Any] = {}
    scalars: Mapping[str, Any] = {}
    kernels_of: str = ""
    stands_for: str = ""  # names of chips without a file that have its kernels, as a pattern
    # Measured collectives within its domain: a file beside this one, or the chip that has it.
    collective_table: str = ""
    collectives_of: str = ""

    @property
    def bf16_flops(self) -> float:
        return self.flops["bf16"]

    @property
    def target_name(self) -> str:
        """Its name in targets: H100 of H100 SXM."""
        return self.gpu.name if self.gpu else self.name


@cache
def chips() -> tuple[Chip, ...]:
    """Return all known chips, by the names of their files."""
    files = {file.name.removesuffix(".toml"): file for file in _folder().iterdir()}
    return tuple(read_chip(file) for stem, file in sorted(files.items()) if stem != file.name)


def read_chip(file: Traversable) -> Chip:
    """Read a chip's file; raise ValueError for a mistake in it, with the file and the key."""
    try:
        return msgspec.convert(tomllib.loads(file.read_text("utf-8")), Chip)
    except ValueError as error:  # of TOML, or of a key: msgspec names it
        raise ValueError(f"hardware/chips/{file.name}: {error}") from error


def measured_lines(name: str) -> list[str]:
    """Return the lines of a table beside the files, without comments."""
    text = _folder().joinpath(name).read_text("utf-8")
    return [line for line in text.splitlines() if not line.startswith("#")]


def _folder() -> Traversable:
    return resources.files("counterpoint.hardware").joinpath("chips")


def find_chip(name: str | None) -> Chip | None:
    """Return the chip with this name in profiles; None if it is unknown."""
    if name is None or _PART.search(name):
        return None
    return next((chip for chip in chips() if re.search(chip.pattern, name, re.IGNORECASE)), None)


def chip_label(name: str | None, kind: str) -> str:
    """Return how reports name a device: `MI300X (gpu)`, or `gpu (chip not recorded)`.

    A chip that is not known keeps the name that its profile records.
    """
    chip = find_chip(name)
    named = chip.name if chip else name
    return f"{named} ({kind})" if named else f"{kind} (chip not recorded)"


def chip_named(name: str) -> Chip | None:
    """Return the chip with exactly this name in its file."""
    return next((chip for chip in chips() if chip.name == name), None)


@cache
def chip_of_gpu(name: str) -> Chip | None:
    """Return the chip of the GPU that targets name so, in any case and spelling: H100, h100-sxm."""
    wanted = _plain(name)
    return next(
        (
            chip
            for chip in chips()
            if chip.gpu and wanted in map(_plain, (chip.gpu.name, *chip.gpu.aliases))
        ),
        None,
    )


def _plain(name: str) -> str:
    return "".join(character for character in name.casefold() if character.isalnum())


@cache
def kernel_chip(name: str) -> Chip:
    """Return the chip whose kernels stand for those of the chip with this name, known or not."""
    chip = chip_of_gpu(name) or chip_named(name) or find_chip(name)
    if chip is not None and (chip.kernels or chip.kernels_of):
        return chip if chip.kernels else _named(chip.kernels_of)
    alike = (it for it in chips() if it.stands_for and re.search(it.stands_for, name.upper()))
    return next(alike, None) or _named(_REFERENCE)


def collective_chip(gpu: str) -> Chip | None:
    """Return the chip whose measured collectives hold for the GPU; None if there is none."""
    chip = chip_of_gpu(gpu)
    if chip is None or chip.collective_table:
        return chip
    return _named(chip.collectives_of) if chip.collectives_of else None


def _named(name: str) -> Chip:
    chip = chip_named(name)
    if chip is None:
        raise ValueError(f"no file in hardware/chips has the name {name}")
    return chip


@cache
def gpus() -> tuple[Gpu, ...]:
    """Return all GPUs that can be compiled for."""
    return tuple(chip.gpu for chip in chips() if chip.gpu)


def find_gpu(name: str) -> Gpu | None:
    """Return the GPU that targets name so, in any case and spelling: H100, A100_40GB."""
    chip = chip_of_gpu(name)
    return chip.gpu if chip else None


def find_described(description: str) -> Gpu | None:
    """Return the GPU with this driver name."""
    return next((gpu for gpu in gpus() if gpu.description == description), None)


@cache
def find_wiring(name: str) -> Wiring | None:
    """Return the links of the chip that targets name so."""
    return next((chip.links for chip in chips() if chip.target_name == name), None)


@cache
def tpus() -> tuple[Tpu, ...]:
    """Return all generations of TPU."""
    return tuple(chip.tpu for chip in chips() if chip.tpu)


def find_tpu(name: str | None) -> Tpu | None:
    """Return the generation of the chip with this name in profiles; None for other chips."""
    chip = find_chip(name)
    return chip.tpu if chip else None


def tpu_named(name: str) -> Tpu | None:
    """Return the generation that slices of this name are of: v5e, v5litepod, tpu7x."""
    plain = name.casefold().removeprefix("tpu")
    return next(
        (tpu for tpu in tpus() if plain in (tpu.name.removeprefix("tpu"), *tpu.aliases)), None
    )


def chip_of_tpu(tpu: Tpu) -> Chip:
    """Return the chip of a generation."""
    return next(chip for chip in chips() if chip.tpu == tpu)
