"""Tables in pages that are written by hand, between `<!--table NAME-->` and `<!--/table-->`.

`make docs` fills them from the data, and a test compares, so that a new chip or format touches no
page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from counterpoint.hardware.chip import chips
from counterpoint.hardware.links import Wiring
from counterpoint.hardware.tpu import Tpu, TpuSlice
from counterpoint.timeline.formats import kinds_in_directory

_TABLE: Final = re.compile(r"(<!--table (\w+)-->\n).*?(?=<!--/table-->)", re.DOTALL)
_SHOWN_CHIPS: Final = 64
"""Chips of the slice that shows how sizes are counted."""


def with_made_tables(text: str) -> str:
    """The page, with each of its tables as the data has it."""
    return _TABLE.sub(lambda found: found[1] + "\n".join(["", *TABLES[found[2]](), "", ""]), text)


def _gpus() -> Iterator[str]:
    yield from _head(
        "name", "chip", "memory:", "NVLink or equivalent, per direction:",
        "most per host or rack:", "default network:",
    )  # fmt: skip
    for chip in chips():
        if chip.gpu is None or chip.links is None:
            continue
        names = ", ".join((chip.gpu.name, *chip.gpu.aliases))
        links = chip.links
        yield _row(
            names, chip.name, _gb(chip.memory_bytes), _rate(links), links.most,
            f"{links.nic_gbps:g} Gb/s",
        )  # fmt: skip


def _rate(links: Wiring) -> str:
    if links.joins:
        return f"{links.domain_bytes_per_s / 1e9:g} GB/s"
    return f"{links.generation}, {links.pcie_bytes_per_s / 1e9:g} GB/s"


def _tpus() -> Iterator[str]:
    yield from _head(
        "name", "a size", "device", "memory, usable:", "links of a chip, per direction:",
        "largest slice:", "default network per host:",
    )  # fmt: skip
    for chip in chips():
        if chip.tpu is None:
            continue
        tpu = chip.tpu
        yield _row(
            ", ".join((tpu.name, *tpu.aliases)), _size(tpu),
            "a chip" if tpu.devices == 1 else "a core, two per chip",
            f"{tpu.hbm_usable / 2**30:.1f} GiB",
            f"{tpu.ici_links}, {tpu.ici_bytes_per_s / 1e9:g} GB/s", f"{tpu.slice:,} chips",
            f"{tpu.dcn_gbps:g} Gb/s",
        )  # fmt: skip


def _size(tpu: Tpu) -> str:
    shape = tpu.shape(_SHOWN_CHIPS) or ()
    return f"{TpuSlice(tpu=tpu, shape=shape)}: {_SHOWN_CHIPS} chips, {'x'.join(map(str, shape))}"


def _all_chips() -> Iterator[str]:
    yield from _head("chip", "bf16, dense:", "memory:", "bandwidth:", "source")
    for chip in chips():
        yield _row(
            chip.name, f"{chip.bf16_flops / 1e12:g} TFLOP/s", _gb(chip.memory_bytes),
            f"{chip.hbm_bytes / 1e12:g} TB/s", chip.source,
        )  # fmt: skip


def _formats() -> Iterator[str]:
    yield from _head("format", "files", "described in")
    for it in kinds_in_directory():
        endings = ", ".join(f"`{ending}`" for ending in it.endings)
        yield _row(it.name, endings, f"[{it.page.removesuffix('.md')}]({it.page})")


def _gb(size: float) -> str:
    return f"{size / 1e9:.0f} GB"


def _head(*names: str) -> Iterator[str]:
    """The head of a table; columns whose names end with a colon are aligned to the right."""
    yield _row(*(name.removesuffix(":") for name in names))
    yield f"|{'|'.join('---:' if name.endswith(':') else '---' for name in names)}|"


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


TABLES: Final[Mapping[str, Callable[[], Iterable[str]]]] = {
    "gpus": _gpus,
    "tpus": _tpus,
    "chips": _all_chips,
    "formats": _formats,
}


def pages_with_tables(docs: Path) -> Mapping[str, str]:
    """The pages of docs that have tables, by their paths within it, as they have to be."""
    found: dict[str, str] = {}
    for page in sorted(docs.rglob("*.md")):
        text = page.read_text("utf-8")
        if _TABLE.search(text):
            found[page.relative_to(docs).as_posix()] = with_made_tables(text)
    return found
