"""Reads a Target from a user's file: a known GPU with other numbers, or a custom one.

docs/reference/target-files.md describes the file. Quantities have units ("450 GB/s"), since bare
numbers are the most common mistake.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn, cast

from msgspec.structs import replace

from counterpoint.core import InputError, parse_toml
from counterpoint.core.opening import read_input
from counterpoint.hardware.chip import Chip, chip_of_gpu, find_gpu, find_wiring, gpus
from counterpoint.hardware.gpu import Gpu
from counterpoint.hardware.links import UNKNOWN_WIRING, Wiring
from counterpoint.hardware.target import Target
from counterpoint.hardware.target_config import target_config

_SCALES: Final = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_SCALES_OF_2: Final = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_QUANTITY: Final = re.compile(r"\s*(\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*+([A-Za-z/]*)\s*+")
_UNITS: Final = {
    "bytes per second": (r"(?P<scale>[kMGT]i?)?B(?:/s|ps)", "450 GB/s"),
    "bits per second": (r"(?P<scale>[kMGT])?b(?:it)?(?:/s|ps)", "400 Gb/s"),
    "bytes": (r"(?P<scale>[kMGT]i?)?B", "80 GB"),
    "operations per second": (r"(?P<scale>[GTP])?(?:FLOPS?|OPS|FLOP/s|OP/s)", "989 TFLOP/s"),
}
_TYPES: Final = ("bf16", "f16", "tf32", "f32", "f64", "f8", "s8", "f4")
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "": ("base", "hosts", "gpus_per_host", "chip", "links", "network", "source"),
    "chip": ("flops", "hbm", "memory"),
    "chip.flops": _TYPES,
    "links": ("generation", "domain", "rate", "host_rate"),
    "network": ("nics_per_host", "nic"),
}
_GUIDE: Final = "docs/reference/target-files.md shows a whole file"


def read_target(path: str) -> Target:
    """Read the Target that the file describes; raise InputError for a mistake in it."""
    file = _File(path, _parsed(path))
    gpu = file.base()
    hosts = file.count("hosts", 1)
    per_host = file.count("gpus_per_host", None)
    gbps, nics = file.network(per_host)
    chip, gpu = file.chip(gpu)
    wiring = file.wiring(gpu)
    file.check_host(per_host, gpu, wiring)
    return Target(
        gpu=gpu.name,
        gpus_per_host=per_host,
        hosts=hosts,
        nic_gbps=gbps,
        nics_per_host=nics,
        config=target_config(gpu),
        own_chip=chip,
        own_wiring=wiring,
        origin=path,
    )


def _parsed(path: str) -> dict[str, Any]:
    try:
        return parse_toml(read_input(path).decode())
    except OSError as error:
        raise InputError(
            f"--target {path}: cannot be read: {error.strerror or error}",
            next="use --target 8xH100",
        ) from error
    except ValueError as error:
        raise InputError(f"{path} is not a TOML file", why=str(error), next=_GUIDE) from error


class _File:
    """A parsed file, with the path of each value for errors."""

    def __init__(self, path: str, values: dict[str, Any]) -> None:
        self._path = path
        self._values = values
        for section, known in _FIELDS.items():
            for name in self._section(section):
                if name not in known:
                    self._unknown(f"{section}.{name}".lstrip("."), name, known)

    def base(self) -> Gpu:
        """Return the known GPU that supplies everything the file omits."""
        name = self._values.get("base")
        known = "known GPUs: " + ", ".join(gpu.name for gpu in gpus())
        if not isinstance(name, str):
            raise InputError(
                f"{self._path}: base, the GPU to compile for, is missing", why=known, next=_GUIDE
            )
        gpu = find_gpu(name)
        if gpu is None:
            raise InputError(f"{self._path}: base {name!r} is not a known GPU", why=known)
        return gpu

    def count(self, name: str, otherwise: int | None) -> int:
        """Return a positive whole number."""
        value = self._values.get(name, otherwise)
        if value is None:
            self._wrong(name, "is missing", f"write {name} = 8")
        return self._whole(name, value)

    def network(self, per_host: int) -> tuple[float | None, int | None]:
        """Return Gb/s per GPU and NICs per host, if the file has them."""
        section = self._section("network")
        if not section:
            return None, None
        nics = self._whole("network.nics_per_host", section.get("nics_per_host", per_host))
        nic = self._quantity("network", "nic", "bits per second")
        if nic is None:
            self._wrong("network.nic", "is missing", 'write nic = "400 Gb/s"')
        return nic / 1e9 * nics / per_host, nics

    def chip(self, gpu: Gpu) -> tuple[Chip | None, Gpu]:
        """Return the chip with the file's rates, and the GPU with the file's memory."""
        known = chip_of_gpu(gpu.name)
        if not self._section("chip") or known is None:
            return None, gpu
        flops = dict(known.flops)
        for name in self._section("chip.flops"):
            flops[name] = self._quantity("chip.flops", name, "operations per second") or 0.0
        hbm = self._quantity("chip", "hbm", "bytes per second")
        memory = self._quantity("chip", "memory", "bytes")
        chip = replace(
            known,
            flops=flops,
            hbm_bytes=hbm or known.hbm_bytes,
            memory_bytes=memory or known.memory_bytes,
            source=self._source(),
        )
        changed = replace(
            gpu,
            memory_bytes=round(memory) if memory else gpu.memory_bytes,
            memory_bytes_per_s=round(hbm) if hbm else gpu.memory_bytes_per_s,
        )
        return chip, changed

    def wiring(self, gpu: Gpu) -> Wiring | None:
        """Return the file's links."""
        section = self._section("links")
        if not section:
            return None
        known = find_wiring(gpu.name) or UNKNOWN_WIRING
        rate = self._quantity("links", "rate", "bytes per second")
        host = self._quantity("links", "host_rate", "bytes per second")
        return replace(
            known,
            generation=str(section.get("generation", known.generation)),
            domain=self._whole("links.domain", section.get("domain", known.domain)),
            domain_bytes_per_s=known.domain_bytes_per_s if rate is None else rate,
            pcie_bytes_per_s=host or known.pcie_bytes_per_s,
            spans_hosts=known.spans_hosts or "domain" in section,
            source=self._source(),
        )

    def check_host(self, per_host: int, gpu: Gpu, wiring: Wiring | None) -> None:
        """Refuse a host larger than any sold, unless the file says what joins its GPUs."""
        known = wiring or find_wiring(gpu.name) or UNKNOWN_WIRING
        stated = known.domain if "domain" in self._section("links") else 0
        if per_host > max(known.most, stated):
            raise InputError(
                f"{self._path}: gpus_per_host is {per_host:,}, more than any host with {gpu.name}"
                " has",
                why=f"the maximum is {known.most:,}: {known.host_source}",
                next=f"set hosts, and gpus_per_host = {known.host}; if your links join more GPUs,"
                f" set [links] domain = {per_host}",
            )

    def _source(self) -> str:
        return str(self._values.get("source", self._path))

    def _section(self, name: str) -> dict[str, Any]:
        section = self._values
        for part in name.split(".") if name else ():
            inner = section.get(part, {})
            if not isinstance(inner, dict):
                self._wrong(name, "is not a table", f"write [{name}], followed by its fields")
            section = cast(dict[str, Any], inner)
        return section

    def _whole(self, name: str, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= 1 << 20:
            self._wrong(name, f"is {value!r}", "it must be a positive integer")
        return value

    def _quantity(self, section: str, name: str, kind: str) -> float | None:
        value = self._section(section).get(name)
        if value is None:
            return None
        unit, example = _UNITS[kind]
        match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
        scale = re.fullmatch(unit, match[2]) if match else None
        if match is None or scale is None:
            self._wrong(
                f"{section}.{name}",
                f"is {value!r}",
                f'it must be in {kind}, as in {name} = "{example}"',
            )
        prefix = scale["scale"] or ""
        size = float(match[1]) * (_SCALES | _SCALES_OF_2)[prefix]
        if not 0 < size < 1e21:
            self._wrong(f"{section}.{name}", f"is {value!r}", "it must be positive")
        return size

    def _unknown(self, where: str, name: str, known: tuple[str, ...]) -> NoReturn:
        near = difflib.get_close_matches(name, known, 1)
        raise InputError(
            f"{self._path}: {where} is not a field of a target file",
            why="fields: " + ", ".join(known),
            next=f"did you mean {near[0]}?" if near else _GUIDE,
        )

    def _wrong(self, where: str, what: str, next: str) -> NoReturn:
        raise InputError(f"{self._path}: {where} {what}", why=next, next=_GUIDE)
